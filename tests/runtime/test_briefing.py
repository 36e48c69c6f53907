"""Instruction files in a session: what the model is told, when, and that it is told once."""

import itertools
import os
import tempfile
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from instructing import DISK, Project
from msgspec import structs
from stage import Stage, texts

import tugline
from tugline import InstructionsLoaded, Notice, PathSubject, UserAdded
from tugline.context import instructions as reading
from tugline.context.instructions import Instructions
from tugline.ports import FileStat
from tugline.protocol.events import Event
from tugline.protocol.ids import MessageId
from tugline.protocol.messages import Message, User
from tugline.protocol.records import Compacted
from tugline.protocol.specs import ModelCard
from tugline.rules.instructions import told_in
from tugline.runtime.briefing import FileBriefing
from tugline.testing import ModelServer, ScriptedProvider, call, cut, gate, reply


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path)
    (project.repo / ".git").mkdir()
    return project


@asynccontextmanager
async def session(project: Project, model: Any, *, cwd: str = "", **options: Any) -> AsyncIterator[tugline.Session]:
    environ = {"TUGLINE_HOME": str(project.top / "state"), "HOME": str(project.home), "PATH": "/usr/bin:/bin"}
    given = {"model": "m", "cwd": str(project.repo / cwd), "environ": environ, **options}
    async with tugline.Session(provider=model, **given) as opened:
        yield opened


async def events_of(session: tugline.Session, prompt: str) -> list[Event]:
    async with session.stream(prompt) as events:
        return [event async for event in events]


def told(messages: Sequence[Message], project: Project) -> list[list[str]]:
    """For each message about instructions, the files that it tells of."""
    found = [list(told_in([message])) for message in messages]
    return [[project.name(path) for path in files] for files in found if files]


async def test_a_conversation_begins_with_what_the_files_say(project: Project) -> None:
    project.file("../home/.claude/CLAUDE.md", "Answer in verse.")
    project.file("AGENTS.md", "Use tabs.")
    model = ScriptedProvider([reply("one"), reply("two")])
    async with session(project, model) as opened:
        first = await events_of(opened, "Hello")
        await opened.run("Again")
    leading, prompt = model.requests[0].messages[:2]
    assert isinstance(leading, User)
    assert (leading.source, leading.hidden) == ("context", True)
    assert texts(leading).startswith("<system-reminder>")
    assert "Answer in verse." in texts(leading)
    assert texts(prompt) == "Hello"
    assert [type(event).__name__ for event in first[:3]] == ["InstructionsLoaded", "UserAdded", "TurnStarted"]
    assert isinstance(first[0], InstructionsLoaded)
    assert first[0].reason == "started"
    assert [(project.name(one.path), one.scope) for one in first[0].files] == [
        ("../home/.claude/CLAUDE.md", "user"), ("AGENTS.md", "project"),
    ]  # fmt: skip
    again = model.requests[1].messages
    assert list(again[:2]) == [leading, prompt], "the prefix is the same, and said once"
    assert told(again, project) == [["../home/.claude/CLAUDE.md", "AGENTS.md"]]


async def test_without_files_nothing_is_added(project: Project) -> None:
    model = ScriptedProvider([reply("one")])
    async with session(project, model) as opened:
        seen = await events_of(opened, "Hello")
    assert len(model.requests[0].messages) == 1
    assert not [event for event in seen if isinstance(event, InstructionsLoaded | UserAdded)]


@pytest.mark.parametrize(
    "options",
    [
        {"instruction_files": []},
        {"settings": {"context": {"instructions": False}}},
        {"setting_sources": []},
        {"setting_sources": ["user"]},
    ],
)
async def test_they_can_be_switched_off(project: Project, options: dict[str, Any]) -> None:
    project.file("AGENTS.md", "Use tabs.")
    project.file("pkg/AGENTS.md", "pkg")
    project.file(".claude/rules/a.md", "rule")
    project.file("pkg/a.py", "a")
    model = ScriptedProvider([reply(call("Read", file_path="pkg/a.py")), reply("ok")])
    async with session(project, model, **options) as opened:
        await opened.run("Hello")
    assert told(model.requests[-1].messages, project) == []


async def test_other_names_may_be_given(project: Project) -> None:
    project.file("AGENTS.md", "a")
    project.file("RULES.md", "b")
    model = ScriptedProvider([reply("ok")])
    async with session(project, model, instruction_files=["RULES.md"]) as opened:
        await opened.run("Hello")
    assert told(model.requests[0].messages, project) == [["RULES.md"]]
    for wrong in ("a/b.md", "..", "AGENTS.md"):
        with pytest.raises(tugline.UsageError):
            tugline.Session(instruction_files=wrong if wrong == "AGENTS.md" else [wrong])


async def test_imports_need_trust(project: Project) -> None:
    project.file("AGENTS.md", "See @docs/a.md")
    project.file("docs/a.md", "style")
    for trust, files, notices in ((False, ["AGENTS.md"], 1), (True, ["AGENTS.md", "docs/a.md"], 0)):
        model = ScriptedProvider([reply("ok")])
        async with session(project, model, trust=trust) as opened:
            seen = await events_of(opened, "Hello")
        assert told(model.requests[0].messages, project) == [files]
        assert len([event for event in seen if isinstance(event, Notice)]) == notices


async def test_deny_rules_and_credentials_hold_for_imports_too(project: Project) -> None:
    project.file("AGENTS.md", "@private/a.md @.netrc")
    project.file("private/a.md", "private")
    project.file(".netrc", "password")
    model = ScriptedProvider([reply("ok")])
    async with session(project, model, trust=True, disallowed_tools=["Read(private/**)"]) as opened:
        seen = await events_of(opened, "Hello")
    assert told(model.requests[0].messages, project) == [["AGENTS.md"]]
    notices = [event.text for event in seen if isinstance(event, Notice)]
    assert ["deny rule" in notices[0], "credentials" in notices[1]] == [True, True]


async def test_what_is_wrong_is_said_once_and_the_session_goes_on(project: Project) -> None:
    project.file("AGENTS.md", b"\xff")
    project.file("CLAUDE.md", "good")
    model = ScriptedProvider([reply("ok"), reply("ok")])
    async with session(project, model) as opened:
        seen = [*await events_of(opened, "Hello"), *await events_of(opened, "Again")]
    (notice,) = [event.text for event in seen if isinstance(event, Notice)]
    assert notice == f"Instructions: {project.repo}/AGENTS.md is left out: it is not UTF-8 text (byte 0)."
    assert told(model.requests[0].messages, project) == [["CLAUDE.md"]]


async def test_a_small_window_gives_them_a_quarter_of_it(project: Project) -> None:
    project.file("AGENTS.md", "line\n" * 20_000)

    class Small(ScriptedProvider):
        def card(self, model: str) -> ModelCard:
            return ModelCard(name=model, window=16_000)

    model = Small([reply("ok")])
    async with session(project, model) as opened:
        (loaded,) = [e for e in await events_of(opened, "Hello") if isinstance(e, InstructionsLoaded)]
    assert loaded.files[0].cut
    assert 3_900 < loaded.files[0].tokens <= 4_000


# -- on demand


@tugline.tool(footprint="reads", subjects=lambda data: (PathSubject(data.where),))
async def inspect(where: str) -> str:
    """Looks."""
    return "seen"


CALLS = [
    call("Read", file_path="pkg/in/a.py"),
    call("Read", file_path="again/in/a.py"),
    call("Write", file_path="pkg/in/new/b.py", content="x"),
    call("Glob", pattern="*.py", path="pkg/in"),
    call("Glob", pattern="pkg/in/*.py"),
    call("Grep", pattern="a", path="pkg/in"),
    call("inspect", where="pkg/in/a.py"),
]


@pytest.mark.parametrize("used", CALLS, ids=lambda used: f"{used.tool} {list(used.input.values())}")
async def test_what_a_call_touches_brings_up_the_files_on_the_way(project: Project, used: Any) -> None:
    for name in ("AGENTS.md", "pkg/AGENTS.md", "pkg/in/CLAUDE.md", "other/AGENTS.md", "pkg/in/a.py"):
        project.file(name, f"text of {name}")
    project.link("again", "pkg")
    steps = [reply(used), reply(call("Read", file_path="pkg/in/a.py")), reply("done")]
    model = ScriptedProvider(steps)
    async with session(project, model, tools=[inspect], permission_mode="acceptEdits") as opened:
        seen = await events_of(opened, "Go")
    messages = model.requests[2].messages
    assert told(messages, project) == [["AGENTS.md"], ["pkg/AGENTS.md", "pkg/in/CLAUDE.md"]]
    letter = messages[4]
    assert isinstance(letter, User)
    assert (letter.source, letter.hidden) == ("context", True)
    assert texts(letter).startswith("<system-reminder>")
    assert list(model.requests[1].messages) == list(messages[:5]), "it came with the results"
    loaded = [event for event in seen if isinstance(event, InstructionsLoaded)]
    assert [event.reason for event in loaded] == ["started", "touched"]


async def test_calls_side_by_side_tell_once(project: Project) -> None:
    project.file("pkg/AGENTS.md", "pkg")
    project.file("pkg/a.py", "a")
    project.file("pkg/b.py", "b")
    model = ScriptedProvider([reply(*(call("Read", file_path=f"pkg/{name}.py") for name in "abab")), reply("done")])
    async with session(project, model) as opened:
        await opened.run("Go")
    assert told(model.requests[1].messages, project) == [["pkg/AGENTS.md"]]


async def test_a_folder_beside_the_working_folder_counts_too_and_one_outside_does_not(project: Project) -> None:
    project.file("a/AGENTS.md", "a")
    project.file("b/AGENTS.md", "b")
    project.file("b/x.py", "x")
    project.file("../else/AGENTS.md", "else")
    project.file("../else/x.py", "x")
    reads = [call("Read", file_path=str(project.top / path)) for path in ("repo/b/x.py", "else/x.py")]
    model = ScriptedProvider([reply(*reads), reply("done")])
    async with session(project, model, cwd="a", permission_mode="bypassPermissions") as opened:
        await opened.run("Go")
    assert told(model.requests[1].messages, project) == [["a/AGENTS.md"], ["b/AGENTS.md"]]


async def test_a_rule_comes_with_the_first_of_its_files(project: Project) -> None:
    project.file(".claude/rules/ts.md", "---\npaths: src/**/*.ts\n---\nNo default exports.")
    project.file("src/.claude/rules/deep.md", "---\npaths: '*.ts'\n---\nDeep.")
    project.file("src/a.ts", "a")
    project.file("src/a.py", "a")
    steps = [reply(call("Read", file_path=f"src/a.{ending}")) for ending in ("py", "ts", "ts")]
    model = ScriptedProvider([*steps, reply("done")])
    async with session(project, model) as opened:
        seen = await events_of(opened, "Go")
    assert told(model.requests[1].messages, project) == []
    assert told(model.requests[3].messages, project) == [[".claude/rules/ts.md", "src/.claude/rules/deep.md"]]
    (loaded,) = [event for event in seen if isinstance(event, InstructionsLoaded)]
    assert loaded.files[0].globs == ("src/**/*.ts",)


async def test_a_mention_brings_them_up_before_the_prompt(project: Project) -> None:
    project.file("pkg/AGENTS.md", "pkg")
    project.file("pkg/a.py", "a")
    model = ScriptedProvider([reply("done")])
    async with session(project, model) as opened:
        await opened.run("What is in @pkg/a.py?")
    assert told(model.requests[0].messages, project) == [["pkg/AGENTS.md"]]
    assert texts(model.requests[0].messages[-1]).startswith("What is in")


async def test_a_reply_that_is_void_has_told_nothing(project: Project) -> None:
    project.file("pkg/AGENTS.md", "pkg")
    project.file("pkg/a.py", "a")
    read = call("Read", file_path="pkg/a.py")
    environ = {"TUGLINE_HOME": str(project.top / "state"), "TUGLINE_NETWORK_RETRY_BASE": "0.001"}
    async with ModelServer([reply(read, gate("read"), cut()), reply(read), reply("done")]) as server:
        given: dict[str, Any] = {"base_url": server.url, "api_key": "k", "cwd": str(project.repo), "environ": environ}
        async with tugline.Session(**given) as opened, opened.stream("Go") as events:
            seen = []
            async for event in events:
                seen.append(event)
                if isinstance(event, tugline.CallFinished):
                    server.open("read")
        told_of = [str(request.body).count("<instruction-file") for request in server.requests]
    assert told_of == [0, 0, 1]
    assert len([event for event in seen if isinstance(event, InstructionsLoaded)]) == 1


async def test_a_broken_file_below_is_said_and_the_call_has_its_result(project: Project) -> None:
    project.file("pkg/AGENTS.md", b"\0")
    project.file("pkg/a.py", "a")
    model = ScriptedProvider(
        [reply(call("Read", file_path="pkg/a.py"), call("Read", file_path="pkg/a.py")), reply("ok")]
    )
    async with session(project, model) as opened:
        seen = await events_of(opened, "Go")
    assert len([event for event in seen if isinstance(event, Notice)]) == 1
    assert not [event for event in seen if isinstance(event, tugline.CallFinished) and event.is_error]


FOLDERS = ("", "a", "a/b", "a/b/c", "d")
touches = st.lists(st.lists(st.sampled_from(FOLDERS), min_size=1, max_size=4), min_size=1, max_size=4)


@given(st.sets(st.sampled_from(FOLDERS)), st.sampled_from(FOLDERS), touches)
@settings(max_examples=30)
async def test_whatever_is_touched_is_told_once_and_no_request_changes_what_was_sent(
    instructed: set[str], cwd: str, steps: list[list[str]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        project = Project(Path(folder))
        (project.repo / ".git").mkdir()
        for name in FOLDERS:
            project.file(os.path.join(name, "x.py"), "x")
        for name in instructed:
            project.file(os.path.join(name, "AGENTS.md"), f"about {name}")
        paths = [[str(project.repo / name / "x.py") for name in names] for names in steps]
        model = ScriptedProvider(
            [*(reply(*(call("Read", file_path=path) for path in step)) for step in paths), reply("ok")]
        )
        async with session(project, model, cwd=cwd, permission_mode="bypassPermissions") as opened:
            await opened.run("Go")
        for before, after in itertools.pairwise(model.requests):
            assert list(after.messages[: len(before.messages)]) == list(before.messages)
        found = [name for files in told(model.requests[-1].messages, project) for name in files]
        reached = {part for name in (cwd, *(name for step in steps for name in step)) for part in above(name)}
        assert sorted(found) == sorted(os.path.join(name, "AGENTS.md") for name in instructed & reached)


def above(name: str) -> set[str]:
    parts = name.split("/") if name else []
    return {"/".join(parts[:count]) for count in range(len(parts) + 1)}


# -- the conversation becomes another one


class Cutter:
    """Compacts once, when told to: the prompt alone is left, behind what the files say now."""

    def __init__(self, briefing: FileBriefing) -> None:
        self.briefing = briefing
        self.due = False

    async def before_step(self, messages: Sequence[Message], tokens: int, card: ModelCard, *, force: bool) -> Any:
        if not self.due:
            return None
        self.due = False
        leading = User(MessageId("leading"), await self.briefing.anew(), "context", hidden=True)
        prompts = [one for one in messages if isinstance(one, User) and one.source == "person"]
        return Compacted(id=MessageId("boundary"), messages=(leading, *prompts[-1:]))


async def test_after_a_compaction_files_are_read_anew_and_told_anew(project: Project) -> None:
    project.file("AGENTS.md", "old")
    project.file("pkg/AGENTS.md", "pkg")
    project.file("pkg/a.py", "a")
    read = reply(call("Read", file_path="pkg/a.py"))
    model = ScriptedProvider([read, reply("one"), read, reply("two")])
    async with session(project, model) as opened:
        agent = opened.inside.agent
        assert isinstance(agent.briefing, FileBriefing)
        agent.compactor = cutter = Cutter(agent.briefing)
        await opened.run("first")
        assert agent.gear.state.now.told == {str(project.repo / name) for name in ("AGENTS.md", "pkg/AGENTS.md")}
        project.file("AGENTS.md", "new")
        cutter.due = True
        seen = await events_of(opened, "second")
    shortened = model.requests[2].messages
    assert told(shortened, project) == [["AGENTS.md"]]
    assert "\nnew\n" in texts(shortened[0])
    assert told(model.requests[3].messages, project) == [["AGENTS.md"], ["pkg/AGENTS.md"]]
    assert [event.reason for event in seen if isinstance(event, InstructionsLoaded)] == ["compacted", "touched"]


def briefed(project: Project, history: Sequence[Message] = ()) -> Stage:
    stage = Stage(ScriptedProvider([reply("ok")]), history=history)
    reader = Instructions(DISK, project.scheme(), lambda text: None)
    stage.agent.briefing = FileBriefing(stage.gear, stage.ids, reader)
    return stage


async def test_a_resumed_conversation_is_told_what_changed_and_nothing_else(project: Project) -> None:
    for name in ("AGENTS.md", "CLAUDE.md", ".claude/rules/a.md"):
        project.file(name, f"old {name}")
    first = briefed(project)
    await first.run()
    same = briefed(project, first.messages)
    await same.run()
    assert told(same.messages, project) == [["AGENTS.md", "CLAUDE.md", ".claude/rules/a.md"]]
    assert same.gear.state.now.told == first.gear.state.now.told
    assert not same.said(InstructionsLoaded)
    project.file("AGENTS.md", "new")
    (project.repo / "CLAUDE.md").unlink()
    changed = briefed(project, same.messages)
    await changed.run()
    (loaded,) = changed.said(InstructionsLoaded)
    assert (loaded.reason, [project.name(one.path) for one in loaded.files]) == ("resumed", ["AGENTS.md"])
    notes = [one for one in changed.messages if isinstance(one, User) and one.source == "context"]
    assert len(notes) == 2
    assert "no longer there" in texts(notes[1])
    names = sorted(project.name(path) for path in changed.gear.state.now.told)
    assert names == [".claude/rules/a.md", "AGENTS.md"]


async def test_a_session_goes_on_in_another_process_and_tells_on_demand_what_it_has_not_told(project: Project) -> None:
    for name in ("AGENTS.md", "pkg/AGENTS.md", "lib/AGENTS.md", "pkg/a.py", "lib/a.py"):
        project.file(name, f"old {name}")
    read = [reply(call("Read", file_path=f"{name}/a.py")) for name in ("pkg", "lib")]
    async with session(project, ScriptedProvider([read[0], reply("one")]), session_id="first") as opened:
        await opened.run("first")
    project.file("AGENTS.md", "new")
    model = ScriptedProvider([*read, reply("two")])
    async with session(project, model, resume="first") as opened:
        seen = await events_of(opened, "second")
    assert told(model.requests[2].messages, project) == [
        ["AGENTS.md"], ["pkg/AGENTS.md"], ["AGENTS.md"], ["lib/AGENTS.md"],
    ]  # fmt: skip
    assert [event.reason for event in seen if isinstance(event, InstructionsLoaded)] == ["resumed", "touched"]


async def test_after_a_rewind_what_was_taken_back_is_told_again_when_it_is_touched(project: Project) -> None:
    for name in ("AGENTS.md", "pkg/AGENTS.md", "pkg/a.py"):
        project.file(name, name)
    read = reply(call("Read", file_path="pkg/a.py"))
    model = ScriptedProvider([read, reply("one"), read, reply("two")])
    async with session(project, model) as opened:
        await opened.run("first")
        (prompt,) = await opened.inside.prompts()
        await opened.inside.rewind(prompt.id)
        await opened.run("otherwise")
    last = model.requests[3].messages
    assert told(last, project) == [["AGENTS.md"], ["pkg/AGENTS.md"]]
    assert list(last[:1]) == list(model.requests[0].messages[:1])


async def test_a_conversation_that_is_cleared_begins_anew(project: Project) -> None:
    project.file("AGENTS.md", "a")
    model = ScriptedProvider([reply("one"), reply("two")])
    async with session(project, model) as opened:
        await opened.run("first")
        await opened.inside.clear()
        seen = await events_of(opened, "second")
    assert told(model.requests[1].messages, project) == [["AGENTS.md"]]
    assert [event.reason for event in seen if isinstance(event, InstructionsLoaded)] == ["started"]


async def test_what_did_not_fit_after_a_compaction_is_not_told_with_the_next_prompt(project: Project) -> None:
    project.file("AGENTS.md", "line\n" * 1_000)
    stage = briefed(project)
    await stage.run()
    assert isinstance(stage.agent.briefing, FileBriefing)
    content = await stage.agent.briefing.anew(200)
    leading = User(MessageId("leading"), content, "context", hidden=True)
    stage.transcript.compact(Compacted(id=MessageId("boundary"), messages=(leading,)))
    await stage.agent.briefing.give()
    assert stage.messages == [leading]
    assert 0 < len(texts(leading)) < 2_000


async def test_a_disk_that_does_not_answer_is_left_alone(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "SECONDS", 0.01)
    project.file("AGENTS.md", "a")
    project.file("pkg/a.py", "a")
    answered = threading.Event()
    lines: list[str] = []

    def read(path: str, offset: int, limit: int | None) -> tuple[bytes, FileStat]:
        answered.wait()
        return DISK.read(path, offset, limit)

    def entries(path: str) -> Sequence[tuple[str, str]]:
        answered.wait()
        return DISK.entries(path)

    reader = Instructions(structs.replace(DISK, read=read, entries=entries), project.scheme(), lines.append)
    try:
        with anyio.fail_after(30):
            assert await reader.read() == ()
    finally:
        answered.set()
    assert lines == ["Files of instructions could not be read within 0.01 seconds; they are left out."]
