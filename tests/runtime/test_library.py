"""The library as programmers use it: `Session` and `query` over real HTTP to the scripted model."""

import asyncio
import gc
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import tugline
from tugline import Allow, Deny, PermissionQuestion, TurnFinished
from tugline.protocol.codec import decode_record
from tugline.protocol.records import Said
from tugline.testing import ModelServer, call, fail, gate, reply, text


@tugline.tool(footprint="reads")
async def count(word: str) -> int:
    """Counts letters."""
    return len(word)


@tugline.tool
async def publish(page: str) -> str:
    """Publishes."""
    return f"{page} is out"


@pytest.fixture
def options(tmp_path: Path) -> dict[str, Any]:
    project = tmp_path / "project"
    project.mkdir()
    environ = {"TUGLINE_HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin", "TUGLINE_NETWORK_RETRY_BASE": "0.001"}
    return {"cwd": str(project), "environ": environ, "api_key": "secret-key"}


async def test_run_gives_the_result_of_one_prompt(options: dict[str, Any]) -> None:
    async with ModelServer([reply(call("count", word="four")), reply("Four letters.")]) as server:
        async with tugline.Session(base_url=server.url, tools=[count], **options) as session:
            result = await session.run("How many letters has four?")
    assert (result.reason, result.text, result.steps) == ("completed", "Four letters.", 2)


async def test_a_session_remembers_its_conversation(options: dict[str, Any]) -> None:
    async with ModelServer([reply("One."), reply("Two.")]) as server:
        async with tugline.Session(base_url=server.url, **options) as session:
            await session.run("first")
            await session.run("second")
        body = server.requests[1].body
    assert [m["role"] for m in body["messages"]] == ["user", "assistant", "user"]


async def test_stream_gives_the_events_of_one_prompt_up_to_its_end(options: dict[str, Any]) -> None:
    async with ModelServer([reply("Hello there.")]) as server:
        async with tugline.Session(base_url=server.url, **options) as session:
            async with session.stream("Hi") as events:
                seen = [event async for event in events]
    texts = "".join(event.text for event in seen if isinstance(event, tugline.TextDelta))
    assert texts == "Hello there."
    assert isinstance(seen[-1], TurnFinished)
    numbers = [event.seq for event in seen]
    assert numbers == sorted(set(numbers))


async def test_query_is_a_session_in_one_call(options: dict[str, Any]) -> None:
    async with ModelServer([reply("Hi.")]) as server:
        seen = [event async for event in tugline.query("Hello", base_url=server.url, **options)]
    assert isinstance(seen[0], tugline.SessionStarted)
    assert isinstance(seen[-1], TurnFinished)


async def test_nobody_is_asked_about_a_path_that_leads_nowhere(options: dict[str, Any]) -> None:
    asked: list[PermissionQuestion] = []

    def permission(question: PermissionQuestion) -> bool:
        asked.append(question)
        return True

    paths = ["", "a\0b", "x" * 300, "loop"]
    (Path(options["cwd"]) / "loop").symlink_to("loop")
    script = [reply(*(call("Write", file_path=path, content="") for path in paths)), reply("ok")]
    async with ModelServer(script) as server:
        async with tugline.Session(base_url=server.url, permission=permission, **options) as session:
            async with session.stream("Go") as events:
                ends = [event.result async for event in events if isinstance(event, tugline.ResultAdded)]
    said = "<tool_use_error>The input of Write is invalid: "
    assert [str(end.content).startswith(said) for end in ends] == [True] * len(paths)
    assert asked == []


async def test_leaving_a_query_early_interrupts_the_turn_and_cleans_up(options: dict[str, Any]) -> None:
    async with ModelServer([reply("a", gate("never"), "b")], lenient=True) as server:
        async for event in tugline.query("Hello", base_url=server.url, **options):
            if isinstance(event, tugline.TextDelta):
                break
        gc.collect()
        while [task for task in asyncio.all_tasks() if task.get_name() == "tugline.session"]:
            await asyncio.sleep(0)
    (log,) = Path(options["environ"]["TUGLINE_HOME"]).rglob("*.jsonl")
    records = [decode_record(line) for line in log.read_bytes().splitlines()]
    last = [record.message for record in records if isinstance(record, Said)][-1]
    assert "Interrupted" in str(last.content)


async def test_leaving_a_stream_early_interrupts_only_that_turn(options: dict[str, Any]) -> None:
    async with ModelServer([reply("a", gate("never"), "b"), reply("Still here.")]) as server:
        async with tugline.Session(base_url=server.url, **options) as session:
            async with session.stream("first") as events:
                async for event in events:
                    if isinstance(event, tugline.TextDelta):
                        break
            result = await session.run("second")
    assert result.text == "Still here."


async def test_a_permission_callback_is_asked_and_its_no_reaches_the_model(options: dict[str, Any]) -> None:
    asked: list[PermissionQuestion] = []

    async def permission(question: PermissionQuestion) -> Deny:
        asked.append(question)
        return Deny("not on a Friday")

    async with ModelServer([reply(call("publish", page="home")), reply("Understood.")]) as server:
        async with tugline.Session(base_url=server.url, tools=[publish], permission=permission, **options) as session:
            result = await session.run("Publish the page")
        (answer,) = server.requests[1].body["messages"][-1]["content"]
    assert [question.input for question in asked] == [{"page": "home"}]
    assert "not on a Friday" in str(answer["content"])
    assert [denial["tool_name"] for denial in result.denials] == ["publish"]


async def test_a_callback_may_change_the_input_and_that_is_what_runs(options: dict[str, Any]) -> None:
    def permission(question: PermissionQuestion) -> Allow:
        return Allow(input={"page": "draft"})

    async with ModelServer([reply(call("publish", page="home")), reply("ok")]) as server:
        async with tugline.Session(base_url=server.url, tools=[publish], permission=permission, **options) as session:
            await session.run("Publish")
        (answer,) = server.requests[1].body["messages"][-1]["content"]
    assert "draft is out" in str(answer["content"])


async def test_a_callback_that_fails_is_a_denial_and_the_session_goes_on(options: dict[str, Any]) -> None:
    def permission(question: PermissionQuestion) -> bool:
        raise RuntimeError("no idea")

    async with ModelServer([reply(call("publish", page="home")), reply("ok")]) as server:
        async with tugline.Session(base_url=server.url, tools=[publish], permission=permission, **options) as session:
            result = await session.run("Publish")
    assert (result.text, len(result.denials)) == ("ok", 1)


async def test_without_anyone_to_ask_a_call_that_changes_is_denied_with_a_reason(options: dict[str, Any]) -> None:
    async with ModelServer([reply(call("publish", page="home")), reply("ok")]) as server:
        async with tugline.Session(base_url=server.url, tools=[publish], **options) as session:
            await session.run("Publish")
        (answer,) = server.requests[1].body["messages"][-1]["content"]
    assert "nobody can be asked" in str(answer["content"])


async def test_steering_reaches_the_running_turn_before_its_next_request(options: dict[str, Any]) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    @tugline.tool(footprint="reads")
    async def wait() -> str:
        """Waits."""
        started.set()
        await go_on.wait()
        return "waited"

    async with ModelServer([reply(call("wait")), reply("ok")]) as server:
        async with tugline.Session(base_url=server.url, tools=[wait], **options) as session:
            running = asyncio.create_task(session.run("Go"))
            await started.wait()
            session.steer("Also look at the README.")
            go_on.set()
            await running
        last = server.requests[1].body["messages"][-1]["content"]
    assert [block["type"] for block in last] == ["tool_result", "text"]
    assert last[1]["text"] == "Also look at the README."


async def test_a_steering_word_to_an_idle_session_begins_a_turn(options: dict[str, Any]) -> None:
    async with ModelServer([reply("On it.")]) as server, tugline.Session(base_url=server.url, **options) as session:
        events = session.events()
        session.steer("Begin.")
        finished: list[TurnFinished] = []
        async for event in events:
            if isinstance(event, TurnFinished):
                finished.append(event)
                break
        events.close()
    assert [(event.reason, event.text) for event in finished] == [("completed", "On it.")]


async def test_an_interrupt_ends_the_turn_and_the_session_goes_on(options: dict[str, Any]) -> None:
    async with ModelServer([reply("a", gate("never"), "b"), reply("again")]) as server:
        async with tugline.Session(base_url=server.url, **options) as session:
            running = asyncio.create_task(session.run("Go"))
            await server.reached("never")
            session.interrupt()
            assert (await running).reason == "interrupted"
            assert (await session.run("Go")).text == "again"


async def test_a_cancelled_wait_interrupts_its_turn(options: dict[str, Any]) -> None:
    async with ModelServer([reply("a", gate("never"), "b"), reply("again")]) as server:
        async with tugline.Session(base_url=server.url, **options) as session:
            running = asyncio.create_task(session.run("Go"))
            await server.reached("never")
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            assert (await session.run("Go")).text == "again"


async def test_an_own_provider_takes_the_place_of_the_wire(options: dict[str, Any]) -> None:
    from contextlib import asynccontextmanager

    from tugline.protocol import chunks
    from tugline.protocol.ids import ReplyId

    class Echo:
        @asynccontextmanager
        async def stream(self, request: tugline.ModelRequest) -> AsyncIterator[Any]:
            async def batches() -> AsyncIterator[list[chunks.Chunk]]:
                words = str(request.messages[-1].content[0].text)  # type: ignore[union-attr]
                yield [chunks.ReplyStarted(ReplyId("r"), "echo"), chunks.BlockStarted(0, "text")]
                yield [chunks.BlockDelta(0, words), chunks.BlockClosed(0, tugline.Text(words))]
                yield [chunks.ReplyEnded("end_turn", tugline.Usage(1, 1))]

            yield batches()

        def card(self, model: str) -> tugline.ModelCard:
            return tugline.ModelCard(name=model)

        async def aclose(self) -> None:
            pass

    del options["api_key"]
    async with tugline.Session(provider=Echo(), model="echo", **options) as session:
        assert (await session.run("parrot")).text == "parrot"


async def test_a_fallback_model_takes_over_when_the_chosen_one_is_overloaded(options: dict[str, Any]) -> None:
    overloaded = fail(529, "Overloaded", repeat=2)
    script = [overloaded, reply(text("Done by another."))]
    options["environ"]["TUGLINE_NETWORK_MAX_RETRIES"] = "1"
    async with ModelServer(script) as server:
        async with (
            tugline.Session(
                base_url=server.url, model="claude-opus-4-1", fallback_model="claude-sonnet-4-5", **options
            ) as session,
            session.stream("Go") as events,
        ):
            seen = [event async for event in events]
        models = [request.body["model"] for request in server.requests]
    assert models == ["claude-opus-4-1", "claude-opus-4-1", "claude-sonnet-4-5"]
    changed = [event for event in seen if isinstance(event, tugline.ModelChanged)]
    assert [(event.before, event.after) for event in changed] == [("claude-opus-4-1", "claude-sonnet-4-5")]


async def test_sessions_of_one_process_do_not_see_each_other(options: dict[str, Any]) -> None:
    from tugline.testing import Match, Script, lane

    script = Script(lanes={"all": lane(Match(), [reply(call("count", word="x")), reply("done")], each=True)})
    async with ModelServer(script, lenient=True) as server:

        async def one(n: int) -> list[str]:
            async with tugline.Session(base_url=server.url, tools=[count], **options) as session:
                async with session.stream(f"prompt {n}") as events:
                    return [event.origin.session async for event in events]

        seen = await asyncio.gather(*(one(n) for n in range(30)))
    assert all(len(set(sessions)) == 1 for sessions in seen)
    assert len({sessions[0] for sessions in seen}) == 30


async def test_an_unknown_option_names_the_nearest_right_one() -> None:
    with pytest.raises(tugline.UsageError, match="Did you mean model"):
        tugline.Session(modle="x")


async def test_without_a_key_three_lines_say_what_to_set(options: dict[str, Any]) -> None:
    del options["api_key"]
    with pytest.raises(tugline.ConfigError) as caught:
        async with tugline.Session(**options):
            pass
    lines = str(caught.value).splitlines()
    assert len(lines) == 3
    assert "ANTHROPIC_API_KEY" in lines[1]
    assert "tugline demo" in lines[2]


async def test_a_session_that_cannot_be_recorded_is_refused_with_the_remedy(options: dict[str, Any]) -> None:
    home = Path(options["environ"]["TUGLINE_HOME"])
    home.write_text("a file stands where the folder should be")
    with pytest.raises(tugline.SessionError, match="TUGLINE_HOME"):
        async with tugline.Session(base_url="http://127.0.0.1:9", **options):
            pass


async def test_what_is_recorded_is_private_and_holds_no_key(options: dict[str, Any]) -> None:
    async with ModelServer([reply("Hi.")]) as server, tugline.Session(base_url=server.url, **options) as session:
        await session.run("Hello")
    (log,) = Path(options["environ"]["TUGLINE_HOME"]).rglob("*.jsonl")
    assert log.stat().st_mode & 0o077 == 0
    assert log.parent.stat().st_mode & 0o077 == 0
    assert b"secret-key" not in log.read_bytes()


async def test_files_and_folders_that_a_prompt_mentions_go_along_with_it(options: dict[str, Any]) -> None:
    project = Path(options["cwd"])
    (project / "notes.txt").write_text("buy milk\n")
    (project / "sub").mkdir()
    (project / "sub" / "one.py").write_text("1\n")
    async with ModelServer([reply("ok")]) as server:
        async with tugline.Session(base_url=server.url, **options) as session:
            await session.run("Read @notes.txt, @sub and @missing, and write to bob@example.com")
        (message,) = server.requests[0].body["messages"]
    first, notes, folder = [block["text"] for block in message["content"]]
    assert first.startswith("Read @notes.txt")
    assert "buy milk" in notes
    assert "one.py" in folder


async def test_a_mentioned_file_may_be_edited_without_reading_it_again(options: dict[str, Any]) -> None:
    (Path(options["cwd"]) / "notes.txt").write_text("buy milk\n")
    edit = call("Edit", file_path="notes.txt", old_string="milk", new_string="bread")
    async with ModelServer([reply(edit), reply("ok")]) as server:
        async with tugline.Session(base_url=server.url, permission_mode="acceptEdits", **options) as session:
            await session.run("In @notes.txt make it bread")
    assert (Path(options["cwd"]) / "notes.txt").read_text() == "buy bread\n"


async def test_a_mentioned_file_that_a_rule_denies_is_not_attached_and_the_person_is_told(
    options: dict[str, Any],
) -> None:
    (Path(options["cwd"]) / "secret.txt").write_text("hunter2\n")
    async with ModelServer([reply("ok")]) as server:
        async with tugline.Session(
            base_url=server.url, settings={"permissions": {"deny": ["Read(secret.txt)"]}}, **options
        ) as session:
            async with session.stream("What is in @secret.txt?") as events:
                notices = [event.text async for event in events if isinstance(event, tugline.Notice)]
        assert b"hunter2" not in server.requests[0].raw
    assert "secret.txt is not attached" in notices[0]


async def test_a_model_chosen_while_a_turn_runs_answers_its_next_request(options: dict[str, Any]) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    @tugline.tool(footprint="reads")
    async def wait() -> str:
        """Waits."""
        started.set()
        await go_on.wait()
        return "waited"

    async with ModelServer([reply(call("wait")), reply("ok")]) as server:
        async with tugline.Session(base_url=server.url, tools=[wait], model="claude-sonnet-4-5", **options) as session:
            running = asyncio.create_task(session.run("Go"))
            await started.wait()
            session.set_model("opus")
            go_on.set()
            await running
        models = [request.body["model"] for request in server.requests]
    assert models[0] == "claude-sonnet-4-5"
    assert models[1].startswith("claude-opus")


async def test_a_yes_for_always_is_saved_in_the_local_settings_of_the_project(options: dict[str, Any]) -> None:
    def permission(question: PermissionQuestion) -> Allow:
        return Allow(remember="always", rules=question.suggestions or ("publish",))

    async with ModelServer([reply(call("publish", page="a")), reply(call("publish", page="b")), reply("ok")]) as server:
        async with tugline.Session(
            base_url=server.url, tools=[publish], permission=permission, trust=True, **options
        ) as session:
            async with session.stream("Publish both") as events:
                asked = [event async for event in events if isinstance(event, tugline.PermissionAsked)]
    assert len(asked) == 1
    saved = Path(options["cwd"], ".tugline", "settings.local.json").read_text()
    assert "publish" in saved


async def test_in_a_folder_that_is_not_trusted_always_means_for_this_session_and_says_so(
    options: dict[str, Any],
) -> None:
    def permission(question: PermissionQuestion) -> Allow:
        return Allow(remember="always", rules=("publish",))

    async with ModelServer([reply(call("publish", page="a")), reply(call("publish", page="b")), reply("ok")]) as server:
        async with tugline.Session(base_url=server.url, tools=[publish], permission=permission, **options) as session:
            async with session.stream("Publish both") as events:
                heard = [event async for event in events]
    assert len([event for event in heard if isinstance(event, tugline.PermissionAsked)]) == 1
    assert ["not trusted" in event.text for event in heard if isinstance(event, tugline.Notice)] == [True]
    assert not Path(options["cwd"], ".tugline").exists()


async def test_a_deferred_tool_is_named_in_the_prompt_and_its_schema_comes_when_it_was_loaded(
    options: dict[str, Any],
) -> None:
    @tugline.tool(deferred=True, footprint="reads")
    async def telescope(star: str) -> str:
        """Looks at stars."""
        return f"{star} is bright"

    script = [
        reply(call("ToolSearch", query="select:telescope")),
        reply(call("telescope", star="Vega")),
        reply("Seen."),
    ]
    async with ModelServer(script) as server:
        async with tugline.Session(base_url=server.url, tools=[telescope], **options) as session:
            await session.run("Look at Vega")
        first, second, third = (request.body for request in server.requests)
    assert "telescope" in str(first["system"])
    assert "telescope" not in [tool["name"] for tool in first["tools"]]
    assert "telescope" in [tool["name"] for tool in second["tools"]]
    assert "Vega is bright" in str(third["messages"][-1])


async def test_a_rule_for_one_file_leaves_searches_allowed_and_the_file_out_of_their_results(
    options: dict[str, Any],
) -> None:
    project = Path(options["cwd"])
    (project / "open.txt").write_text("token here\n")
    (project / "sub").mkdir()
    (project / "sub" / ".env").write_text("token hunter2\n")
    searches = [
        call("Grep", pattern="token", output_mode="content"),
        call("Grep", pattern="token"),
        call("Grep", pattern="token", output_mode="count"),
        call("Glob", pattern="**/*"),
        call("Grep", pattern="token", path="sub/.env"),
        call("Read", file_path="sub/.env"),
    ]
    async with ModelServer([reply(*searches), reply("ok")]) as server:
        async with tugline.Session(base_url=server.url, disallowed_tools=["Read(.env)"], **options) as session:
            result = await session.run("Search")
        answers = server.requests[1].body["messages"][-1]["content"]
    assert [answer.get("is_error", False) for answer in answers] == [False, False, False, False, True, True]
    assert all("open.txt" in str(answer["content"]) for answer in answers[:4])
    assert not any("hunter2" in str(answer["content"]) for answer in answers)
    assert not any(".env" in str(answer["content"]) for answer in answers[:4])
    assert len(result.denials) == 2
