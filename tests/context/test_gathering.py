"""Files of instructions on a real disk: which are found, in which order, and what a hostile folder cannot do."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from instructing import DISK, Project
from msgspec import structs

from tugline.context.gathering import (
    BYTES_LIMIT,
    FILES_LIMIT,
    MENTIONS_LIMIT,
    READ_LIMIT,
    folders_below,
    gather,
    gather_folders,
    gather_rules,
)
from tugline.context.survey import survey
from tugline.ports import FileStat
from tugline.workspaces import files, paths

OUTSIDE = "outside the project (the setting context.externalImports permits places)"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


# -- order


def test_the_order_is_from_far_to_near_and_from_shared_to_local(project: Project) -> None:
    names = [
        "../etc/AGENTS.md", "../home/.config/tugline/AGENTS.md", "../home/.config/tugline/rules/own.md",
        "../home/.claude/CLAUDE.md", "../home/.claude/rules/a/b.md",
        "AGENTS.md", ".tugline/AGENTS.md", "CLAUDE.md", ".claude/CLAUDE.md", "AGENTS.local.md", "CLAUDE.local.md",
        ".tugline/rules/a.md", ".claude/rules/b.md", ".claude/rules/deep/er/c.md",
        "pkg/AGENTS.md", "pkg/CLAUDE.md", "pkg/.claude/rules/d.md", "pkg/in/AGENTS.md",
    ]  # fmt: skip
    for name in names:
        project.file(name, f"text of {name}")
    project.file("pkg/in/below/AGENTS.md", "later")
    project.file("other/AGENTS.md", "later")
    project.file("../AGENTS.md", "above the project")
    found = project.loaded("pkg/in", managed=((str(project.top / "etc"), False),))
    assert found == names


def test_without_a_repository_only_the_working_folder_counts(project: Project) -> None:
    project.file("AGENTS.md", "a")
    project.file("pkg/AGENTS.md", "b")
    assert project.loaded("pkg", project_root=str(project.repo / "pkg")) == ["pkg/AGENTS.md"]


def test_an_override_beats_the_file_of_its_folder_only(project: Project) -> None:
    for name in ("AGENTS.override.md", "AGENTS.md", "CLAUDE.md", "pkg/AGENTS.md"):
        project.file(name, name)
    assert project.loaded("pkg") == ["AGENTS.override.md", "CLAUDE.md", "pkg/AGENTS.md"]


def test_an_override_that_cannot_be_read_does_not_bring_the_other_back(project: Project) -> None:
    project.file("AGENTS.override.md", b"\0")
    project.file("AGENTS.md", "plain")
    assert project.loaded() == []
    assert project.left_out() == {"AGENTS.override.md": "it is not a text, but binary"}


def test_other_names_may_count(project: Project) -> None:
    project.file("GEMINI.md", "a")
    project.file("AGENTS.md", "b")
    assert project.loaded(names=("GEMINI.md",)) == ["GEMINI.md"]


def test_the_same_text_is_taken_once_in_a_folder(project: Project) -> None:
    project.file("AGENTS.md", "the same\n")
    project.link("CLAUDE.md", "AGENTS.md")
    project.file(".claude/CLAUDE.md", "the same")
    project.file("pkg/AGENTS.md", "the same")
    project.file("pkg/CLAUDE.md", "@AGENTS.md and more")
    assert project.loaded("pkg") == ["AGENTS.md", "pkg/AGENTS.md", "pkg/CLAUDE.md"]
    assert project.left_out("pkg") == {}


def test_a_home_that_is_the_project_is_read_once(project: Project) -> None:
    project.file(".claude/CLAUDE.md", "mine")
    found = project.gather(home=str(project.repo), own=((str(project.repo / ".claude"), True),))
    assert [(project.name(one.file.path), one.file.scope) for one in found.loaded] == [(".claude/CLAUDE.md", "user")]


# -- imports


def test_imports_follow_the_file_that_names_them(project: Project) -> None:
    project.file("AGENTS.md", "@docs/a.md and @docs/b.md. Also `@docs/c.md`, @anna and @scope/package")
    project.file("docs/a.md", "@deep/d.md")
    for name in ("docs/b.md", "docs/c.md", "docs/deep/d.md", "CLAUDE.md"):
        project.file(name, name)
    found = project.gather().loaded
    assert [(project.name(one.file.path), one.file.parent and project.name(one.file.parent)) for one in found] == [
        ("AGENTS.md", ""), ("docs/a.md", "AGENTS.md"), ("docs/deep/d.md", "docs/a.md"), ("docs/b.md", "AGENTS.md"),
        ("CLAUDE.md", ""),
    ]  # fmt: skip
    assert project.left_out() == {}


def test_imports_nest_four_deep(project: Project) -> None:
    project.file("AGENTS.md", "@1.md")
    for n in range(1, 7):
        project.file(f"{n}.md", f"{n}: @{n + 1}.md")
    assert project.loaded() == ["AGENTS.md", "1.md", "2.md", "3.md", "4.md"]
    assert project.left_out() == {"5.md": "imports nest 4 deep at most"}


def test_cycles_are_cut(project: Project) -> None:
    project.file("AGENTS.md", "@a.md @AGENTS.md")
    project.file("a.md", "@./b.md")
    project.file("b.md", "@a.md @AGENTS.md @CLAUDE.md")
    project.file("CLAUDE.md", "@b.md and @AGENTS.md")
    assert project.loaded() == ["AGENTS.md", "a.md", "b.md", "CLAUDE.md"]
    assert project.left_out() == {}


def test_what_is_not_there_is_said_where_a_file_was_plainly_meant(project: Project) -> None:
    project.file("AGENTS.md", "@missing.md @nobody @docs")
    (project.repo / "docs").mkdir()
    assert project.left_out() == {"missing.md": "there is no such file"}


def test_an_import_outside_of_the_project_needs_consent(project: Project) -> None:
    project.file("../shared/style.md", "style")
    project.file("../shared/more.md", "more")
    project.file("AGENTS.md", "@../shared/style.md and @~/x.md")
    project.file("../home/x.md", "@../shared/more.md")
    reason = f"it lies {OUTSIDE}"
    assert project.loaded() == ["AGENTS.md"]
    assert project.left_out() == {"../shared/style.md": reason, "../home/x.md": reason}
    consent: dict[str, Any] = {"external": (str(project.home), str(project.top / "shared"))}
    assert project.loaded(**consent) == ["AGENTS.md", "../shared/style.md", "../home/x.md", "../shared/more.md"]
    assert project.loaded(**consent, trusted=False) == ["AGENTS.md"]
    assert project.loaded(roots=(str(project.top / "shared"),)) == ["AGENTS.md", "../shared/style.md"]


def test_the_person_may_import_from_anywhere(project: Project) -> None:
    project.file("../shared/style.md", "style @deep.md")
    project.file("../shared/deep.md", "deep")
    project.file("../home/.claude/CLAUDE.md", "@~/notes.md")
    project.file("../home/notes.md", "@../shared/style.md")
    assert project.loaded(trusted=False) == [
        "../home/.claude/CLAUDE.md", "../home/notes.md", "../shared/style.md", "../shared/deep.md",
    ]  # fmt: skip


def test_an_untrusted_folder_imports_nothing_not_even_through_the_person(project: Project) -> None:
    project.file("AGENTS.md", "plain @docs/a.md @/etc/hostname @anna")
    project.file("docs/a.md", "a")
    project.file("shared.md", "@docs/a.md")
    project.file("../home/.claude/CLAUDE.md", f"@{project.repo}/shared.md")
    found = project.gather(trusted=False)
    assert [project.name(one.file.path) for one in found.loaded] == [
        "../home/.claude/CLAUDE.md", "shared.md", "AGENTS.md",
    ]  # fmt: skip
    left = {os.path.join("/", one.path) for one in found.left_out}
    assert left == {str(project.repo / "docs/a.md"), "/etc/hostname"}


def test_credentials_and_denied_files_are_not_imported(project: Project) -> None:
    project.file("AGENTS.md", "@secret/key.md @ok.md")
    project.file("secret/key.md", "key")
    project.file("ok.md", "ok")

    def forbidden(name: str, target: str) -> str:
        return "a deny rule forbids to read it" if "/secret/" in target else ""

    assert project.loaded(forbidden=forbidden) == ["AGENTS.md", "ok.md"]
    assert project.left_out(forbidden=forbidden) == {"secret/key.md": "a deny rule forbids to read it"}


def test_comments_and_what_they_import_are_left_out(project: Project) -> None:
    project.file("AGENTS.md", "<!--\n@a.md\n-->\nvisible\r\nlines\n")
    project.file("a.md", "a")
    (one,) = project.gather().loaded
    assert one.text == "visible\nlines"


# -- rules


def test_rules_with_paths_wait_for_their_files(project: Project) -> None:
    project.file(".claude/rules/ts.md", "---\npaths: src/**/*.ts\n---\nUse tabs. @more.md")
    project.file(".claude/rules/more.md", "more")
    project.file("../home/.claude/rules/py.md", "---\npaths:\n  - '*.py'\n---\nUse types.")
    project.file(".claude/rules/notes.txt", "no rule")
    found = project.gather()
    assert [project.name(one.file.path) for one in found.loaded] == [".claude/rules/more.md"]
    assert [(project.name(rule.path), rule.globs, project.name(rule.base)) for rule in found.rules] == [
        ("../home/.claude/rules/py.md", ("*.py",), "."),
        (".claude/rules/ts.md", ("src/**/*.ts",), "."),
    ]
    (rule, more) = gather_rules(DISK, project.scheme(), found.rules[1:]).loaded
    assert (rule.text, rule.file.globs) == ("Use tabs. @more.md", ("src/**/*.ts",))
    assert more.text == "more"


@pytest.mark.parametrize(
    ("head", "why"),
    [
        ("---\npaths: [a", "its front matter has no end (---)"),
        ("---\npaths: [a\n---\n", "the list of its paths is not closed"),
        ("---\npaths: '!a'\n---\nx", "its paths cannot be read: '!a' excludes, which paths cannot"),
    ],
)
def test_a_rule_whose_paths_cannot_be_read_is_left_out(project: Project, head: str, why: str) -> None:
    project.file(".claude/rules/a.md", head)
    assert project.loaded() == []
    assert project.left_out() == {".claude/rules/a.md": why}


def test_folders_of_rules_that_lead_round_in_a_circle_come_to_an_end(project: Project) -> None:
    project.file(".claude/rules/a/b.md", "b")
    project.link(".claude/rules/a/loop", "..")
    project.link(".claude/rules/self", "self")
    project.link(".claude/rules/out", "../../../shared")
    project.file("../shared/x.md", "x")
    assert project.loaded() == [".claude/rules/a/b.md"]
    assert list(project.left_out()) == [".claude/rules/out"]


# -- what a folder below brings


def test_a_folder_below_brings_its_files_and_rules(project: Project) -> None:
    project.file("AGENTS.md", "root")
    project.file("pkg/AGENTS.md", "@../AGENTS.md pkg")
    project.file("pkg/.claude/rules/all.md", "all")
    project.file("pkg/.claude/rules/ts.md", "---\npaths: '*.ts'\n---\nts")
    start = project.gather()
    found = gather_folders(DISK, project.scheme(), [str(project.repo / "pkg")], start.targets)
    assert [project.name(one.file.path) for one in found.loaded] == ["pkg/AGENTS.md", "pkg/.claude/rules/all.md"]
    assert [project.name(rule.base) for rule in found.rules] == ["pkg"]


def test_the_survey_names_what_loads_later_too(project: Project) -> None:
    for name in ("AGENTS.md", "pkg/AGENTS.md", "pkg/.claude/CLAUDE.md", "node_modules/x/AGENTS.md", "lib/in/CLAUDE.md"):
        project.file(name, name)
    project.file("pkg/AGENTS.local.md", b"\xff")
    project.link("again", "pkg")
    found = survey(DISK, project.scheme("pkg"))
    assert [project.name(one.path) for one in found.loaded] == ["AGENTS.md", "pkg/AGENTS.md", "pkg/.claude/CLAUDE.md"]
    assert [project.name(one.path) for one in found.later] == ["lib/in/CLAUDE.md"]
    assert [project.name(one.path) for one in found.left_out] == ["pkg/AGENTS.local.md"]
    assert found.tokens == sum(one.tokens for one in found.loaded)
    assert str(project.repo / "pkg") not in list(folders_below(DISK, project.scheme("pkg")))


# -- bad input


def test_every_kind_of_bad_file_is_said_once_and_the_rest_loads(project: Project) -> None:
    project.file("AGENTS.md", b"text \xff\xfe")
    project.file("CLAUDE.md", "text\0more")
    (project.repo / "AGENTS.local.md").mkdir()
    os.mkfifo(project.repo / "CLAUDE.local.md")
    project.link(".tugline/AGENTS.md", "nowhere")
    project.link(".claude/CLAUDE.md", "CLAUDE.md")
    with open(project.file("pkg/AGENTS.md"), "wb") as file:
        file.truncate(1 << 40)
    project.link("pkg/CLAUDE.md", "/dev/zero")
    project.file("pkg/AGENTS.local.md", "\ufeffgood\r\n")
    project.file("pkg/CLAUDE.local.md", " \n\n")
    assert project.left_out("pkg") == {
        "AGENTS.md": "it is not UTF-8 text (byte 5)",
        "CLAUDE.md": "it is not a text, but binary",
        "AGENTS.local.md": "it is a folder",
        "CLAUDE.local.md": "it is a named pipe, not a regular file",
        ".tugline/AGENTS.md": "it is a link that leads nowhere",
        ".claude/CLAUDE.md": "too many links, one of them leads back to itself",
        "pkg/AGENTS.md": f"it has 1,099,511,627,776 bytes; at most {READ_LIMIT:,} are read",
        "pkg/CLAUDE.md": f"it leads to /dev/zero, {OUTSIDE}",
    }
    (one,) = project.gather("pkg").loaded
    assert one.text == "good"


def test_an_unreadable_file_is_said(project: Project) -> None:
    project.file("AGENTS.md", "x")
    project.file("CLAUDE.md", "y")

    def read(path: str, offset: int, limit: int | None) -> tuple[bytes, FileStat]:
        # as for anybody but root, who may read everything
        if path.endswith("AGENTS.md"):
            raise paths.refusal(PermissionError(errno.EACCES, "Permission denied"), path)
        return files.read_file(path, offset, limit)

    found = gather(structs.replace(DISK, read=read), project.scheme())
    assert [(project.name(one.path), one.why) for one in found.left_out] == [("AGENTS.md", "permission denied")]
    assert [one.text for one in found.loaded] == ["y"]


def test_a_project_cannot_show_the_persons_files_through_links(project: Project) -> None:
    key = project.file("../home/.ssh/id_rsa", "secret")
    project.link("AGENTS.md", "../home/.ssh/id_rsa")
    project.link("docs", str(key.parent))
    project.file("CLAUDE.md", "@docs/id_rsa")
    project.link(".claude/rules", str(key.parent))
    for trusted in (True, False):
        found = project.gather(trusted=trusted)
        assert all("secret" not in one.text for one in found.loaded)
        assert len([one for one in found.left_out if not one.silent]) == 3


def test_a_name_that_is_no_text_is_left_out(project: Project) -> None:
    folder = os.fsencode(project.repo / ".claude/rules")
    os.makedirs(folder)
    with open(os.path.join(folder, b"\xff.md"), "wb") as file:
        file.write(b"x")
    (left,) = project.gather().left_out
    assert left.why == "its path is not UTF-8 text"
    left.path.encode()


def test_too_many_files_come_to_an_end(project: Project) -> None:
    for n in range(FILES_LIMIT + 2):
        project.file(f".claude/rules/{n:04}.md", f"rule {n}")
    found = project.gather()
    assert len(found.loaded) == FILES_LIMIT
    assert len([one for one in found.left_out if one.why == "too much is read already for instructions"]) == 2


def test_too_many_bytes_come_to_an_end(project: Project) -> None:
    count = BYTES_LIMIT // READ_LIMIT + 3
    for n in range(count):
        project.file(f".claude/rules/{n:04}.md", f"{n}\n" + "x\n" * (READ_LIMIT // 2 - 10))
    late = [one for one in project.gather().left_out if one.why == "too much is read already for instructions"]
    assert [project.name(one.path) for one in late] == [
        f".claude/rules/{count - 2:04}.md",
        f".claude/rules/{count - 1:04}.md",
    ]


def test_too_many_imports_come_to_an_end(project: Project) -> None:
    for n in range(MENTIONS_LIMIT // 100 + 3):
        project.file(f".claude/rules/{n:03}.md", " ".join(f"@no/{n}/{k}.md" for k in range(100)))
    assert len(project.gather().left_out) == MENTIONS_LIMIT
