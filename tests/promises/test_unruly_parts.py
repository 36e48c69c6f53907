"""Parts that users bring and that misbehave: tools, providers, callbacks, subscribers, event loops, tasks.

Whatever they do, the turn ends with one line, the conversation stays valid, and nothing hangs.
"""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from stage import NoHooks

import tugline
from tugline import Allow, Deny, PermissionQuestion
from tugline.ports import HookAfter, HookVerdict, ToolContext
from tugline.protocol import events as said
from tugline.protocol.blocks import Text
from tugline.protocol.chunks import BlockClosed, BlockDelta, BlockStarted, Chunk, ReplyEnded, ReplyStarted
from tugline.protocol.errors import SessionError, ToolError, UsageError
from tugline.protocol.ids import CallId, ReplyId
from tugline.protocol.specs import Display, ModelCard, ModelRequest, Progress, Result
from tugline.protocol.usage import Usage
from tugline.rules.permission import Query
from tugline.testing import ModelServer, ScriptedProvider, call, gate, raw_call, reply


@pytest.fixture
def options(tmp_path: Path) -> dict[str, Any]:
    project = tmp_path / "project"
    project.mkdir()
    environ = {"TUGLINE_HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin", "TUGLINE_NETWORK_RETRY_BASE": "0.001"}
    return {"cwd": str(project), "environ": environ, "permission": lambda question: True, "builtin_tools": ()}


def hear(session: tugline.Session) -> list[tugline.Event]:
    """All that the session says from now on."""
    heard: list[tugline.Event] = []
    session.inside.bus.attach(heard.append)
    return heard


# -- tools


async def _cancels_itself() -> str:
    """Awaits something that somebody else cancelled."""
    future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    future.cancel()
    return await future


async def _cancels_its_own_task() -> str:
    """Cancels the task that it runs in, as some libraries do for a time limit."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)
    return "never"


async def _cancels_its_own_task_and_returns() -> str:
    """The same, and does not stay to see it."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    return "all done"


async def _group_fails() -> str:
    """Fails in a task group of its own."""

    async def fail() -> None:
        raise ValueError("no such page")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(fail)
    return "never"


async def _group_refuses() -> str:
    """Says what the model should read, from a task group of its own."""

    async def fail() -> None:
        raise ToolError("the page is locked")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(fail)
    return "never"


async def _nonsense() -> Result:
    """Returns a result that is none."""
    return Result(for_model=17)  # type: ignore[arg-type]


async def _half_nonsense() -> Result:
    """Returns a result with a part that is none."""
    return Result(for_model=("words",))  # type: ignore[arg-type]


async def _surrogates() -> Result:
    """Returns characters that cannot be sent."""
    return Result("name \udcff.txt", Display("line \ud800", "detail \ud800"))


UNRULY = {
    "cancels itself": (_cancels_itself, "CancelledError"),
    "cancels its own task": (_cancels_its_own_task, "CancelledError"),
    "cancels its own task and returns": (_cancels_its_own_task_and_returns, "all done"),
    "fails in a group": (_group_fails, "ValueError: no such page"),
    "refuses in a group": (_group_refuses, "the page is locked"),
    "returns nonsense": (_nonsense, "neither text nor"),
    "returns half nonsense": (_half_nonsense, "neither text nor"),
    "returns lone surrogates": (_surrogates, "name \ufffd.txt"),
}


@pytest.mark.parametrize("name", UNRULY)
async def test_whatever_a_tool_does_the_model_gets_one_result_and_the_loop_goes_on(
    name: str, options: dict[str, Any]
) -> None:
    function, expected = UNRULY[name]
    tool = tugline.tool(name="unruly")(function)
    async with ModelServer([reply(call("unruly")), reply("I see."), reply("Fine.")]) as server:
        async with tugline.Session(base_url=server.url, api_key="k", tools=[tool], **options) as session:
            async with asyncio.timeout(5):
                first = await session.run("Try it")
                second = await session.run("And now?")
        (result,) = server.requests[1].body["messages"][-1]["content"]
    assert expected in str(result["content"])
    assert (first.text, second.text) == ("I see.", "Fine.")
    (log,) = Path(options["environ"]["TUGLINE_HOME"]).rglob("*.jsonl")
    assert log.read_text().count('"kind":"turn_ended"') == 2


async def test_progress_from_a_thread_is_told_and_what_comes_after_the_end_is_not(options: dict[str, Any]) -> None:
    contexts: list[ToolContext] = []
    threads: list[int] = []

    @tugline.tool
    def work(context: ToolContext) -> str:
        """Works in a thread of its own."""
        contexts.append(context)
        context.report(Progress("half"))
        return "done"

    async with ModelServer([reply(call("work")), reply("Good.")]) as server:
        async with tugline.Session(base_url=server.url, api_key="k", tools=[work], **options) as session:
            heard = hear(session)
            session.inside.bus.attach(lambda event: threads.append(threading.get_ident()))
            await session.run("Work")
            contexts[0].report(Progress("late"))
            late = threading.Thread(target=contexts[0].report, args=(Progress("later"),))
            late.start()
            await asyncio.to_thread(late.join)
            await asyncio.sleep(0)
    contexts[0].report(Progress("much later"))
    assert [event.progress.text for event in heard if isinstance(event, said.CallProgress)] == ["half"]
    assert set(threads) == {threading.get_ident()}


# -- hooks and callbacks


class Hooks(NoHooks):
    """Raise after each call."""

    async def before(self, call: CallId, query: Query) -> HookVerdict:
        return HookVerdict(decision="allow")

    async def after(self, call: CallId, query: Query, result: Result, duration: float) -> HookAfter:
        raise RuntimeError("the hook is broken")


@tugline.tool
async def publish(page: str) -> str:
    """Publishes."""
    return f"{page} is out"


async def test_a_hook_that_raises_after_a_call_leaves_its_result(options: dict[str, Any]) -> None:
    async with ModelServer([reply(call("publish", page="home")), reply("Good.")]) as server:
        async with tugline.Session(base_url=server.url, api_key="k", tools=[publish], **options) as session:
            session.inside.agent.gear.gate._hooks = Hooks()  # type: ignore[attr-defined]
            result = await session.run("Publish")
        (answer,) = server.requests[1].body["messages"][-1]["content"]
    assert (result.text, answer["content"]) == ("Good.", "home is out")


async def test_a_permission_callback_that_cancels_itself_is_a_denial(options: dict[str, Any]) -> None:
    async def permission(question: PermissionQuestion) -> bool:
        raise asyncio.CancelledError

    options["permission"] = permission
    async with ModelServer([reply(call("publish", page="home")), reply("Understood.")]) as server:
        async with tugline.Session(base_url=server.url, api_key="k", tools=[publish], **options) as session:
            async with asyncio.timeout(5):
                result = await session.run("Publish")
    assert (result.text, len(result.denials)) == ("Understood.", 1)


async def test_words_of_a_callback_that_cannot_be_sent_do_no_harm(options: dict[str, Any]) -> None:
    answers = iter([Deny("no \udcff"), Allow(words="yes \udcff")])
    options["permission"] = lambda question: next(answers)
    script = [reply(call("publish", page="a")), reply(call("publish", page="b")), reply("Done.")]
    async with ModelServer(script) as server:
        async with tugline.Session(base_url=server.url, api_key="k", tools=[publish], **options) as session:
            result = await session.run("Publish")
    assert result.text == "Done."


async def test_a_session_may_close_while_a_callback_never_answers(options: dict[str, Any]) -> None:
    asked = asyncio.Event()
    withdrawn: list[bool] = []

    async def permission(question: PermissionQuestion) -> bool:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            withdrawn.append(True)
        return True

    options["permission"] = permission
    async with ModelServer([reply(call("publish", page="home"))]) as server:
        async with asyncio.timeout(5):
            async with tugline.Session(base_url=server.url, api_key="k", tools=[publish], **options) as session:
                session.inside.prompt("Publish")
                await asked.wait()
    assert withdrawn == [True]


async def test_a_denial_that_stops_also_holds_for_calls_that_the_reply_still_asks_for(options: dict[str, Any]) -> None:
    @tugline.tool(footprint="reads")
    async def look(name: str) -> str:
        """Looks."""
        return name

    options["permission"] = lambda question: Deny("stop it", stop=True)
    options["settings"] = {"permissions": {"ask": ["look"]}}
    script = [reply(call("look", name="a"), gate("denied"), call("look", name="b"), call("nothing")), reply("Fine.")]
    async with ModelServer(script) as server:
        async with tugline.Session(base_url=server.url, api_key="k", tools=[look], **options) as session:
            async with asyncio.timeout(5):
                async with session.stream("Look") as events:
                    async for event in events:
                        if isinstance(event, said.CallFinished):
                            server.open("denied")
                second = await session.run("And now?")
    assert isinstance(event, said.TurnFinished)
    assert (event.reason, second.text) == ("denied_stopped", "Fine.")


# -- providers


class Own:
    """A provider whose stream is this function."""

    def __init__(self, chunks: Callable[[], AsyncIterator[Sequence[Chunk]]]) -> None:
        self.chunks = chunks

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[Sequence[Chunk]]]:
        yield self.chunks()

    def card(self, model: str) -> ModelCard:
        return ModelCard(name=model)

    async def aclose(self) -> None:
        pass


async def _raises_at_once() -> AsyncIterator[Sequence[Chunk]]:
    for _ in range(1):
        raise ValueError("no weights")
    yield ()


async def _raises_midway() -> AsyncIterator[Sequence[Chunk]]:
    yield (ReplyStarted(ReplyId("r"), "m"), BlockStarted(0, "text"), BlockDelta(0, "SPOILED"))
    raise ValueError("no weights")


async def _cancels() -> AsyncIterator[Sequence[Chunk]]:
    yield (ReplyStarted(ReplyId("r"), "m"),)
    raise asyncio.CancelledError


async def _stops_short() -> AsyncIterator[Sequence[Chunk]]:
    yield (ReplyStarted(ReplyId("r"), "m"), BlockStarted(0, "text"), BlockDelta(0, "SPOILED"))


async def _ends_what_never_began() -> AsyncIterator[Sequence[Chunk]]:
    yield (ReplyEnded("end_turn", Usage()),)


async def _closes_what_never_opened() -> AsyncIterator[Sequence[Chunk]]:
    yield (BlockStarted(0, "tool_use"), BlockDelta(4, "x"))


async def _begins_twice() -> AsyncIterator[Sequence[Chunk]]:
    yield (ReplyStarted(ReplyId("r"), "m"), BlockStarted(0, "text"), BlockDelta(0, "SPOILED"))
    yield (ReplyStarted(ReplyId("r"), "m"), ReplyEnded("end_turn", Usage()))


async def _usage_error() -> AsyncIterator[Sequence[Chunk]]:
    for _ in range(1):
        raise UsageError("There is no model of that name.")
    yield ()


BAD_PROVIDERS = {
    "raises at once": (_raises_at_once, "ValueError: no weights"),
    "raises midway": (_raises_midway, "ValueError: no weights"),
    "cancels itself": (_cancels, "before it was whole"),
    "stops short": (_stops_short, "before it was whole"),
    "ends what never began": (_ends_what_never_began, "The provider said ReplyEnded before a reply had begun."),
    "begins in the middle": (_closes_what_never_opened, "The provider said BlockStarted before a reply had begun."),
    "begins twice": (_begins_twice, "The provider began a second reply inside the first."),
    "says what the user can mend": (_usage_error, "There is no model of that name."),
}


@pytest.mark.parametrize("name", BAD_PROVIDERS)
async def test_whatever_a_provider_of_the_users_does_the_turn_ends_and_the_next_one_works(
    name: str, options: dict[str, Any]
) -> None:
    chunks, expected = BAD_PROVIDERS[name]
    scripted = ScriptedProvider([reply("Fine.")])
    own = Own(chunks)

    class Both(Own):
        def stream(self, request: ModelRequest) -> Any:
            provider: Any = own if len(heard_prompts) == 1 else scripted
            return provider.stream(request)

    heard_prompts: list[str] = []
    async with tugline.Session(provider=Both(chunks), model="scripted-model", **options) as session:
        heard = hear(session)
        async with asyncio.timeout(5):
            heard_prompts.append("Go")
            first = await session.run("Go")
            heard_prompts.append("And now?")
            second = await session.run("And now?")
    assert first.reason in ("failed", "api_error")
    assert expected in first.message
    assert "TaskGroup" not in first.message
    assert second.text == "Fine."
    assert "SPOILED" not in repr(scripted.requests[0].messages)
    assert sum(isinstance(event, said.TurnFinished) for event in heard) == 2
    began = [event.reply for event in heard if isinstance(event, said.ReplyBegan)]
    ended = [event.reply for event in heard if isinstance(event, said.Tombstone)]
    ended += [event.message.reply for event in heard if isinstance(event, said.ReplyFinished)]  # type: ignore[misc]
    assert sorted(began) == sorted(ended)


async def test_half_characters_of_a_provider_are_mended_where_they_are_written(options: dict[str, Any]) -> None:
    async def chunks() -> AsyncIterator[Sequence[Chunk]]:
        word = "half \ud83d"
        block = (BlockStarted(0, "text"), BlockDelta(0, word), BlockClosed(0, Text(word)))
        yield (ReplyStarted(ReplyId("r"), "m"), *block, ReplyEnded("end_turn", Usage()))

    async with tugline.Session(provider=Own(chunks), model="m", **options) as session:
        async with asyncio.timeout(5):
            results = [await session.run("Go"), await session.run("And now?")]
        path = Path(session.opening.transcript)
    assert [result.reason for result in results] == ["completed", "completed"]
    replies = [json.loads(line).get("message", {}) for line in path.read_text().splitlines()]
    assert [one["content"][0]["text"] for one in replies if one.get("role") == "assistant"] == ["half \ufffd"] * 2


async def test_what_a_provider_says_after_the_end_of_its_reply_does_not_count(options: dict[str, Any]) -> None:
    def whole(word: str) -> tuple[Chunk, ...]:
        block = (BlockStarted(0, "text"), BlockDelta(0, word), BlockClosed(0, Text(word)))
        return (ReplyStarted(ReplyId("r"), "m"), *block, ReplyEnded("end_turn", Usage()))

    async def chunks() -> AsyncIterator[Sequence[Chunk]]:
        yield whole("once")
        yield whole("SPOILED")

    async with tugline.Session(provider=Own(chunks), model="m", **options) as session:
        heard = hear(session)
        assert (await session.run("Go")).text == "once"
    assert "SPOILED" not in repr(heard)


async def test_after_an_interrupt_a_provider_that_counts_its_calls_anew_does_no_harm(options: dict[str, Any]) -> None:
    @tugline.tool(footprint="reads")
    async def look() -> str:
        """Looks."""
        return "seen"

    def asking() -> Any:
        return raw_call("look", "{}", call_id="call_1")

    provider = ScriptedProvider([reply(asking(), gate("held"), "x"), reply(asking()), reply("Fine.")])
    async with tugline.Session(provider=provider, model="scripted-model", tools=[look], **options) as session:
        async with session.stream("Look") as events:
            async for event in events:
                if isinstance(event, said.ResultAdded):
                    session.interrupt()
        result = await session.run("Again")
    assert result.text == "Fine."


# -- subscribers, tasks, loops


async def test_a_subscriber_that_raises_hears_no_more_and_breaks_nothing(options: dict[str, Any]) -> None:
    calls: list[tugline.Event] = []

    def broken(event: tugline.Event) -> None:
        calls.append(event)
        raise RuntimeError("the log is full")

    async with ModelServer([reply("Fine.")]) as server:
        async with tugline.Session(base_url=server.url, api_key="k", **options) as session:
            session.inside.bus.attach(broken)
            heard = hear(session)
            result = await session.run("Hi")
    assert (result.text, len(calls)) == ("Fine.", 1)
    assert [event.where for event in heard if isinstance(event, said.Crashed)] == ["subscriber"]
    assert [event.seq for event in heard] == sorted(event.seq for event in heard)


async def test_whoever_waits_for_a_session_that_closes_is_told(options: dict[str, Any]) -> None:
    async with ModelServer([reply("a", gate("never"), "b")], lenient=True) as server:
        async with tugline.Session(base_url=server.url, api_key="k", **options) as session:
            running = asyncio.create_task(session.run("first"))
            queued = asyncio.create_task(session.run("second"))
            listening = asyncio.create_task(_all_of(session.events()))
            await server.reached("never")
        async with asyncio.timeout(5):
            for waiting in (running, queued):
                with pytest.raises(SessionError, match="closed"):
                    await waiting
            heard = await listening
    assert [event.reason for event in heard if isinstance(event, said.TurnFinished)] == ["interrupted"]


async def _all_of(events: AsyncIterator[tugline.Event]) -> list[tugline.Event]:
    return [event async for event in events]


async def test_a_session_may_be_left_in_another_task_than_it_was_entered_in(options: dict[str, Any]) -> None:
    # fixtures of test frameworks do that
    async with ModelServer([reply("Fine."), reply("a", gate("never"))], lenient=True) as server:
        session = tugline.Session(base_url=server.url, api_key="k", **options)
        await asyncio.create_task(session.__aenter__())
        result = await session.run("Hi")
        session.inside.prompt("hang")
        await server.reached("never")
        async with asyncio.timeout(5):
            await asyncio.create_task(session.__aexit__(None, None, None))
        await server.disconnected()
    assert result.text == "Fine."
    assert not [task for task in asyncio.all_tasks() if "tugline" in task.get_name()]


async def test_opening_may_be_cancelled_and_leaves_no_file_open(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tugline.app import session as app

    reached = asyncio.Event()

    async def look_around(*_: Any) -> Any:
        reached.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(app, "look_around", look_around)
    before = set(Path("/proc/self/fd").iterdir())
    opening = asyncio.create_task(tugline.Session(base_url="http://127.0.0.1:9", api_key="k", **options).__aenter__())
    await reached.wait()
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert [fd for fd in set(Path("/proc/self/fd").iterdir()) - before if "jsonl" in str(fd.resolve())] == []


async def test_a_query_may_be_cancelled_while_it_opens(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tugline.app import session as app

    reached = asyncio.Event()

    async def look_around(*_: Any) -> Any:
        reached.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(app, "look_around", look_around)
    asking = asyncio.create_task(_all_of(tugline.query("Hi", base_url="http://127.0.0.1:9", api_key="k", **options)))
    await reached.wait()
    asking.cancel()
    async with asyncio.timeout(5):
        with pytest.raises(asyncio.CancelledError):
            await asking
    assert not [task for task in asyncio.all_tasks() if "tugline" in task.get_name()]


def test_an_event_loop_that_ends_in_the_middle_of_a_query_leaves_a_whole_transcript(options: dict[str, Any]) -> None:
    async def main() -> None:
        async with ModelServer([reply("a", gate("never"), "b")], lenient=True) as server:
            async for event in tugline.query("Hello", base_url=server.url, api_key="k", **options):
                if isinstance(event, said.TextDelta):
                    return  # the generator is left to the loop

    asyncio.run(asyncio.wait_for(main(), 10))
    (log,) = Path(options["environ"]["TUGLINE_HOME"]).rglob("*.jsonl")
    assert '"reason":"interrupted"' in log.read_text().splitlines()[-1]


async def test_a_session_is_not_used_from_another_thread_or_loop(options: dict[str, Any]) -> None:
    refused: list[str] = []

    def elsewhere(session: tugline.Session) -> None:
        for use in (lambda: asyncio.run(session.run("Hi")), session.interrupt):
            try:
                use()
            except SessionError as error:
                refused.append(str(error))

    async with tugline.Session(provider=ScriptedProvider([reply("Fine.")]), **options) as session:
        await asyncio.to_thread(elsewhere, session)
        result = await session.run("Hi")
        with pytest.raises(SessionError, match="open already"):
            await session.__aenter__()
    assert result.text == "Fine."
    assert len(refused) == 2
    assert all("the event loop that it was opened in" in text for text in refused)


async def test_a_prompt_with_characters_that_cannot_be_sent_is_mended(options: dict[str, Any]) -> None:
    async with ModelServer([reply("Fine."), reply("Fine.")]) as server:
        async with tugline.Session(base_url=server.url, api_key="k", **options) as session:
            await session.run("the file \udcff.txt")
            result = await session.run((tugline.Text("\ud800"),))
        (last,) = server.requests[1].body["messages"][-1]["content"]
    assert (result.text, last["text"]) == ("Fine.", "\ufffd")


async def test_a_refused_replys_calls_are_told_as_not_run(options: dict[str, Any]) -> None:
    async with ModelServer([reply(call("publish", page="home"), stop="refusal"), reply("Fine.")]) as server:
        async with tugline.Session(base_url=server.url, api_key="k", tools=[publish], **options) as session:
            heard = hear(session)
            first = await session.run("Publish")
            second = await session.run("And now?")
    assert (first.reason, second.text) == ("refused", "Fine.")
    assert [event.call for event in heard if isinstance(event, said.CallStarted)] == []
    assert ["discarded" in str(event.result.content) for event in heard if isinstance(event, said.ResultAdded)] == [
        True
    ]
