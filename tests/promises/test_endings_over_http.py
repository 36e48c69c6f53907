"""Each way in which a turn ends or goes on, through the library and over real HTTP, with the events that tell of it."""

import asyncio
import os
import re
import resource
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from stage import NoHooks

import tugline
from tugline.ports import HookAfter, Shrink
from tugline.protocol import events as said
from tugline.protocol.codec import decode_record
from tugline.protocol.commands import SetModel
from tugline.protocol.ids import CallId, MessageId
from tugline.protocol.messages import Message, User
from tugline.protocol.records import Compacted, Finished, Said, Started, TurnEnded, Voided
from tugline.protocol.specs import ModelCard, Result
from tugline.protocol.usage import Usage
from tugline.rules import wording
from tugline.rules.permission import Query
from tugline.testing import ModelServer, call, cut, error_event, fail, gate, hang, pause, ping, reply, text

Kind = TypeVar("Kind", bound=tugline.Event)
Open = Callable[..., Any]


class Bench:
    """Tools that a test can watch."""

    def __init__(self) -> None:
        self.looked: list[str] = []
        self.changed: list[str] = []
        self.looking = asyncio.Event()

    def tools(self) -> list[Any]:
        @tugline.tool(footprint="reads")
        async def look(name: str) -> str:
            """Looks."""
            self.looked.append(name)
            self.looking.set()
            return f"{name} seen"

        @tugline.tool(footprint="changes")
        async def change(name: str, size: int = 0) -> str:
            """Changes."""
            self.changed.append(name)
            return "x" * size or f"{name} changed"

        return [look, change]


class Play:
    """A session at a scripted server, and all that it said."""

    def __init__(self, session: tugline.Session, server: ModelServer, bench: Bench, home: Path) -> None:
        self.session = session
        self.server = server
        self.bench = bench
        self.home = home
        self.heard: list[tugline.Event] = []
        session.inside.bus.attach(self.heard.append)

    def said(self, kind: type[Kind]) -> list[Kind]:
        return [event for event in self.heard if isinstance(event, kind)]

    def order(self, *kinds: type[tugline.Event]) -> list[str]:
        """The names of the events of these kinds, in order."""
        return [type(event).__name__ for event in self.heard if isinstance(event, kinds)]

    async def until(self, kind: type[Kind], count: int = 1) -> None:
        """Until so many events of that kind have been heard."""
        events = self.session.events()
        missing = count - len(self.said(kind))
        while missing > 0:
            missing -= isinstance(await events.__anext__(), kind)
        events.close()

    async def interrupted(self, running: "asyncio.Task[tugline.TurnFinished]") -> tugline.TurnFinished:
        """Interrupt; how the turn ended."""
        self.session.interrupt()
        return await running

    @property
    def transcript(self) -> Path:
        (log,) = self.home.rglob("*.jsonl")
        return log

    def records(self) -> list[Any]:
        return [decode_record(line) for line in self.transcript.read_bytes().splitlines()]


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    """Opens a session at a server with that script."""

    @asynccontextmanager
    async def open_play(*script: Any, network: dict[str, Any] | None = None, **options: Any) -> AsyncIterator[Play]:
        project = tmp_path / "project"
        project.mkdir(exist_ok=True)
        settings = {
            "network": {"retryBase": 0.001, **(network or {})},
            "permissions": {"allow": ["change", "look", "Bash"]},
            "models": {"small": {"price": {"output": 1_000_000.0}}, "other": {}},
            **options.pop("settings", {}),
        }
        bench = Bench()
        given: dict[str, Any] = {
            "cwd": str(project),
            "environ": {"TUGLINE_HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"]},
            "api_key": "secret-key",
            "model": "anthropic/small",
            "tools": bench.tools(),
            "builtin_tools": (),
            "settings": settings,
            **options,
        }
        async with ModelServer(script) as server:
            async with tugline.Session(base_url=server.url, **given) as session:
                yield Play(session, server, bench, tmp_path / "home")

    return open_play


STEP = (said.ReplyFinished, said.Tombstone, said.RetryWaiting, said.ModelChanged, said.TurnFinished)


# -- the reply asks for no tool, or is cut


async def test_a_stop_hook_goes_on_with_its_reason_and_knows_that_it_did(opened: Open) -> None:
    asked: list[tuple[str, bool]] = []

    class Hook:
        async def on_stop(self, words: str, active: bool) -> str | None:
            asked.append((words, active))
            return None if active else "The tests have not been run."

    async with opened(reply("Done."), reply("Now they have.")) as play:
        play.session.inside.agent.stop_hook = Hook()
        finished = await play.session.run("Go")
        (last,) = play.server.bodies[1]["messages"][-1]["content"]
    assert (finished.reason, finished.text) == ("completed", "Now they have.")
    assert asked == [("Done.", False), ("Now they have.", True)]
    assert last["text"] == "The tests have not been run."


async def test_a_reply_cut_at_the_output_limit_is_continued_three_times_and_then_stands(opened: Open) -> None:
    script = [reply(f"part {n} ", stop="max_tokens") for n in range(4)]
    async with opened(*script, max_turns=1) as play:
        finished = await play.session.run("Go")
        said_on = [m["content"][0]["text"] for m in play.server.bodies[-1]["messages"] if m["role"] == "user"]
        limits = [body["max_tokens"] for body in play.server.bodies]
    assert (finished.reason, finished.steps) == ("completed", 1)
    assert said_on == ["Go", *[wording.CONTINUE_CUT] * 3]
    assert all(event.message.hidden for event in play.said(said.UserAdded))
    assert [event.level for event in play.said(said.Notice)] == ["warning"]
    assert limits == sorted(limits)


@pytest.mark.parametrize("stop", ["refusal", "moon_phase", "pause_turn"])
async def test_odd_stop_reasons_are_told_and_never_loop(stop: str, opened: Open) -> None:
    script = [reply("Hm.", stop=stop)] * (4 if stop == "pause_turn" else 1)
    async with opened(*script, reply("Fine.")) as play:
        finished = await play.session.run("Go")
        assert finished.stop == stop
        assert (finished.reason == "refused") == (stop == "refusal")
        assert (await play.session.run("And now?")).text == "Fine."


# -- limits and hooks


async def test_the_limit_of_turns_keeps_the_results_and_says_so(opened: Open) -> None:
    script = [reply(call("change", name="a")), reply(call("change", name="b")), reply("Fine.")]
    async with opened(*script, max_turns=2) as play:
        finished = await play.session.run("Go")
        assert (finished.reason, finished.steps) == ("max_steps", 2)
        assert [(e.kind, e.limit, e.count) for e in play.said(said.LimitReached)] == [("max_steps", 2, 2)]
        assert "limit of 2 turns" in finished.message
        await play.session.run("And now?")
        assert "b changed" in str(play.server.bodies[-1]["messages"][-1])


async def test_a_spent_budget_ends_the_turn_and_keeps_the_results(opened: Open) -> None:
    script = [reply(call("change", name="a"), usage=Usage(input=1, output=2))]
    async with opened(*script, max_budget_usd=1.5) as play:
        finished = await play.session.run("Go")
        assert (finished.reason, finished.total_cost_usd) == ("max_budget", 2.0)
        assert [(e.kind, e.limit, e.count) for e in play.said(said.LimitReached)] == [("max_budget", 1.5, 2.0)]
        assert play.bench.changed == ["a"]


async def test_a_hook_that_stops_ends_the_turn_with_its_reason(opened: Open) -> None:
    class Hooks(NoHooks):
        async def after(self, call: CallId, query: Query, result: Result, duration: float) -> HookAfter:
            return HookAfter(stop="Enough for today.")

    async with opened(reply(call("change", name="a")), reply("Fine.")) as play:
        play.session.inside.agent.gear.gate._hooks = Hooks()
        finished = await play.session.run("Go")
        assert (finished.reason, finished.message) == ("hook_stopped", "Enough for today.")
        await play.session.run("And now?")
        assert "a changed" in str(play.server.bodies[-1]["messages"][-1])


# -- interrupts


async def test_an_interrupt_while_streaming_keeps_the_words_and_gives_each_call_a_result(opened: Open) -> None:
    script = [reply("I look. ", call("look", name="a"), call("change", name="b"), text("and "), gate("held"), "x")]
    async with opened(*script, reply("Fine.")) as play:
        running = asyncio.create_task(play.session.run("Go"))
        await play.server.reached("held")
        await play.until(said.ResultAdded)
        finished = await play.interrupted(running)
        assert (finished.reason, finished.interrupted_during) == ("interrupted", "request")
        await play.session.run("And now?")
        _, answer, after = play.server.bodies[-1]["messages"]
    assert [block["type"] for block in answer["content"]] == ["text", "tool_use", "tool_use", "text"]
    assert [block.get("is_error", False) for block in after["content"][:2]] == [False, True]
    assert [block["text"] for block in after["content"][2:]] == [wording.INTERRUPTED_REQUEST, "And now?"]
    assert play.bench.changed == []
    assert play.order(said.ReplyFinished, said.ResultAdded, said.UserAdded, said.TurnFinished)[:5] == [
        "ResultAdded",
        "ReplyFinished",
        "ResultAdded",
        "UserAdded",
        "TurnFinished",
    ]


def processes(mark: str) -> list[str]:
    """The processes whose command line holds this word."""
    found = []
    for path in Path("/proc").iterdir():
        try:
            line = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            state = (path / "stat").read_text().rpartition(")")[2].split()[0]
        except (OSError, NotADirectoryError):
            continue
        if path.name.isdigit() and mark in line and state != "Z" and "pytest" not in line:
            found.append(f"{path.name} {line}")
    return found


async def test_an_interrupt_ends_a_shell_command_and_all_that_it_started_at_once(opened: Open) -> None:
    count = 15
    commands = [f"sleep 61.{n} & (sleep 62.{n} & sleep 63.{n}) & echo up; sleep 64.{n}" for n in range(count)]
    script = [reply(call("Bash", command=command)) for command in commands]
    async with opened(*script, reply("Fine."), builtin_tools=("Bash",)) as play:
        for n in range(count):
            running = asyncio.create_task(play.session.run(f"Go {n}"))
            await play.until(said.CallStarted, n + 1)
            while len(processes(f"sleep 6{n % 4 + 1}.{n}")) == 0:  # whichever of them; they start in any order
                await asyncio.sleep(0.005)
            finished = await play.interrupted(running)
            assert (finished.reason, finished.interrupted_during) == ("interrupted", "tools")
            assert [line for mark in (61, 62, 63, 64) for line in processes(f"sleep {mark}.{n}")] == []
        assert (await play.session.run("And now?")).text == "Fine."
        assert "was interrupted by the user before it finished" in str(play.server.bodies[-1]["messages"])


WAITS: dict[str, tuple[Any, ...]] = {
    "before the first byte": (gate("held"), "x"),
    "while it streams": (reply("words", gate("held"), "more"),),
    "while nothing comes": (reply("words", hang()),),
    "while a retry waits": (fail(429, retry_after=30),),
    "while a stream is to be tried again": (fail(529, retry_after=20),),
}


@pytest.mark.parametrize("name", WAITS)
async def test_an_interrupt_ends_every_wait_at_once(name: str, opened: Open) -> None:
    first = WAITS[name]
    script = [reply(*first)] if name == "before the first byte" else list(first)
    async with opened(*script, reply("Fine.")) as play:
        running = asyncio.create_task(play.session.run("Go"))
        if name == "before the first byte":
            await play.server.reached("held")
        elif name.startswith("while a"):
            await play.until(said.RetryWaiting)
        else:
            await play.until(said.TextDelta)
        finished = await play.interrupted(running)
        assert (finished.reason, finished.interrupted_during) == ("interrupted", "request")
        assert (await play.session.run("And now?")).text == "Fine."


async def test_an_interrupt_withdraws_an_open_question(opened: Open) -> None:
    script = [reply(call("Bash", command="make install")), reply("Fine.")]
    options = {"builtin_tools": ("Bash",), "settings": {"permissions": {}}, "attended": True}
    async with opened(*script, **options) as play:
        running = asyncio.create_task(play.session.run("Go"))
        await play.until(said.PermissionAsked)
        finished = await play.interrupted(running)
        assert finished.reason == "interrupted"
        assert [event.outcome for event in play.said(said.QuestionClosed)] == ["withdrawn"]
        await play.session.run("And now?")
        assert "it was not run" in str(play.server.bodies[-1]["messages"])


# -- the provider is in trouble


async def test_an_overload_in_the_stream_brings_in_the_fallback_and_leaves_nothing_behind(opened: Open) -> None:
    script = [
        reply("Half ", call("look", name="a"), gate("looked"), error_event("overloaded_error")),
        reply(call("look", name="b")),
        reply("From the other."),
        reply("From the small one."),
    ]
    async with opened(*script, fallback_model="anthropic/other", network={"maxRetries": 0}) as play:
        running = asyncio.create_task(play.session.run("Go"))
        await play.until(said.CallFinished)
        play.server.open("looked")
        finished = await running
        assert finished.text == "From the other."
        assert play.order(*STEP) == ["Tombstone", "ModelChanged", "ReplyFinished", "ReplyFinished", "TurnFinished"]
        (change,) = play.said(said.ModelChanged)
        assert ("small" in change.before, "other" in change.after) == (True, True)
        assert [event.result.content for event in play.said(said.ResultAdded)] == ["a seen", "b seen"]
        assert "a seen" not in str(play.server.bodies[2])
        again = await play.session.run("And now?")
        assert [body["model"] for body in play.server.bodies] == ["small", "other", "other", "small"]
    assert again.text == "From the small one."
    voided = [record.reply for record in play.records() if isinstance(record, Voided)]
    assert [record.reply for record in play.records() if isinstance(record, Started)][:1] == voided


async def test_without_a_fallback_an_overload_is_an_ordinary_retried_error(opened: Open) -> None:
    async with opened(fail(529), reply("Fine.")) as play:
        finished = await play.session.run("Go")
        assert finished.text == "Fine."
        assert [(e.failure.kind, e.attempt, e.limit) for e in play.said(said.RetryWaiting)] == [("overloaded", 1, 9)]


async def test_a_stream_that_breaks_is_tried_as_a_stream_and_then_without(opened: Open) -> None:
    """A call that ran in a broken attempt is discarded with it: one result per reply, whatever ran before."""
    broken = reply("I look. ", call("look", name="a"), call("change", name="b"), gate("looked"), cut("drop"))
    whole = reply("I look. ", call("look", name="a"), call("change", name="b"))
    async with opened(broken, broken, whole, reply("Fine.")) as play:
        play.server.open("looked")
        finished = await play.session.run("Go")
        assert finished.text == "Fine."
        assert [body["stream"] for body in play.server.bodies] == [True, True, False, True]
        results = play.server.bodies[-1]["messages"][-1]["content"]
    assert [block["content"] for block in results] == ["a seen", "b changed"]
    assert play.bench.changed == ["b"]
    assert play.order(*STEP) == [*["Tombstone", "RetryWaiting"] * 2, "ReplyFinished", "ReplyFinished", "TurnFinished"]
    tombstones = [event.reply for event in play.said(said.Tombstone)]
    assert len(set(tombstones)) == 2
    assert [m.message.stop for m in play.said(said.ReplyFinished)] == ["tool_use", "end_turn"]


async def test_what_still_runs_when_a_stream_breaks_is_cancelled_and_not_heard_of_again(opened: Open) -> None:
    cancelled: list[str] = []

    @tugline.tool(footprint="reads")
    async def wait(name: str) -> str:
        """Waits."""
        if cancelled:
            return "waited"
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(name)
        return "never"

    broken = reply(call("wait", name="a"), gate("waiting"), cut("close"))
    script = [broken, reply(call("wait", name="b")), reply("Fine.")]
    async with opened(*script, tools=[wait], settings={"permissions": {"allow": ["wait"]}}) as play:
        running = asyncio.create_task(play.session.run("Go"))
        await play.until(said.CallStarted)
        play.server.open("waiting")
        finished = await running
    assert (finished.text, cancelled) == ("Fine.", ["a"])
    assert [event.call for event in play.said(said.CallFinished)] == [play.said(said.CallStarted)[1].call]
    assert play.order(said.CallStarted, said.Tombstone, said.CallFinished, said.ResultAdded) == [
        "CallStarted",
        "Tombstone",
        "CallStarted",
        "CallFinished",
        "ResultAdded",
    ]


async def test_a_call_that_finishes_though_its_reply_is_void_is_not_heard_of(opened: Open) -> None:
    release = asyncio.Event()

    @tugline.tool(footprint="reads", interrupt="block")
    async def wait(name: str) -> str:
        """Waits, and finishes whatever happens."""
        await release.wait()
        return "waited"

    script = [reply(call("wait", name="a"), gate("waiting"), cut("close")), reply("Fine.")]
    async with opened(*script, tools=[wait], settings={"permissions": {"allow": ["wait"]}}) as play:
        running = asyncio.create_task(play.session.run("Go"))
        await play.until(said.CallStarted)
        play.server.open("waiting")
        await play.until(said.Tombstone)
        release.set()
        assert (await running).text == "Fine."
        assert play.order(said.CallFinished, said.ResultAdded) == []
    assert [record for record in play.records() if isinstance(record, Finished)] == []


async def test_a_prompt_that_is_too_long_is_compacted_once_and_tried_again(opened: Open) -> None:
    class Compactor:
        forced = 0

        async def before_step(
            self, messages: Sequence[Message], tokens: int, card: ModelCard, *, force: bool
        ) -> Shrink | None:
            self.forced += force
            return Compacted(id=MessageId(f"boundary-{self.forced}"), messages=(messages[-1],)) if force else None

    too_long = fail(400, "prompt is too long: 9 tokens > 8 maximum")
    async with opened(reply("One."), too_long, reply("Two."), fail(413), fail(413), reply("Fine.")) as play:
        compactor = play.session.inside.agent.compactor = Compactor()
        await play.session.run("first")
        assert (await play.session.run("second")).text == "Two."
        assert (compactor.forced, len(play.server.bodies[2]["messages"])) == (1, 1)
        finished = await play.session.run("third")
        assert (finished.reason, compactor.forced) == ("prompt_too_long", 2)
        assert "/compact" in finished.message
        assert "/clear" in finished.message
        assert (await play.session.run("fourth")).text == "Fine."


@pytest.mark.parametrize(
    ("status", "words", "kind"),
    [
        (401, "invalid x-api-key", "authentication"),
        (403, "not for you", "authentication"),
        (402, "no money", "billing"),
        (400, "Your credit balance is too low", "billing"),
        (404, "model: small", "invalid_model"),
    ],
)
async def test_what_trying_again_cannot_mend_is_told_at_once(status: int, words: str, kind: str, opened: Open) -> None:
    async with opened(fail(status, words), reply("Fine.")) as play:
        finished = await play.session.run("Go")
        assert (finished.reason, finished.failure and finished.failure.kind) == ("api_error", kind)
        assert words in finished.message
        assert len(finished.message.splitlines()) <= 2
        assert play.said(said.RetryWaiting) == []
        assert (await play.session.run("And now?")).text == "Fine."


async def test_a_stand_in_for_a_key_blots_out_no_words(opened: Open) -> None:
    async with opened(fail(401, "invalid x-api-key"), api_key="k") as play:
        finished = await play.session.run("Go")
    assert finished.message.endswith("invalid x-api-key")


async def test_each_wait_is_an_event_with_attempt_limit_and_delay(opened: Open) -> None:
    script = [fail(429, retry_after=0.05), fail(500), cut_reply(), reply("Fine.")]
    async with opened(*script, network={"maxRetries": 4}) as play:
        assert (await play.session.run("Go")).text == "Fine."
        waits = play.said(said.RetryWaiting)
    assert [(e.failure.kind, e.attempt, e.limit) for e in waits] == [
        ("rate_limit", 1, 5),
        ("server", 2, 5),
        ("stream_broken", 3, 5),
    ]
    assert 0.05 <= waits[0].delay < 0.06
    assert all(wait.delay < 0.01 for wait in waits[1:])


def cut_reply() -> Any:
    """A reply that breaks off."""
    return reply("Half", cut("close"))


async def test_a_stream_without_content_counts_as_broken_and_pings_stretch_it(opened: Open) -> None:
    pings = [part for _ in range(1_000) for part in (ping(), pause(0.01))]
    script = [reply("a", hang()), reply("b", *pings, "c"), reply("Fine.")]
    async with opened(*script, network={"idleTimeout": 0.3}) as play:
        assert (await play.session.run("Go")).text == "Fine."
        failures = [e.failure for e in play.said(said.RetryWaiting)]
    assert [failure.kind for failure in failures] == ["timeout", "timeout"]
    silences = [float(re.search(r"nothing came for ([\d.]+) s", failure.message)[1]) for failure in failures]  # type: ignore[index]
    assert silences[0] < 1.5 <= silences[1]


# -- between steps


async def test_letters_reach_the_next_request_and_a_new_model_answers_it(opened: Open) -> None:
    async with opened(reply(call("look", name="a"), gate("held")), reply("Fine.")) as play:
        running = asyncio.create_task(play.session.run("Go"))
        await play.server.reached("held")
        play.session.steer("Look at b too.")
        play.session.send(SetModel("anthropic/other"))
        play.server.open("held")
        await running
        *_, last = play.server.bodies[1]["messages"]
        assert [body["model"] for body in play.server.bodies] == ["small", "other"]
    assert [block.get("text") for block in last["content"]] == [None, "Look at b too."]


# -- the disk is full


@contextmanager
def full_disk(room: int) -> Iterator[None]:
    """Files can grow to that size and no further."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def assert_whole(play: Play, *prompts: str) -> None:
    """Every line parses, none is missing, and the prompts are all there."""
    records = play.records()
    assert [record.n for record in records] == list(range(1, len(records) + 1))
    messages = [record.message for record in records if isinstance(record, Said)]
    people = [m.content[0].text for m in messages if isinstance(m, User) and m.source == "person"]  # type: ignore[union-attr]
    assert people == list(prompts)


async def test_a_prompt_that_cannot_be_recorded_is_not_sent_and_not_lost(opened: Open) -> None:
    long = "a long prompt " * 8_000
    async with opened(reply("One."), reply("Three.")) as play:
        await play.session.run("first")
        with full_disk(play.transcript.stat().st_size + 10_000):
            finished = await play.session.run(long)
            again = await play.session.run("short")
        assert (finished.reason, again.reason) == ("failed", "failed")
        assert "cannot be recorded" in finished.message
        assert "make room" in finished.message
        assert len(play.server.bodies) == 1
        assert play.transcript.read_bytes().endswith(b"\n")
        assert (await play.session.run("third")).text == "Three."
        sent = str(play.server.bodies[1]["messages"])
        assert (long in sent, "short" in sent) == (True, True)
    assert_whole(play, "first", long, "short", "third")


async def test_a_call_whose_start_cannot_be_recorded_is_not_run(opened: Open) -> None:
    words = "x" * 20_000
    async with opened(reply(gate("full"), words, call("change", name="a")), reply("Fine.")) as play:
        running = asyncio.create_task(play.session.run("Go"))
        await play.server.reached("full")
        with full_disk(play.transcript.stat().st_size + 5_000):
            play.server.open("full")
            finished = await running
        assert finished.reason == "failed"
        assert "cannot be recorded" in finished.message
        assert play.bench.changed == []
        assert (await play.session.run("And now?")).text == "Fine."
        assert "was not run" in str(play.server.bodies[1]["messages"])
    assert_whole(play, "Go", "And now?")
    assert sum(isinstance(record, Finished) for record in play.records()) == 1


async def test_a_last_reply_that_cannot_be_recorded_is_told_before_the_end_and_recorded_when_there_is_room(
    opened: Open,
) -> None:
    async with opened(reply(gate("full"), "x" * 20_000)) as play:
        running = asyncio.create_task(play.session.run("Go"))
        await play.server.reached("full")
        with full_disk(play.transcript.stat().st_size + 5_000):
            play.server.open("full")
            finished = await running
        assert (finished.reason, len(finished.text)) == ("completed", 20_000)
        assert play.order(said.Notice, said.TurnFinished) == ["Notice", "TurnFinished"]
        assert "cannot be recorded" in play.said(said.Notice)[0].text
    assert_whole(play, "Go")
    assert isinstance(play.records()[-1], TurnEnded)


async def test_a_big_result_that_cannot_be_kept_is_cut_and_the_model_is_told(opened: Open) -> None:
    script = [reply(call("change", name="a", size=150_000)), reply("Fine.")]
    async with opened(*script) as play:
        with full_disk(100_000):
            finished = await play.session.run("Go")
        (result,) = play.server.bodies[1]["messages"][-1]["content"]
        assert finished.text == "Fine."
        assert "could not be kept" in result["content"]
        assert len(result["content"]) < 31_000
        assert [path for path in play.home.rglob("*.txt") if path.stat().st_size] == []
