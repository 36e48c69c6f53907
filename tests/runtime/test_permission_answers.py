"""What an answer can carry: a changed input, rules and where they are kept, changes of mode and folders, images."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tugline
from tugline.config.trust import TrustStore
from tugline.protocol.blocks import Image, Text
from tugline.protocol.codec import decode_json, encode
from tugline.protocol.commands import AddDirectory, Reply
from tugline.protocol.events import DirectoryAdded, ModeChanged, Notice, PermissionAsked
from tugline.protocol.messages import User
from tugline.protocol.permissions import Allow, Answer, Deny, PermissionQuestion, PermissionUpdate
from tugline.protocol.trust import TrustAnswer, TrustQuestion
from tugline.testing import ScriptedProvider, call, reply

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="


class Desk:
    def __init__(self, folder: Path) -> None:
        self.work, self.home, self.state, self.other = (folder / name for name in ("work", "home", "state", "other"))
        for path in (self.work / ".git", self.home, self.other):
            path.mkdir(parents=True)
        self.store = TrustStore(str(self.state / "config" / "trust.json"))

    def session(self, model: Any, **options: Any) -> tugline.Session:
        environ = {"PATH": os.environ["PATH"], "HOME": str(self.home), "TUGLINE_HOME": str(self.state)}
        return tugline.Session(provider=model, cwd=self.work, environ=environ, **options)

    def local(self) -> dict[str, Any]:
        return dict(json.loads((self.work / ".tugline/settings.local.json").read_text()))

    def settings(self, data: Any) -> None:
        (self.work / ".tugline").mkdir(exist_ok=True)
        (self.work / ".tugline/settings.json").write_text(json.dumps(data))


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path.resolve())


def touch(*names: str) -> ScriptedProvider:
    return ScriptedProvider([*(reply(call("Bash", command=f"touch {name}")) for name in names), reply("ok")])


async def ask(desk: Desk, model: Any, answer: Callable[[PermissionQuestion], Any], **options: Any) -> list[Any]:
    """The questions that were asked."""
    asked: list[PermissionQuestion] = []

    def permission(question: PermissionQuestion) -> Any:
        asked.append(question)
        return answer(question)

    async with desk.session(model, permission=permission, **options) as opened:
        await opened.run("Go")
    return asked


async def test_the_question_says_in_which_file_always_is_kept_and_the_answer_counts_in_the_next_session(
    desk: Desk,
) -> None:
    desk.store.trust(str(desk.work), {})
    always = lambda question: Allow(remember="always", rules=question.suggestions)  # noqa: E731
    (question,) = await ask(desk, touch("a && touch b"), always)
    assert question.saved_in == str(desk.work / ".tugline/settings.local.json")
    assert desk.local()["permissions"]["allow"] == list(question.suggestions) == ["Bash(touch a)", "Bash(touch b)"]
    assert "settings.local.json" in (desk.work / ".tugline/.gitignore").read_text()
    again = await ask(desk, touch("a && touch b"), always)
    assert again == [], "what is written on a person's word is approved with it"


async def test_in_a_folder_that_is_not_trusted_the_question_names_no_file(desk: Desk) -> None:
    (question,) = await ask(desk, touch("a"), lambda _: True)
    assert question.saved_in == ""


async def test_a_changed_input_is_judged_again_by_rules_that_deny(desk: Desk) -> None:
    change = lambda _: Allow(input={"command": "touch secret"})  # noqa: E731
    await ask(desk, touch("a"), change, disallowed_tools=["Bash(touch secret)"])
    assert not (desk.work / "secret").exists()
    await ask(desk, touch("a"), change)
    assert (desk.work / "secret").exists()


async def test_a_permission_that_became_a_denial_while_the_question_stood_is_one(desk: Desk) -> None:
    async with desk.session(touch("a"), attended=True) as opened:
        async with opened.stream("Go") as events:
            async for event in events:
                if isinstance(event, PermissionAsked):
                    opened.set_mode("plan")
                    opened.send(Reply(event.question.id, Allow()))
    assert not (desk.work / "a").exists()


async def test_images_with_a_yes_reach_the_model(desk: Desk) -> None:
    model = touch("a")
    await ask(desk, model, lambda _: Allow(words="like this", content=(Image("image/png", PIXEL),)))
    blocks = [
        block for message in model.requests[-1].messages if isinstance(message, User) for block in message.content
    ]
    assert any(isinstance(block, Image) for block in blocks)
    assert any(isinstance(block, Text) and "like this" in block.text for block in blocks)


def rules(*texts: str, **more: Any) -> PermissionUpdate:
    return PermissionUpdate("addRules", rules=texts, **more)


@pytest.mark.parametrize(
    ("updates", "asked"),
    [
        ((rules("Bash(touch *)"),), 1),
        ((PermissionUpdate("setMode", mode="acceptEdits"),), 1),
        ((rules("Bash(touch b)", behavior="deny"),), 1),
        ((rules("Bash(touch *)"), PermissionUpdate("removeRules", rules=("Bash(touch *)",))), 2),
        ((rules("Bash(touch *)"), PermissionUpdate("replaceRules", rules=("Bash(ls)",))), 2),
        ((rules("Bash(touch *)"), rules("Bash(((")), 2),
        ((rules("Bash(touch *)"), PermissionUpdate("addDirectories", directories=("/no/such/folder",))), 2),
    ],
)
async def test_what_else_an_answer_changes_holds_from_the_next_call_on_all_of_it_or_nothing(
    desk: Desk, updates: tuple[PermissionUpdate, ...], asked: int
) -> None:
    answers = iter([Allow(updates=updates), Allow()])
    assert len(await ask(desk, touch("a", "b"), lambda _: next(answers))) == asked
    assert (desk.work / "a").exists(), "what is wrong with an update does not touch the yes"


async def test_changes_are_kept_where_they_are_meant_to_be(desk: Desk) -> None:
    desk.store.trust(str(desk.work), {})
    updates = (
        rules("Bash(a)", destination="userSettings"),
        rules("Bash(b)", destination="projectSettings"),
        PermissionUpdate("addDirectories", directories=(str(desk.other),), destination="localSettings"),
        PermissionUpdate("setMode", mode="acceptEdits", destination="localSettings"),
    )
    await ask(desk, touch("x"), lambda _: Allow(updates=updates))
    user = json.loads((desk.state / "config/settings.json").read_text())
    project = json.loads((desk.work / ".tugline/settings.json").read_text())
    assert (user, project) == ({"permissions": {"allow": ["Bash(a)"]}}, {"permissions": {"allow": ["Bash(b)"]}})
    assert desk.local() == {"permissions": {"additionalDirectories": [str(desk.other)], "defaultMode": "acceptEdits"}}
    async with desk.session(ScriptedProvider([])) as opened:
        policy = opened.inside.standing.policy
        assert (policy.mode, policy.directories) == ("acceptEdits", (str(desk.work), str(desk.other)))
        assert [rule.text for rule in policy.allow] == ["Bash(a)", "Bash(b)"]


async def test_what_settings_forbid_stays_forbidden_and_a_rule_that_is_there_is_not_added_twice(desk: Desk) -> None:
    updates = (
        PermissionUpdate("removeRules", rules=("Bash(touch forbidden)",), behavior="deny"),
        PermissionUpdate("replaceRules", behavior="deny"),
        PermissionUpdate("removeDirectories", directories=(str(desk.work),)),
        rules("Bash(a)"),
        rules("Bash(a)"),
    )
    deny = {"permissions": {"deny": ["Bash(touch forbidden)"]}}
    async with desk.session(touch("a"), permission=lambda _: Allow(updates=updates), settings=deny) as opened:
        before = opened.inside.standing.policy
        await opened.run("Go")
        after = opened.inside.standing.policy
    assert len(before.deny) == 1
    assert (after.deny, after.directories) == (before.deny, before.directories)
    assert [rule.text for rule in after.allow] == ["Bash(a)"]


async def test_an_answer_cannot_switch_to_a_mode_that_is_taken_away(desk: Desk) -> None:
    off = {"permissions": {"disableBypassPermissionsMode": "disable"}}
    bypass = PermissionUpdate("setMode", mode="bypassPermissions")
    async with desk.session(touch("a", "b"), permission=lambda _: Allow(updates=(bypass,)), settings=off) as opened:
        events = opened.events()
        await opened.run("Go")
        heard = await events.batch()
        assert opened.inside.standing.mode == "default"
    assert next(event.text for event in heard if isinstance(event, Notice)).startswith("The change of permissions")


@pytest.mark.parametrize(
    "answer",
    [
        Allow(updates=(rules("Bash(a)"),), content=(Image("image/png", PIXEL),)),
        tugline.ApprovePlan("auto", "plan", "words"),
        tugline.RejectPlan("no"),
        TrustAnswer(True, only=("a",)),
    ],
)
def test_answers_cross_a_wire(answer: Any) -> None:
    assert decode_json(encode(answer))["type"] == answer.__struct_config__.tag
    import msgspec

    assert msgspec.json.decode(encode(answer), type=Answer) == answer


async def test_a_function_may_answer_in_a_persons_place_and_the_person_is_asked_where_it_has_no_opinion(
    desk: Desk,
) -> None:
    def tool(question: PermissionQuestion) -> Any:
        command = question.input["command"]
        if "crash" in command:
            raise ZeroDivisionError
        return {"touch a": Allow(), "touch b": Deny("not b")}.get(command)

    asked = await ask(desk, touch("a", "b", "c", "crash"), lambda _: True, permission_tool=tool)
    assert {question.input["command"] for question in asked} >= {"touch c", "touch crash"}
    made = {path.name for path in desk.work.iterdir()}
    assert {"c", "crash"} <= made
    headless = touch("d", "b")
    async with desk.session(headless, permission_tool=lambda q: "b" not in q.input["command"]) as opened:
        finished = await opened.run("Go")
    assert ((desk.work / "d").exists(), len(finished.denials)) == (True, 1)


async def test_a_function_cannot_change_a_call_into_one_that_only_a_person_may_allow(desk: Desk) -> None:
    change = lambda _: Allow(input={"command": "echo x >> .git/config"})  # noqa: E731
    async with desk.session(touch("a"), permission_tool=change) as opened:
        finished = await opened.run("Go")
    assert (len(finished.denials), (desk.work / ".git/config").exists()) == (1, False)


async def test_a_folder_added_while_it_runs_may_be_worked_in_and_the_model_is_told(desk: Desk) -> None:
    path = desk.other / "made.txt"
    write = call("Write", file_path=str(path), content="x")
    model = ScriptedProvider([reply("one"), reply(write, call("Bash", command=f"cd {desk.other}")), reply("two")])
    async with desk.session(model, permission_mode="acceptEdits") as opened:
        await opened.run("one")
        events = opened.events()
        opened.send(AddDirectory("../other"))
        with pytest.raises(tugline.UsageError, match="not a folder"):
            opened.add_directory("no/such")
        await opened.run("two")
        heard = await events.batch()
        assert opened.inside.agent.gear.state.now.cwd == str(desk.other)
    assert path.read_text() == "x"
    assert [event.path for event in heard if isinstance(event, DirectoryAdded)] == [str(desk.other)]
    assert f"{desk.other} is a working directory now" in str(model.requests[1].messages)
    assert len(model.requests) == 3


# -- trust


SETTINGS = {"env": {"A": "1"}, "permissions": {"allow": ["Bash(touch *)"]}}


async def test_a_callback_is_asked_before_the_session_begins_and_its_yes_is_kept(desk: Desk) -> None:
    desk.settings(SETTINGS)
    asked: list[TrustQuestion] = []

    async def trust(question: TrustQuestion) -> bool:
        asked.append(question)
        return True

    for _ in range(2):
        async with desk.session(touch("a"), trust=trust) as opened:
            finished = await opened.run("Go")
            assert (finished.denials, opened.notices) == ((), ())
    (question,) = asked
    assert (question.folder, question.first) == (str(desk.work), True)
    assert [item.name for item in question.items] == ["env.A", "permissions.allow Bash(touch *)"]
    desk.settings({**SETTINGS, "env": {"A": "2"}})
    async with desk.session(touch("a"), trust=trust):
        pass
    assert [(item.name, item.change, item.before) for item in asked[1].items if item.change != "approved"] == [
        ("env.A", "changed", "1")
    ]


@pytest.mark.parametrize(
    ("answer", "count"),
    [
        (False, 0),
        (TrustAnswer(), 0),
        (TrustAnswer(True), 2),
        (TrustAnswer(True, remember=False), 2),
        (TrustAnswer(True, only=(".tugline/settings.json: env.A",)), 1),
        (TrustAnswer(True, only=()), 0),
    ],
)
async def test_what_is_answered_is_what_counts(desk: Desk, answer: Any, count: int) -> None:
    desk.settings(SETTINGS)
    async with desk.session(ScriptedProvider([]), trust=lambda _: answer) as opened:
        assert len(opened.inside.standing.policy.allow) == (count == 2)
        assert bool(opened.notices) == (count < 2)
    kept = desk.store.of(str(desk.work))[0]
    remembered = isinstance(answer, TrustAnswer) and answer.trusted and answer.remember
    assert (kept is not None) == remembered


async def test_an_answer_that_is_none_or_names_what_was_not_asked_opens_no_session(desk: Desk) -> None:
    desk.settings(SETTINGS)
    for answer in ("yes", TrustAnswer(True, only=("other",))):
        with pytest.raises(tugline.UsageError):
            async with desk.session(ScriptedProvider([]), trust=lambda _, answer=answer: answer):
                pass
    assert desk.store.of(str(desk.work))[0] is None


async def test_a_frontend_is_asked_by_event_and_what_it_approves_counts_in_the_next_session(desk: Desk) -> None:
    desk.settings(SETTINGS)
    async with desk.session(ScriptedProvider([reply("ok")]), attended=True) as opened:
        finished = await opened.run("Go")
        assert finished.reason == "completed", "nothing waits for the answer"
        (question,) = opened.inside.questions.open()
        assert isinstance(question, TrustQuestion)
        opened.send(Reply(question.id, TrustAnswer(True)))
        assert len(opened.inside.standing.policy.allow) == 0
    async with desk.session(ScriptedProvider([reply("ok")]), attended=True) as opened:
        assert (len(opened.inside.standing.policy.allow), opened.notices) == (1, ())
        assert opened.inside.questions.open() == ()


# -- slash commands


async def answer_of(opened: tugline.Session, command: str) -> str:
    return (await opened.run(command)).text


async def test_the_commands_show_what_stands_and_change_it(desk: Desk) -> None:
    desk.settings({"env": {"A\x1b": "1"}})
    model = ScriptedProvider([])
    async with desk.session(model, allowed_tools=["Bash(ls)"], disallowed_tools=["WebFetch(domain:x.org)"]) as opened:
        events = opened.events()
        shown = await answer_of(opened, "/permissions")
        assert "Mode: default" in shown
        assert "- `Bash(ls)` (command line)" in shown
        assert "- `WebFetch(domain:x.org)`" in shown
        assert "- env (" in shown
        assert "takes one of default, acceptEdits" in await answer_of(opened, "/mode")
        assert await answer_of(opened, "/mode ACCEPTEDITS") == "The permission mode is acceptEdits now."
        assert (await opened.run("/mode fast")).reason == "failed"
        assert "Plan mode is on" in await answer_of(opened, "/plan")
        assert "there is no plan yet" in await answer_of(opened, "/plan")
        assert str(desk.other) in await answer_of(opened, f"/add-dir {desk.other}")
        assert (await opened.run("/add-dir")).reason == "failed"
        assert (await opened.run("/add-dir /no/such")).reason == "failed"
        assert str(desk.other) in await answer_of(opened, "/permissions")
        status = await answer_of(opened, "/status")
        modes = [event.mode for event in await events.batch() if isinstance(event, ModeChanged)]
    assert modes == ["acceptEdits", "plan"]
    for part in ("Permission mode: plan", "this folder is not trusted (tugline trust)", ".jsonl", "Sandbox: "):
        assert part in status
    assert model.requests == []


async def test_where_approvals_are_kept_is_asked_about_in_every_mode(desk: Desk) -> None:
    path = desk.state / "config" / "trust.json"
    model = ScriptedProvider(
        [
            reply(call("Write", file_path=str(path), content="{}")),
            reply(call("Bash", command=f"echo x > {path}")),
            reply("ok"),
        ]
    )
    async with desk.session(model, permission_mode="bypassPermissions") as opened:
        finished = await opened.run("Go")
    assert (len(finished.denials), path.exists()) == (2, False)
