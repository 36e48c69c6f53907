"""Grep and Glob over ripgrep, and over the walk that stands in for it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from desk import Desk
from hypothesis import given
from hypothesis import strategies as st

from tugline.protocol.errors import ToolError
from tugline.protocol.specs import Footprint, PathSubject
from tugline.rules.globs import expand_braces, matcher, split_base
from tugline.tools import search
from tugline.tools.builtin.glob import Glob
from tugline.tools.builtin.grep import Grep

GREP = Grep()
GLOB = Glob()


@pytest.fixture(params=["ripgrep", "walk"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "walk":
        monkeypatch.setattr(search, "_ripgreps", list)
    return str(request.param)


@pytest.fixture
def desk(tmp_path: Path, engine: str) -> Desk:
    desk = Desk(tmp_path)
    desk.file("src/a.py", "import os\nneedle = 1\nend\n")
    desk.file("src/deep/b.py", "x\nNeedle needle\n")
    desk.file("readme.md", "no such thing\nneedle\n")
    desk.file(".hidden/c.py", "needle\n")
    desk.file(".git/config", "needle\n")
    desk.file(".gitignore", "ignored/\n*.log\n!keep.log\n")
    desk.file("ignored/d.py", "needle\n")
    desk.file("e.log", "needle\n")
    desk.file("keep.log", "needle\n")
    for age, name in enumerate(["src/deep/b.py", "src/a.py", ".hidden/c.py", "readme.md", "keep.log", ".gitignore"]):
        os.utime(desk.root / name, (2_000_000_000 - age, 2_000_000_000 - age))
    return desk


async def refusal(desk: Desk, **data: object) -> str:
    with anyio.fail_after(20), pytest.raises(ToolError) as caught:
        await desk.call(GREP, **data)
    return str(caught.value)


async def test_files_that_match_come_newest_first(desk: Desk) -> None:
    assert (await desk.text(GREP, pattern="needle")).splitlines() == [
        "src/deep/b.py", "src/a.py", ".hidden/c.py", "readme.md", "keep.log",
    ]  # fmt: skip


async def test_lines_that_match_come_with_file_and_number(desk: Desk) -> None:
    text = await desk.text(GREP, pattern="needle", output_mode="content", path="src")
    assert text == "src/a.py:2:needle = 1\nsrc/deep/b.py:2:Needle needle"
    plain = {"pattern": "^need", "output_mode": "content", "path": "src/a.py", "-n": False}
    assert await desk.text(GREP, **plain) == "src/a.py:needle = 1"


async def test_lines_around_are_marked(desk: Desk) -> None:
    options = {"pattern": "needle", "output_mode": "content", "path": "src", "-C": 1}
    assert (await desk.text(GREP, **options)).splitlines() == [
        "src/a.py-1-import os", "src/a.py:2:needle = 1", "src/a.py-3-end", "--",
        "src/deep/b.py-1-x", "src/deep/b.py:2:Needle needle",
    ]  # fmt: skip
    options = {"pattern": "needle", "output_mode": "content", "path": "src/a.py", "-A": "1"}
    assert await desk.text(GREP, **options) == "src/a.py:2:needle = 1\nsrc/a.py-3-end"


async def test_lines_are_counted_by_file(desk: Desk) -> None:
    text = await desk.text(GREP, pattern="needle|end", output_mode="count", path="src")
    assert text == "src/a.py:2\nsrc/deep/b.py:1"


async def test_case_globs_and_types_narrow_down(desk: Desk) -> None:
    find = {"pattern": "NEEDLE"}
    assert "No matches" in await desk.text(GREP, **find)
    assert len((await desk.text(GREP, **find, **{"-i": True})).splitlines()) == 5
    assert await desk.text(GREP, pattern="needle", glob="*.md") == "readme.md"
    assert await desk.text(GREP, pattern="needle", type="md") == "readme.md"
    assert await desk.text(GREP, pattern="needle", glob="src/*.py") == "src/a.py"
    assert await desk.text(GREP, pattern="needle", glob="**/deep/*.{py,md}") == "src/deep/b.py"
    assert (await desk.text(GREP, pattern="needle", glob="*.py, *.md !.hidden/**")).splitlines() == [
        "src/deep/b.py", "src/a.py", "readme.md",
    ]  # fmt: skip


async def test_a_glob_does_not_bring_back_what_git_ignores(desk: Desk) -> None:
    assert await desk.text(GREP, pattern="needle", glob="*.log") == "keep.log"
    assert await desk.text(GLOB, pattern="*.log") == "keep.log"
    assert "No matches" in await desk.text(GREP, pattern="needle", glob="**/d.py")
    assert (await desk.text(GREP, pattern="needle", glob="*.md")) == "readme.md"


async def test_a_file_that_is_named_outright_is_searched_though_ignored(desk: Desk) -> None:
    assert await desk.text(GREP, pattern="needle", path="e.log") == "e.log"
    assert await desk.text(GREP, pattern="needle", path=str(desk.root / "ignored")) == "ignored/d.py"


async def test_a_pattern_may_span_lines(desk: Desk) -> None:
    options = {"pattern": "os.needle", "output_mode": "content", "multiline": True}
    assert await desk.text(GREP, **options) == "src/a.py:1:import os\nsrc/a.py:2:needle = 1"
    assert "No matches" in await desk.text(GREP, pattern="os.needle")


@pytest.mark.parametrize("pattern", [r"os\nneedle", "os\nneedle", r"[a\]b]\n", r"\\\n"])
async def test_a_pattern_with_a_line_end_is_not_answered_with_no_matches(desk: Desk, pattern: str) -> None:
    assert "Set `multiline`" in await refusal(desk, pattern=pattern)


@pytest.mark.parametrize("pattern", [r"imp[^\n]*os", r"imp[^\]\n]*os", r"(needle|\\n)", "imp[^\n]rt"])
async def test_a_pattern_that_only_speaks_of_line_ends_is_searched(desk: Desk, pattern: str) -> None:
    assert "src/a.py" in await desk.text(GREP, pattern=pattern)


async def test_long_results_are_paged(desk: Desk) -> None:
    desk.file("many.txt", "".join(f"row {n}\n" for n in range(1_000)))
    options = {"pattern": "^row", "output_mode": "content", "path": "many.txt"}
    text = await desk.text(GREP, **options)
    assert text.splitlines()[249] == "many.txt:250:row 249"
    assert text.endswith("[1 to 250 of 1,000 lines; go on with offset 250, or narrow the search.]")
    text = await desk.text(GREP, **options, head_limit=2, offset=500)
    assert text.startswith("many.txt:501:row 500\nmany.txt:502:row 501\n\n[501 to 502 of 1,000 lines")
    assert "only 1,000 lines; offset 1000" in await desk.text(GREP, **options, offset=1_000)
    text = await desk.text(GREP, **options, head_limit=0, offset=995)
    assert len(text.splitlines()) == 5


async def test_the_size_of_a_result_is_bounded(desk: Desk) -> None:
    desk.file("many.txt", ("word " * 90 + "\n") * 30_000)
    text = await desk.text(GREP, pattern="word", output_mode="content", path="many.txt", head_limit=0)
    assert len(text) < 21_000
    assert "of over " in text
    desk.file("wide.txt", "word" + "x" * 3_000_000 + "\n")
    assert len(await desk.text(GREP, pattern="word", output_mode="content", path="wide.txt")) < 700


async def test_text_of_the_model_is_never_an_option(desk: Desk) -> None:
    desk.file("-a.txt", "--version --pre=touch\n")
    assert await desk.text(GREP, pattern="--version") == "-a.txt"
    assert await desk.text(GREP, pattern="--pre=touch", path="-a.txt") == "-a.txt"
    assert "No matches" in await desk.text(GREP, pattern="needle", glob="--pre=touch")
    assert "unrecognized file type" in await refusal(desk, pattern="x", type="--pre=touch")


async def test_odd_names_do_not_break_it(desk: Desk) -> None:
    for name in (b"a\nb.txt", b"\xff\xfe.txt", b"tab\t.txt", b"quote'\".txt", "ünï.txt".encode(), b"--x:1:y.txt"):
        Path(os.fsdecode(os.fsencode(desk.root) + b"/odd/" + name)).parent.mkdir(exist_ok=True)
        with open(os.fsencode(desk.root) + b"/odd/" + name, "wb") as file:
            file.write(b"needle \xff\n")
    expected = ['"odd/a\\nb.txt"', '"odd/tab\\t.txt"', "odd/quote'\".txt", "odd/ünï.txt", "odd/--x:1:y.txt"]
    assert set(expected) <= set((await desk.text(GREP, pattern="needle", path="odd")).splitlines())
    assert set(expected) <= set((await desk.text(GLOB, pattern="odd/*.txt")).splitlines())
    lines = (await desk.text(GREP, pattern="needle", path="odd", output_mode="content")).splitlines()
    assert {f"{name}:1:needle �" for name in expected} <= set(lines)
    assert len(lines) == 6
    counts = await desk.text(GREP, pattern="needle", path="odd", output_mode="count")
    assert {f"{name}:1" for name in expected} <= set(counts.splitlines())


async def test_binary_files_are_left_out(desk: Desk) -> None:
    desk.file("data.bin", b"needle\0needle\n")
    desk.file("z.txt", "needle\n")
    assert "data.bin" not in await desk.text(GREP, pattern="needle", glob="*.{bin,txt}")
    text = await desk.text(GREP, pattern="needle", glob="*.{bin,txt}", output_mode="content")
    assert "z.txt:1:needle" in text.splitlines()


async def test_a_file_that_turns_out_binary_does_not_blur_the_next(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.file("a.bin", b"needle first\n" + b"filler line\n" * 20_000 + b"\0\nneedle\n")
    desk.file("b.txt", "needle\n")
    assert (await desk.text(GREP, pattern="needle", output_mode="content")).splitlines() == [
        "a.bin:1:needle first", "a.bin: a binary file matches", "b.txt:1:needle",
    ]  # fmt: skip
    assert await desk.text(GREP, pattern="needle", output_mode="count") == "b.txt:1"


async def test_wrong_queries_are_plain_errors(desk: Desk) -> None:
    assert "unclosed group" in await refusal(desk, pattern="(a") or "unterminated" in await refusal(desk, pattern="(a")
    assert "unrecognized file type: pyy" in await refusal(desk, pattern="a", type="pyy")
    assert "There is no file or folder" in await refusal(desk, pattern="a", path="nowhere")
    assert "Did you mean" in await refusal(desk, pattern="a", path="srcc")
    assert "pattern is empty" in await refusal(desk, pattern="")
    os.mkfifo(desk.root / "pipe")
    assert "cannot be searched" in await refusal(desk, pattern="a", path="pipe")


async def test_look_around_works(desk: Desk) -> None:
    assert await desk.text(GREP, pattern=r"needle(?= =)") == "src/a.py"


async def test_pipes_in_a_folder_do_not_hang_it(desk: Desk) -> None:
    os.mkfifo(desk.root / "src/pipe")
    (desk.root / "src/zero").symlink_to("/dev/zero")
    (desk.root / "src/loop").symlink_to(".")
    with anyio.fail_after(20):
        assert "src/a.py" in await desk.text(GREP, pattern="needle", path="src")


async def test_files_are_found_newest_first(desk: Desk) -> None:
    found = ["src/deep/b.py", "src/a.py", ".hidden/c.py"]
    assert (await desk.text(GLOB, pattern="**/*.py")).splitlines() == found
    assert (await desk.text(GLOB, pattern="*.py")).splitlines() == found
    assert await desk.text(GLOB, pattern="src/*.py") == "src/a.py"
    assert await desk.text(GLOB, pattern="*.py", path="src/deep") == "src/deep/b.py"
    assert (await desk.text(GLOB, pattern=f"{desk.root}/src/**")).splitlines() == found[:2]
    assert await desk.text(GLOB, pattern="readme.md") == "readme.md"
    assert await desk.text(GLOB, pattern="**/{a,b}.py", path="src") == "\n".join(found[:2])


async def test_glob_reads_from_where_it_is_told(desk: Desk) -> None:
    desk.state = type(desk.state)(str(desk.root / "src"))
    assert await desk.text(GLOB, pattern="../*.md") == str(desk.root / "readme.md")
    assert (await desk.text(GLOB, pattern="*.py")).splitlines() == ["deep/b.py", "a.py"]


async def test_glob_knows_the_home_folder(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(desk.root / "src"))
    assert await desk.text(GLOB, pattern="~/deep/*.py", path="ignored") == "src/deep/b.py"
    assert "src/a.py" in await desk.text(GLOB, pattern="~/*")


async def test_glob_says_how_a_bracket_is_written(desk: Desk) -> None:
    desk.file("pages/[id].tsx")
    missed = await desk.text(GLOB, pattern="pages/[id].tsx")
    assert r"written \[ and \]" in missed
    assert await desk.text(GLOB, pattern=r"pages/\[id\].tsx") == "pages/[id].tsx"


async def test_glob_says_what_it_did_not_find(desk: Desk) -> None:
    assert "No files match *.zzz" in await desk.text(GLOB, pattern="*.zzz")
    for data in ({"pattern": "*", "path": "nowhere"}, {"pattern": "nowhere/*"}):
        with pytest.raises(ToolError, match="There is no folder"):
            await desk.call(GLOB, **data)
    with pytest.raises(ToolError, match="not a folder"):
        await desk.call(GLOB, pattern="*", path="readme.md")
    with pytest.raises(ToolError, match="empty"):
        await desk.call(GLOB, pattern=" ")


async def test_glob_names_a_bounded_number(desk: Desk) -> None:
    for number in range(250):
        desk.file(f"lot/{number}.txt")
    text = await desk.text(GLOB, pattern="lot/*")
    assert len(text.splitlines()) == 202
    assert text.endswith("[The 200 newest of 250 files; a narrower pattern or path shows the others.]")


async def test_git_agrees_on_what_is_ignored(desk: Desk) -> None:
    shutil.rmtree(desk.root / ".git")
    desk.file("src/.gitignore", "*.tmp\n/only-here\n!important.tmp\n")
    for name in ("src/x.tmp", "src/important.tmp", "src/only-here", "src/deep/only-here", "src/deep/y.tmp"):
        desk.file(name)
    subprocess.run(["git", "init", "-q", "."], cwd=desk.root, check=True)
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=desk.root, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    assert sorted((await desk.text(GLOB, pattern="**")).splitlines()) == sorted(listed)
    inside = [name for name in listed if name.startswith("src/deep/")]
    assert sorted((await desk.text(GLOB, pattern="*", path="src/deep")).splitlines()) == sorted(inside)


async def test_a_regular_expression_without_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_ripgreps", list)
    monkeypatch.setattr(search, "SECONDS", 0.5)
    desk = Desk(tmp_path)
    desk.file("a.txt", "a" * 60 + "b\n")
    assert "did not end within" in await refusal(desk, pattern="(a+)+$")


@pytest.mark.parametrize(
    "script",
    [
        "#!/bin/sh\necho 'error: Found argument --no-require-git which wasn'\"'\"'t expected' >&2\nexit 2\n",
        "#!/bin/sh\necho 'GLIBC_2.99 not found' >&2\nexit 1\n",
        "#!/nowhere/sh\n",
        "not a program",
    ],
)
async def test_a_ripgrep_that_does_not_work_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "rg").write_text(script)
    (folder / "rg").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    assert search._ripgreps()[0] == str(folder / "rg")
    desk = Desk(tmp_path / "work")
    desk.root.mkdir()
    desk.file("a.txt", "needle\n")
    assert await desk.text(GREP, pattern="needle") == "a.txt"


def test_ripgrep_is_never_taken_from_a_relative_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "rg").write_text("#!/bin/sh\n")
    (tmp_path / "rg").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", ".:")
    beside = os.path.join(os.path.dirname(sys.executable), "rg")
    assert search._ripgreps() == ([beside] if os.path.exists(beside) else [])


async def test_the_users_configuration_of_ripgrep_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tugline.workspaces.local import LocalWorkspace

    (tmp_path / "config").write_text("--invert-match\n")
    environment = {"PATH": os.environ["PATH"], "RIPGREP_CONFIG_PATH": str(tmp_path / "config")}
    desk = Desk(tmp_path, workspace=LocalWorkspace([str(tmp_path)], environment=environment))
    desk.file("a.txt", "needle\n")
    assert await desk.text(GREP, pattern="needle") == "a.txt"


def test_they_say_what_they_touch() -> None:
    grep = GREP.parse({"pattern": "a", "path": "src", "-i": "true"})
    assert GREP.footprint(grep) == Footprint.READS
    assert GREP.subjects(grep) == (PathSubject("src"),)
    assert GREP.title(grep) == "Grep 'a' in src"
    glob = GLOB.parse({"pattern": "/etc/*.conf"})
    assert GLOB.footprint(glob) == Footprint.READS
    assert GLOB.subjects(glob) == (PathSubject("/etc"),)
    assert GLOB.title(glob) == "Glob /etc/*.conf"
    assert GLOB.subjects(GLOB.parse({"pattern": "../x/*", "path": "a"})) == (PathSubject("a/../x"),)


@pytest.mark.parametrize(
    ("glob", "path", "fits"),
    [
        ("*.py", "a.py", True),
        ("*.py", "b/a.py", True),
        ("/*.py", "b/a.py", False),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/b/a.py", False),
        ("src/*.py", "x/src/a.py", False),
        ("**/src/*.py", "x/src/a.py", True),
        ("src/**/a.py", "src/a.py", True),
        ("src/**/a.py", "src/x/y/a.py", True),
        ("src/**", "src/x/y", True),
        ("src/**", "src", False),
        ("a?c", "abc", True),
        ("a[!b]c", "abc", False),
        ("a[^b]c", "axc", True),
        (r"a\*c", "a*c", True),
        (r"a\*c", "abc", False),
        ("*.{ts,tsx}", "a.tsx", True),
        ("{a,b{c,d}}.x", "bd.x", True),
        ("{a}", "a", True),
        ("**", "a/b", True),
        ("", "a", False),
    ],
)
def test_globs_mean_what_they_mean_to_git(glob: str, path: str, fits: bool) -> None:
    assert matcher([glob])(path) is fits


def test_globs_cannot_be_made_slow() -> None:
    assert not matcher(["*a" * 40 + "b"])("a" * 200)
    assert not matcher(["**/" * 60 + "b"])("a/" * 100 + "a")
    with pytest.raises(ToolError, match="too many alternatives"):
        expand_braces("{a,b}" * 12)


@given(st.text("ab/*?{},[]!\\.", max_size=14), st.text("ab/.", max_size=8))
def test_any_glob_is_answered(glob: str, path: str) -> None:
    matcher([glob])(path)
    base, rest = split_base(glob)
    assert glob in (f"{base}/{rest}", rest, f"/{rest}")


async def test_what_the_kernel_shows_as_files_is_not_searched(desk: Desk) -> None:
    assert "not searched" in await refusal(desk, pattern="PATH", path="/proc/self/environ", output_mode="content")
    assert "not searched" in await refusal(desk, pattern="PATH", path=f"/proc/{os.getpid()}")
    (desk.root / "link").symlink_to("/proc")
    assert "not searched" in await refusal(desk, pattern="PATH", path="link")
