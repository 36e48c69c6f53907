"""Plan mode: only reading and the plan's own file, until a person has approved the plan; the model is always told."""

import itertools
import os
from pathlib import Path
from typing import Any

import pytest

import tugline
from tugline.protocol.blocks import Text, ToolResult
from tugline.protocol.commands import Reply, SetMode
from tugline.protocol.events import ModeChanged, PlanAsked, QuestionClosed
from tugline.protocol.ids import MessageId
from tugline.protocol.messages import User
from tugline.protocol.permissions import ApprovePlan, PlanQuestion, RejectPlan
from tugline.rules.planning import told_on
from tugline.testing import ScriptedProvider, call, gate, reply

PLAN = "# Plan\n\n1. Write a.txt\n"
EDIT = call("Write", file_path="a.txt", content="made\n")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name in ("work", "home", "state"):
        (tmp_path / name).mkdir()
    return tmp_path


def session(place: Path, model: ScriptedProvider, **options: Any) -> tugline.Session:
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(place / "home"),
        "TUGLINE_HOME": str(place / "state"),
    }
    return tugline.Session(provider=model, cwd=place / "work", environ=environ, **options)


def said(model: ScriptedProvider, request: int) -> str:
    """All that the user's side of a request says."""
    found = []
    for message in model.requests[request].messages:
        if isinstance(message, User):
            for block in message.content:
                if isinstance(block, Text):
                    found.append(block.text)
                elif isinstance(block, ToolResult):
                    found.append(str(block.content))
    return "\n".join(found)


def made(place: Path) -> bool:
    return (place / "work" / "a.txt").exists()


async def test_a_plan_that_is_approved_is_carried_out_in_the_chosen_mode(place: Path) -> None:
    asked: list[PlanQuestion] = []

    def approve(question: PlanQuestion) -> ApprovePlan:
        asked.append(question)
        return ApprovePlan("acceptEdits", words="mind the tests")

    model = ScriptedProvider([reply(call("ExitPlanMode", plan=PLAN)), reply(EDIT), reply("Done.")])
    async with session(place, model, permission_mode="plan", plan=approve) as opened:
        events = opened.events()
        finished = await opened.run("Make a.txt")
        heard = [event for event in await events.batch() if isinstance(event, PlanAsked | QuestionClosed | ModeChanged)]
        mode = opened.inside.standing.mode
    assert (finished.text, finished.denials, mode, made(place)) == ("Done.", (), "acceptEdits", True)
    (question,) = asked
    assert (question.plan, question.modes) == (PLAN, ("default", "acceptEdits", "auto"))
    assert [type(event).__name__ for event in heard] == ["PlanAsked", "QuestionClosed", "ModeChanged"]
    assert "The user has approved the plan" in said(model, 1)
    assert "mind the tests" in said(model, 1)
    path = Path(question.file)
    assert path.read_text() == PLAN
    assert (path.parent.name, path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (
        "plans", 0o600, 0o700,
    )  # fmt: skip


async def test_a_plan_that_the_person_has_changed_is_what_the_model_is_told_and_what_is_kept(place: Path) -> None:
    model = ScriptedProvider([reply(call("ExitPlanMode", plan=PLAN)), reply("Done.")])
    async with session(
        place, model, permission_mode="plan", plan=lambda _: ApprovePlan(plan="1. Write b.txt instead")
    ) as opened:
        await opened.run("Make a.txt")
        assert opened.inside.standing.mode == "default"
        assert opened.inside.place.plan() == "1. Write b.txt instead"
    assert "1. Write b.txt instead" in said(model, 1)


@pytest.mark.parametrize("answer", [RejectPlan("use b.txt"), False, None, "yes"])
async def test_without_a_yes_plan_mode_goes_on(place: Path, answer: Any) -> None:
    model = ScriptedProvider([reply(call("ExitPlanMode", plan=PLAN)), reply(EDIT), reply("Done.")])
    async with session(place, model, permission_mode="plan", plan=lambda _: answer) as opened:
        finished = await opened.run("Make a.txt")
        assert opened.inside.standing.mode == "plan"
    assert not made(place)
    assert [denial["tool_name"] for denial in finished.denials] == ["Write"]
    assert "does not want this plan" in said(model, 1)
    if isinstance(answer, RejectPlan):
        assert "use b.txt" in said(model, 1)


async def test_a_mode_that_was_not_offered_is_not_taken(place: Path) -> None:
    model = ScriptedProvider([reply(call("ExitPlanMode", plan=PLAN)), reply("Done.")])
    async with session(place, model, permission_mode="plan", plan=lambda _: ApprovePlan("bypassPermissions")) as opened:
        await opened.run("Make a.txt")
        assert opened.inside.standing.mode == "default"


async def test_with_nobody_to_ask_the_plan_becomes_the_answer(place: Path) -> None:
    model = ScriptedProvider([reply(call("ExitPlanMode", plan=PLAN)), reply("The plan is: …")])
    async with session(place, model, permission_mode="plan") as opened:
        await opened.run("Make a.txt")
        assert opened.inside.standing.mode == "plan"
    assert "Nobody can approve the plan in this run" in said(model, 1)


async def test_with_nobody_to_ask_plan_mode_is_not_begun(place: Path) -> None:
    model = ScriptedProvider([reply(call("EnterPlanMode")), reply(EDIT), reply("Done.")])
    async with session(place, model, permission_mode="acceptEdits") as opened:
        await opened.run("Make a.txt")
        assert opened.inside.standing.mode == "acceptEdits"
    assert "go on without one" in said(model, 1)
    assert made(place)


async def test_the_plan_may_be_written_to_its_own_file_and_to_no_other(place: Path) -> None:
    plans = place / "state" / "data" / "plans"
    path = plans / "mine.md"
    denied = [
        call("Write", file_path=str(plans / "other.md"), content="x"),
        call("Bash", command=f"echo x > {path}.2"),
        EDIT,
    ]
    model = ScriptedProvider(
        [
            reply(call("Write", file_path=str(path), content=PLAN), call("Read", file_path=str(path))),
            reply(call("Edit", file_path=str(path), old_string="a.txt", new_string="c.txt")),
            *(reply(one) for one in denied),
            reply(call("ExitPlanMode")),
            reply("Done."),
        ]
    )
    plans_asked: list[str] = []

    def approve(question: PlanQuestion) -> bool:
        plans_asked.append(question.plan)
        return True

    async with session(place, model, session_id="mine", permission_mode="plan", plan=approve) as opened:
        finished = await opened.run("Make a.txt")
    assert [denial["tool_name"] for denial in finished.denials] == ["Write", "Bash", "Write"]
    assert plans_asked == [PLAN.replace("a.txt", "c.txt")]
    assert [file.name for file in plans.iterdir()] == ["mine.md"]


async def test_once_plan_mode_is_over_the_plan_file_is_a_file_like_any_other(place: Path) -> None:
    path = place / "state" / "data" / "plans" / "mine.md"
    model = ScriptedProvider([reply(call("Write", file_path=str(path), content=PLAN)), reply("Done.")])
    async with session(place, model, session_id="mine", permission_mode="acceptEdits") as opened:
        finished = await opened.run("Go")
    assert len(finished.denials) == 1


async def test_the_model_may_begin_plan_mode_and_goes_back_to_the_mode_from_before(place: Path) -> None:
    model = ScriptedProvider(
        [reply(call("EnterPlanMode")), reply(EDIT), reply(call("ExitPlanMode", plan=PLAN)), reply(EDIT), reply("Done.")]
    )
    async with session(place, model, permission_mode="acceptEdits", plan=lambda _: True) as opened:
        finished = await opened.run("Make a.txt")
        assert opened.inside.standing.mode == "acceptEdits"
    assert len(finished.denials) == 1
    assert made(place)
    assert said(model, 1).count("Plan mode is on.") == 1, "its result says it, and no reminder says it again"


async def test_presenting_a_plan_outside_of_plan_mode_or_without_one_is_an_error(place: Path) -> None:
    model = ScriptedProvider([reply(call("ExitPlanMode", plan=PLAN)), reply("Done.")])
    async with session(place, model, plan=lambda _: True) as opened:
        await opened.run("Go")
    assert "plan mode is not on" in said(model, 1)
    model = ScriptedProvider([reply(call("ExitPlanMode")), reply("Done.")])
    async with session(place, model, permission_mode="plan", plan=lambda _: True) as opened:
        await opened.run("Go")
    assert "there is no plan yet" in said(model, 1)


async def test_mode_changes_between_prompts_reach_the_model_once_and_only_if_something_changed(place: Path) -> None:
    model = ScriptedProvider([reply(str(n)) for n in range(4)])
    async with session(place, model) as opened:
        await opened.run("one")
        opened.set_mode("plan")
        opened.set_mode("default")
        await opened.run("two")
        opened.set_mode("plan")
        await opened.run("three")
        opened.set_mode("acceptEdits")
        await opened.run("four")
    assert "Plan mode" not in said(model, 1), "there and back again is nothing to tell"
    assert (said(model, 2).count("Plan mode is on."), said(model, 2).count("Plan mode is off.")) == (1, 0)
    assert (said(model, 3).count("Plan mode is on."), said(model, 3).count("Plan mode is off.")) == (1, 1)
    requests = model.requests
    assert {request.system for request in requests} == {requests[0].system}
    for before, after in itertools.pairwise(requests):
        assert list(after.messages[: len(before.messages)]) == list(before.messages), "the prefix is kept"


async def test_a_change_of_mode_begins_no_turn_by_itself(place: Path) -> None:
    model = ScriptedProvider([reply("one"), reply("two")])
    async with session(place, model) as opened:
        await opened.run("one")
        await opened.run("/plan")
        assert len(model.requests) == 1
        await opened.run("two")
    assert len(model.requests) == 2


async def test_a_change_of_mode_reaches_the_running_turn(place: Path) -> None:
    model = ScriptedProvider([reply("I look.", gate("go"), EDIT), reply("Planned.")])
    async with session(place, model, permission_mode="acceptEdits") as opened:
        async with opened.stream("Make a.txt") as events:
            async for event in events:
                if isinstance(event, tugline.TextDelta):
                    opened.send(SetMode("plan"))
                    model.open("go")
    assert not made(place)
    assert "Plan mode is on." in said(model, 1)


async def test_plan_and_bypass_are_not_restored_on_resume_and_the_model_is_told(place: Path) -> None:
    for mode in ("plan", "bypassPermissions"):
        model = ScriptedProvider([reply("one"), reply("two")])
        async with session(place, model, permission_mode=mode) as opened:
            await opened.run("one")
            identity = opened.opening.origin.session
        again = ScriptedProvider([reply("two")])
        async with session(place, again, resume=identity) as opened:
            assert opened.inside.standing.mode == "default"
            await opened.run("two")
        assert again.requests[0].system == model.requests[0].system
        assert said(again, 0).count("Plan mode is off.") == (mode == "plan")


async def test_a_frontend_answers_by_command(place: Path) -> None:
    model = ScriptedProvider([reply(call("ExitPlanMode", plan=PLAN)), reply("Done.")])
    async with session(place, model, permission_mode="plan", attended=True) as opened:
        async with opened.stream("Go") as events:
            async for event in events:
                if isinstance(event, PlanAsked):
                    assert not opened.inside.questions.answer(event.question.id, tugline.Allow()), "no such answer"
                    opened.send(Reply(event.question.id, ApprovePlan("auto")))
        assert opened.inside.standing.mode == "auto"


async def test_after_a_compaction_the_model_has_the_plan_and_knows_the_mode(place: Path) -> None:
    long = "What I found, at length. " * 4_000
    first = [reply(call("ExitPlanMode", plan=PLAN)), reply(long)]
    told = "They want a.txt, and no plan for it has been approved so far; more was not said."
    model = ScriptedProvider(
        [
            *first,
            reply(f"<summary>\n## Goal\n{told}\n</summary>"),
            reply("two"),
        ]
    )
    async with session(place, model, permission_mode="plan", plan=lambda _: False) as opened:
        await opened.run("Make a.txt")
        shortened = await opened.run("/compact")
        assert shortened.reason == "completed", shortened.message
        await opened.run("And now?")
    assert "The plan of this session, kept in" in said(model, 3)
    assert "1. Write a.txt" in said(model, 3)
    assert said(model, 3).count("Plan mode is on.") == 1


async def test_after_a_rewind_the_model_is_told_of_the_mode_again(place: Path) -> None:
    model = ScriptedProvider([reply(str(n)) for n in range(3)])
    async with session(place, model) as opened:
        await opened.run("one")
        opened.set_mode("plan")
        await opened.run("two")
        await opened.run("/rewind 2")
        await opened.run("three")
        opened.set_mode("default")
        await opened.run("/rewind 2")
    assert said(model, 2).count("Plan mode is on.") == 1


def test_what_a_conversation_tells_last_is_what_counts() -> None:
    def user(text: str) -> User:
        return User(MessageId(text[:8]), (Text(text),), "letter")

    on, off = user("<system-reminder>Plan mode is on. x"), user("<system-reminder>Plan mode is off. x")
    assert not told_on([])
    assert told_on([off, on, user("and more")])
    assert not told_on([on, off])
