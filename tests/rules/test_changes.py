"""Who changed which files, from the records alone."""

from tugline.protocol.blocks import Text, ToolUse
from tugline.protocol.ids import AgentId, CallId, MessageId, ReplyId, SessionId
from tugline.protocol.messages import Assistant, User
from tugline.protocol.records import FORMAT, AnyRecord, FileChange, FilesChanged, FileState, Opened, Said
from tugline.rules.changes import changes, file_path


def state(content: str, mode: int = 0o644) -> FileState:
    return FileState(content, mode)


def opened() -> Opened:
    return Opened(format=FORMAT, session=SessionId("s"), agent=AgentId("helper"), cwd="/p", version="1")


def prompt(name: str) -> Said:
    return Said(message=User(MessageId(name), (Text(f"do {name}"),)), time=1.0)


def asked(*uses: ToolUse) -> Said:
    return Said(message=Assistant(MessageId("a"), uses, reply=ReplyId("r"), model="m"))


def use(call: str, tool: str, **given: str) -> ToolUse:
    return ToolUse(CallId(call), tool, dict(given))


def changed(*files: FileChange, calls: tuple[str, ...] = (), by: str = "") -> FilesChanged:
    return FilesChanged(files=files, calls=tuple(CallId(call) for call in calls), root="/p", rewind=by, time=2.0)


def rows(*records: AnyRecord) -> list[tuple[str | None, str, list[str], list[tuple[str, str]]]]:
    """Prompt, by whom, which calls, which files and how."""
    return [
        (turn.prompt, one.by, [call.title for call in one.calls], [(file.path, file.kind) for file in one.files])
        for turn in changes(records)
        for one in turn.sets
    ]


def test_changes_are_listed_by_turn_call_and_kind() -> None:
    assert rows(
        opened(), prompt("one"), asked(use("c1", "Write", file_path="n"), use("c2", "Bash", command="rm b\nls")),
        changed(FileChange("n", None, state("1")), calls=("c1",)),
        changed(FileChange("b", state("b"), None), calls=("c2",)),
        prompt("nothing"), prompt("two"), asked(use("c3", "Edit", file_path="n")),
        changed(FileChange("n", state("1"), state("2")), calls=("c3",)),
    ) == [
        ("one", "calls", ["n"], [("n", "created")]),
        ("one", "calls", ["rm b"], [("b", "deleted")]),
        ("two", "calls", ["n"], [("n", "changed")]),
    ]  # fmt: skip


def test_calls_that_ran_together_are_told_together_and_others_as_others() -> None:
    both = changed(FileChange("a", state("1"), state("2")), calls=("c1", "c2"))
    other = changed(FileChange("x", None, state("1")))
    back = changed(FileChange("a", state("2"), state("1")), by="rewind")
    assert rows(prompt("one"), asked(use("c1", "Bash", command="one"), use("c2", "Bash", command="two")),
                other, both, back) == [
        ("one", "others", [], [("x", "created")]),
        ("one", "calls", ["one", "two"], [("a", "changed")]),
        ("one", "rewind", [], [("a", "changed")]),
    ]  # fmt: skip


def test_one_calls_many_changes_are_one_and_what_did_not_come_about_is_none() -> None:
    assert rows(
        prompt("one"),
        changed(FileChange("a", state("1"), state("2")), calls=("c1",)),
        changed(FileChange("a", state("2"), state("3")), FileChange("b", None, state("1")), calls=("c1",)),
        changed(FileChange("b", state("1"), None), calls=("c1",)),
        changed(FileChange("c", None, state("1")), calls=("c2",)),
        changed(FileChange("c", state("1"), None), calls=("c2",)),
    ) == [("one", "calls", [""], [("a", "changed")])]  # fmt: skip


def test_our_own_change_that_a_look_finds_again_after_a_crash_is_told_once() -> None:
    assert rows(
        prompt("one"),
        changed(FileChange("a", state("1"), state("2")), calls=("c1",)),
        changed(FileChange("a", state("1"), state("2")), FileChange("b", None, state("x"))),
    ) == [("one", "calls", [""], [("a", "changed")]), ("one", "others", [], [("b", "created")])]


def test_a_mode_alone_is_a_change_and_lines_are_counted_where_they_can_be() -> None:
    records: list[AnyRecord] = [prompt("one"), changed(FileChange("a", state("1"), state("1", 0o755)), calls=("c1",))]
    ((file,),) = [one.files for turn in changes(records, lambda before, after: (3, 2)) for one in turn.sets]
    assert (file.kind, file.lines) == ("changed", (3, 2))
    assert changes(records)[0].sets[0].files[0].lines is None


def test_changes_before_the_first_prompt_belong_to_none() -> None:
    assert rows(opened(), changed(FileChange("a", None, state("1")))) == [(None, "others", [], [("a", "created")])]
    assert changes([]) == ()


def test_a_path_is_found_from_the_project_and_from_its_bytes() -> None:
    assert file_path(FileChange("d/a"), "/p") == "/p/d/a"
    assert file_path(FileChange("/etc/x"), "/p") == "/etc/x"
    assert file_path(FileChange("�", raw="ff0a"), "/p") == "/p/\udcff\n"
