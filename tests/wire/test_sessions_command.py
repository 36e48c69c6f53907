"""`tugline sessions` as a person uses it: the real command, real files, odd and hostile ones among them."""

import asyncio
import json
import os
import pty
import re
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from command import TUGLINE, Desk, Ended, assert_clean
from shelf import Shelf, opened, said

from tugline.testing import ModelServer, call, reply

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\x07\u202egnp\u200b\x85end"


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path)


@pytest.fixture
def desk(shelf: Shelf, tmp_path: Path) -> Desk:
    return Desk(tmp_path, shelf.environ)


def assert_fit_for_a_terminal(ended: Ended) -> None:
    for text in (ended.out, ended.err):
        assert not re.search("[^\\n\\t -~\\xa0-\\U0010ffff]|[\u200b\u202e]", text), ascii(text)


async def sessions(desk: Desk, *words: str, code: int = 0, **more: Any) -> Ended:
    ended = await desk.run("sessions", *words, **more)
    assert ended.code == code, ended.err
    assert "Traceback" not in ended.err
    assert_fit_for_a_terminal(ended)
    return ended


async def test_a_list_has_this_projects_sessions_the_last_used_first(desk: Desk, shelf: Shelf) -> None:
    first = await shelf.talk(("Mend the cart", "Done."), title="Cart")
    second = await shelf.talk(("Paint the door", "Red."))
    (desk.folder / "elsewhere").mkdir()
    third = await Shelf(desk.folder / "elsewhere", shelf.environ).talk(("Elsewhere", "Yes."))
    lines = (await sessions(desk, "list")).out.splitlines()
    assert [line[:8] for line in lines] == [second[:8], first[:8]]
    assert "Cart · Mend the cart" in lines[1]
    everywhere = await sessions(desk, "list", "--all", "--json")
    assert [line["session"] for line in everywhere.lines] == [third, second, first]
    assert [line["prompt"] for line in (await sessions(desk, "list", "--json", "--limit", "1")).lines] == [
        "Paint the door"
    ]
    assert "there are more" in (await sessions(desk, "list", "--limit", "1")).err


async def test_an_empty_shelf_says_where_others_are(desk: Desk, shelf: Shelf) -> None:
    assert "no session of this project.\n" in (await sessions(desk, "list")).out
    (desk.folder / "elsewhere").mkdir()
    await Shelf(desk.folder / "elsewhere", shelf.environ).talk(("Hello", "Hi."))
    assert "Those of other projects (1): tugline sessions list --all" in (await sessions(desk, "list")).out
    assert "no archived session" in (await sessions(desk, "list", "--archived")).out


async def test_a_session_is_shown_by_turn_and_a_whole_result_by_its_call(desk: Desk, shelf: Shelf) -> None:
    (shelf.work / "a.txt").write_text("".join(f"line {n}\n" for n in range(9)))
    script = [reply("I look.", call("Read", file_path="a.txt")), reply("Nine lines."), reply("Sure.")]
    async with shelf.session(*script) as session:
        await session.run("How many lines?")
        await session.run("Sure?")
        await session.rewind((await session.prompts())[1].id)
        await session.run("/rename Lines")
    out = (await sessions(desk, "show", "lines")).out
    assert re.search(r"── 1 · .*\n> How many lines\?\n\nI look\.\n● Read a\.txt\n", out)
    assert "line 3\n" in out
    assert "line 4" not in out
    assert "… 5 more lines: --call " in out
    assert "Sure?" not in out
    full = (await sessions(desk, "show", "Lines", "--full")).out
    assert "line 8" in full
    assert "(taken back)" in full
    (id_,) = re.findall(r"--call (\S+)", out)
    whole = await sessions(desk, "show", "lines", "--call", id_)
    assert "line 0" in whole.out
    assert "line 8" in whole.out
    plain = json.loads((await sessions(desk, "show", "lines", "--call", id_, "--json")).out)
    assert plain["call"]["input"] == {"file_path": "a.txt"}
    assert "line 8" in plain["result"]["content"]
    (number,) = re.findall(r"── 1 · .*#(\d+)", out)
    record = json.loads((await sessions(desk, "show", "lines", "--record", number, "--json")).out)
    assert record["message"]["content"] == [{"type": "text", "text": "How many lines?"}]
    document = json.loads((await sessions(desk, "show", "lines", "--json")).out)
    assert [one["said"]["role"] for one in document["passages"]] == ["user", "assistant", "user", "assistant"]
    assert "no call nope" in (await sessions(desk, "show", "lines", "--call", "nope", code=1)).err
    assert "no record 999" in (await sessions(desk, "show", "lines", "--record", "999", code=1)).err


async def test_words_are_found_in_prompts_replies_and_names_and_nowhere_else(desk: Desk, shelf: Shelf) -> None:
    (shelf.work / "a.txt").write_text("needle in a file\n")
    async with shelf.session(
        reply(call("Read", file_path="a.txt")), reply("A Straße and a Needle."), title="Hay"
    ) as one:
        await one.run("Look for the NEEDLE")
    found = await sessions(desk, "search", "needle")
    assert re.findall(r"#\d+ \S+ \S+ (\w+): (.*)", found.out) == [
        ("you", "Look for the NEEDLE"), ("model", "A Straße and a Needle."),
    ]  # fmt: skip
    assert [line["who"] for line in (await sessions(desk, "search", "hay", "--json")).lines] == ["title"]
    assert "Straße" in (await sessions(desk, "search", "strasse", "needle")).out
    assert "Nothing was found" in (await sessions(desk, "search", "needle", "door", code=1)).err
    await sessions(desk, "search", code=2)


async def test_one_way_to_look_a_session_up_and_what_fits_is_listed(desk: Desk, shelf: Shelf) -> None:
    first = await shelf.talk(("Mend the cart", "Done."), title="Cart")
    second = await shelf.talk(("Mend the cart wheel", "Done."))
    for words in (first, first[:8], "CART", "done"):
        code = 1 if words == "done" else 0
        assert ("Mend the cart" in (await sessions(desk, "show", words, code=code)).out) == (code == 0)
    several = await sessions(desk, "show", "mend", "cart", code=1)
    assert "2 sessions fit 'mend cart'; say which:" in several.err
    assert {first, second} <= set(re.findall(r"[0-9a-f-]{36}", several.err))
    headless = await desk.run("-p", "Go", "-r", "mend", env={"ANTHROPIC_API_KEY": "k"})
    assert headless.code == 1
    assert {first, second} <= set(re.findall(r"[0-9a-f-]{36}", headless.err))
    alone = await desk.run("-p", "Go", "-r", env={"ANTHROPIC_API_KEY": "k"})
    assert alone.code == 2
    assert first[:8] in alone.err


@pytest.mark.parametrize(
    ("argv", "answers", "code"), [(["-r", "mend"], ["7", "x", "2"], 0), (["-r"], ["2"], 0), (["-r"], [""], 1)]
)
async def test_on_a_terminal_a_person_chooses(
    argv: list[str], answers: list[str], code: int, desk: Desk, shelf: Shelf
) -> None:
    first = await shelf.talk((f"Mend the cart {EVIL}", "Done."))
    await shelf.talk(("Mend the wheel", "Done."))
    async with ModelServer([reply("Going on.")], lenient=True) as server:
        environ = {**shelf.environ, "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "k", "NO_COLOR": "1"}
        ended, shown = await asyncio.to_thread(in_terminal, [TUGLINE, *argv, "-p", "And?"], answers, desk, environ)
        assert ended == code
        assert re.search(r"  1 .*Mend the wheel\s+2 .*Mend the cart", shown)
        assert not set(shown) & {"\x1b", "\x07", "\x9b", "\u202e"}
        assert len(server.bodies) == (code == 0)
        if code == 0:
            assert "Mend the cart" in str(server.bodies[0]["messages"][0])
            (again,) = [one for one in shelf.sessions.summaries() if one.session == first]
            assert len([p for p in shelf.sessions.passages(again.session) if p.turn == 2]) == 2


def in_terminal(argv: list[str], answers: list[str], desk: Desk, environ: dict[str, str]) -> tuple[int, str]:
    """Run the command in a terminal; each question gets the next answer."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        argv, stdin=theirs, stdout=theirs, stderr=theirs, cwd=desk.cwd, env=environ, start_new_session=True
    )
    os.close(theirs)
    shown = b""
    waiting = list(answers)
    asked = 0
    while True:
        try:
            data = os.read(ours, 65_536)
        except OSError:
            break
        if not data:
            break
        shown += data
        while shown.count(b"Which one?") > asked and waiting:
            asked += 1
            os.write(ours, waiting.pop(0).encode() + b"\n")
    os.close(ours)
    return process.wait(), shown.decode()


async def test_documents_are_new_private_files_without_keys(desk: Desk, shelf: Shelf) -> None:
    key = "sk-" + "ant-" + "y" * 30
    await shelf.talk((f"My key is {key} and <script>alert(1)</script>", f"Keep it. {EVIL}"), title="Keys and doors")
    ended = await sessions(desk, "export", "keys", "-o", "x.html")
    page = (desk.cwd / "x.html").read_text()
    assert ended.out.strip() == str(desk.cwd / "x.html")
    assert (desk.cwd / "x.html").stat().st_mode & 0o777 == 0o600
    assert "<script" not in page
    assert key not in page
    again = await sessions(desk, "export", "keys", "-o", "x.html", code=1)
    assert "There is a file of that name already" in again.err
    assert (desk.cwd / "x.html").read_text() == page
    named = await sessions(desk, "export", "keys")
    assert re.fullmatch(r".*/work/keys-and-doors-[0-9a-f]{8}\.md\n", named.out)
    secret = await sessions(desk, "export", "keys", "--format", "json", "-o", "-", env={"DOOR_TOKEN": "Keep it."})
    assert "Keep it." not in secret.out
    json.loads(secret.out)
    assert "cannot be written" in (await sessions(desk, "export", "keys", "-o", "no/such/x.md", code=1)).err
    assert (await sessions(desk, "export", "keys", "--format", "pdf", code=2)).out == ""


async def test_a_name_is_no_use_and_the_archive_gives_back(desk: Desk, shelf: Shelf) -> None:
    first = await shelf.talk(("one", "1"))
    await shelf.talk(("two", "2"))
    await sessions(desk, "rename", "one", f"Number {EVIL} one")
    named = (await sessions(desk, "list", "--json")).lines
    assert [line["prompt"] for line in named] == ["two", "one"]
    assert named[1]["title"].startswith("Number")
    assert "\x1b" not in named[1]["title"]
    kept = shelf.place / first
    kept.mkdir(mode=0o700, exist_ok=True)
    (kept / "big.txt").write_text("big")
    await sessions(desk, "archive", first)
    assert [line["session"] for line in (await sessions(desk, "list", "--archived", "--json")).lines] == [first]
    assert (shelf.place / "archive" / first / "big.txt").read_text() == "big"
    assert "Number" in (await sessions(desk, "show", "number one")).out
    await sessions(desk, "archive", first, code=1)
    await sessions(desk, "unarchive", "number one")
    assert (kept / "big.txt").read_text() == "big"
    assert len((await sessions(desk, "list", "--json")).lines) == 2


async def test_a_branch_is_told_to_programs_by_its_id(desk: Desk, shelf: Shelf) -> None:
    one = await shelf.talk(("Hello", "Hi."))
    environ = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": "http://127.0.0.1:1"}
    for form in ("json", "stream-json"):
        words = ["-p", "-r", one, "--output-format", form, f"/branch In {form}"]
        branch = (await desk.run(*words, env=environ)).result["session_id"]
        assert branch != one
        (listed,) = [s for s in shelf.sessions.summaries() if s.session == branch]
        assert (listed.title, listed.prompt) == (f"In {form}", "Hello")
    assert [s.title for s in shelf.sessions.summaries() if s.session == one] == [""]


async def test_nothing_is_put_away_unasked_and_never_what_is_in_use(desk: Desk, shelf: Shelf) -> None:
    ids = [await shelf.talk((f"number {n}", "ok")) for n in range(3)]
    long_ago = time.time() - 100 * 86_400
    for one in ids:
        path = shelf.place / f"{one}.jsonl"
        (shelf.place / one).mkdir(mode=0o700, exist_ok=True)
        (shelf.place / one / "result.txt").write_text("x" * 5_000)
        path.with_name(path.name + ".torn").write_text("torn")
        os.utime(path, (long_ago, long_ago))
    before = sorted(shelf.place.rglob("*"))
    async with shelf.session(resume=ids[0]):
        os.utime(shelf.place / f"{ids[0]}.jsonl", (long_ago, long_ago))
        for words in (["--dry-run"], ["--remove"], ["--remove", "--dry-run"]):
            code = 0 if "--dry-run" in words else 1
            shown = await sessions(desk, "gc", "--older-than", "90d", *words, code=code)
            assert set(re.findall(r"[0-9a-f-]{36}", shown.out)) == set(ids[1:])
            assert sorted(shelf.place.rglob("*")) == before
        await sessions(desk, "gc", code=2)
        await sessions(desk, "gc", "--older-than", "soon", code=2)
        await sessions(desk, "gc", "--keep-size", "1", code=2)
        assert "nothing to put away" in (await sessions(desk, "gc", "--older-than", "200d")).out
        for words in (["archive", ids[0]], ["rename", ids[0], "No"]):
            assert "in use" in (await sessions(desk, *words, code=1)).err
        await sessions(desk, "gc", "--larger-than", "3kB")
        assert {path.stem for path in (shelf.place / "archive").glob("*.jsonl")} == set(ids[1:])
        await sessions(desk, "gc", "--older-than", "90d", "--archived", "--remove", "--yes")
    assert not any(one in path.name for path in shelf.place.rglob("*") for one in ids[1:])
    assert (shelf.place / ids[0] / "result.txt").exists()


async def test_who_changed_which_files_is_told_by_turn_and_call(desk: Desk, shelf: Shelf) -> None:
    use = {"type": "tool_use", "id": "c1", "name": "Write", "input": {"file_path": EVIL, "content": "x"}}
    asked = {"kind": "said", "message": {"role": "assistant", "id": "a1", "content": [use]}, "parent": "m1"}
    before, after = {"digest": "a" * 40}, {"digest": "b" * 40}
    changed = {"kind": "files_changed", "files": [{"path": "new.py", "after": after}], "calls": ["c1"], "root": "/w"}
    others = {"kind": "files_changed", "files": [{"path": EVIL, "before": before, "after": after}], "root": "/w"}
    shelf.write("s-1", [opened("s-1"), said("m1", f"Write it {EVIL}"), asked, changed, others])
    out = (await sessions(desk, "changes", "s-1")).out
    assert re.search(r"> Write it .*\n  Write .*\n    \+ new\.py\n  not by the agent\n    ~ ", out)
    (turn,) = (await sessions(desk, "changes", "s-1", "--json")).lines
    assert [one["by"] for one in turn["sets"]] == ["calls", "others"]
    one = await shelf.talk(("Nothing", "ok"))
    assert "No changes" in (await sessions(desk, "changes", one)).out


async def test_lines_added_and_removed_are_counted_where_both_contents_are_kept(desk: Desk) -> None:
    one = "4f0c3b5e-8a52-4c5d-9d6b-0f5c7d1c2b3a"
    (desk.cwd / "a.txt").write_text("one\ntwo\n")
    script = [
        reply(call("Read", file_path="a.txt")),
        reply(call("Edit", file_path="a.txt", old_string="two", new_string="2\n3")),
        reply(call("Write", file_path="b.txt", content="new\n")),
        reply("Done."),
    ]
    async with ModelServer(script) as server:
        env = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "k"}
        ended = await desk.run("-p", "--permission-mode", "acceptEdits", "--session-id", one, "Change it", env=env)
    assert ended.code == 0
    out = (await sessions(desk, "changes", one)).out
    assert re.search(r"~ a\.txt  \+2 -1\n(.*\n)*.*\+ b\.txt  \+1 -0\n", out), out


async def test_what_only_a_removed_session_needs_goes_with_it(desk: Desk, shelf: Shelf) -> None:
    store = shelf.place.parent.parent / "checkpoints" / shelf.place.name / "objects"
    for digest, session in (("a" * 40, "s-1"), ("b" * 40, "s-2")):
        changed = {"path": "x", "before": {"digest": digest}}
        path = shelf.write(session, [opened(session), said("m1", "x"), {"kind": "files_changed", "files": [changed]}])
        os.utime(path, (0, 0) if session == "s-1" else None)
        content = store / digest[:2] / digest[2:]
        content.parent.mkdir(parents=True)
        content.write_bytes(b"old")
        os.utime(content, (0, 0))
    await sessions(desk, "gc", "--older-than", "90d")
    assert len(list(store.rglob("*"))) == 4
    await sessions(desk, "gc", "--older-than", "90d", "--archived", "--remove", "--yes")
    assert [path.parent.name for path in store.glob("*/*")] == ["bb"]


async def test_hostile_files_among_the_sessions_harm_nothing(desk: Desk, shelf: Shelf) -> None:
    await shelf.talk(("fine", "fine"))
    outside = desk.folder / "outside.txt"
    outside.write_text("precious")
    shelf.write("empty-1", [])
    shelf.write("binary-1", [os.urandom(9_000).replace(b"\n", b"") for _ in range(3)])
    shelf.write("newer-1", [opened(format=99)])
    shelf.write("evil-1", [opened("evil-1", cwd=EVIL), said("m1", EVIL), said("m2", EVIL, "m1", role="assistant")])
    shelf.write("future-1", [opened("future-1", time=9e15), said("m1", "from the future", time=-1e300)])
    shelf.write("loop-1", [opened("loop-1"), said("m1", "round", "m2"), said("m2", "and round", "m1")])
    shelf.write("deep-1", [opened("deep-1"), b"[" * 200_000 + b"\n", said("m1", "deep")])
    os.utime(shelf.place / "future-1.jsonl", (9e9, 9e9))
    os.mkfifo(shelf.place / "fifo-1.jsonl")
    (shelf.place / "folder-1.jsonl").mkdir()
    (shelf.place / "link-1.jsonl").symlink_to(outside)
    (shelf.place / "link-2").symlink_to(desk.folder)
    listed = await sessions(desk, "list", "--all")
    assert "-1 " not in re.sub(r"\w+-1", "", listed.out)
    assert "newer tugline" in listed.out
    assert re.search(r"future-1 +now", listed.out)
    for name in ("evil-1", "future-1", "loop-1", "deep-1"):
        for words in (["show", "--full"], ["show", "--json"], ["changes"], ["export", "--format", "html", "-o", "-"]):
            await sessions(desk, words[0], name, *words[1:])
    for name in ("empty-1", "binary-1", "newer-1", "fifo-1", "folder-1", "link-1"):
        for words in (["show"], ["rename", "x"]):
            ended = await sessions(desk, words[0], name, *words[1:], code=1)
            assert_clean(ended)
    await sessions(desk, "search", "gnp")
    await sessions(desk, "gc", "--all", "--older-than", "0d", "--remove", "--yes")
    assert outside.read_text() == "precious"
    assert (desk.folder / "work").is_dir()


async def test_a_project_that_is_gone_still_has_its_sessions_and_going_on_says_what_to_do(
    desk: Desk, shelf: Shelf
) -> None:
    one = await shelf.talk(("Where am I?", "Here."))
    shelf.work.rename(desk.folder / "moved")
    shelf.work.mkdir()
    shelf.work.rmdir()
    (desk.folder / "moved" / ".git").mkdir()
    moved = Desk(desk.folder, desk.environ)
    process = await asyncio.create_subprocess_exec(
        TUGLINE, "sessions", "list", "--all", "--json", cwd=desk.folder / "moved", env=moved.environ,
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, _ = await process.communicate()
    assert [json.loads(line)["session"] for line in out.splitlines()] == [one]
    async with shelf.session(reply("There."), cwd=str(desk.folder / "moved"), resume=one) as session:
        (notice,) = [text for text in session.notices if "another project" in text]
        assert str(shelf.work) in notice
        assert "which is gone" in notice
        assert "--fork-session" in notice
    options: dict[str, Any] = {"cwd": str(desk.folder / "moved"), "resume": one, "fork_session": True}
    async with shelf.session(reply("There."), **options) as session:
        assert not [text for text in session.notices if "another project" in text]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
async def test_a_home_that_cannot_be_written_can_be_read(desk: Desk, shelf: Shelf) -> None:
    one = await shelf.talk(("Hello", "Hi."))
    shelf.place.chmod(0o500)
    try:
        assert "Hello" in (await sessions(desk, "show", one)).out
        assert "cannot be moved" in (await sessions(desk, "archive", one, code=1)).err
    finally:
        shelf.place.chmod(0o700)


async def test_a_reader_that_goes_away_is_no_error(desk: Desk, shelf: Shelf) -> None:
    await shelf.talk(("Hello", "Hi. " * 60_000))
    ended = await desk.run("sessions", "show", "hello", shell="| head -c 10")
    assert ended.err == ""


async def test_a_pager_gets_what_is_shown_on_a_terminal(desk: Desk, shelf: Shelf) -> None:
    await shelf.talk(("Hello", "Hi."))
    paged = desk.folder / "paged.txt"
    environ = {**shelf.environ, "PAGER": f"tee {paged}"}
    code, _ = await asyncio.to_thread(in_terminal, [TUGLINE, "sessions", "show", "hello"], [], desk, environ)
    assert code == 0
    assert "> Hello" in paged.read_text()
    assert "\x1b" not in paged.read_text()
    for broken in ("no-such-program", "'", ""):
        environ = {**shelf.environ, "PAGER": broken}
        code, shown = await asyncio.to_thread(in_terminal, [TUGLINE, "sessions", "show", "hello"], [], desk, environ)
        assert (code, "Hello" in shown) == (0, True)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["shwo"], "Did you mean show?"),
        (["show"], "needs a session"),
        (["list", "cart"], "takes flags only"),
        (["list", "--al"], "Did you mean --all?"),
        (["list", "--limit", "x"], "whole number"),
        (["list", "--limit"], "needs a value"),
        (["show", "x", "--record", "1", "--call", "c"], "cannot both"),
        (["rename", "x"], "takes a session and its new name"),
    ],
)
async def test_wrong_usage_is_a_line_that_says_what_to_do(argv: list[str], words: str, desk: Desk) -> None:
    ended = await sessions(desk, *argv, code=2)
    assert_clean(ended)
    assert words in ended.err
