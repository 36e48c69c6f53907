"""The scripted model behind HTTP, seen through a client that knows nothing of it."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tugline.protocol.errors import UsageError
from tugline.protocol.usage import Usage
from tugline.testing import (
    Match,
    ModelServer,
    ScriptMismatch,
    Step,
    call,
    cut,
    error_event,
    fail,
    garbage,
    gate,
    opaque,
    ping,
    raw_call,
    reply,
    text,
    thinking,
)

pytest_plugins = ["raw_wire"]

Connect = Callable[[int], Any]

HI = [{"role": "user", "content": "hi"}]
PATHS = {"messages": "/v1/messages", "chat": "/v1/chat/completions", "responses": "/v1/responses"}
ALL = pytest.mark.parametrize("protocol", list(PATHS))


def body(protocol: str, messages: list[Any] | None = None, **rest: Any) -> dict[str, Any]:
    if protocol == "responses":
        return {"model": "m", "input": messages or HI, "stream": True, **rest}
    limit = {"max_tokens": 100} if protocol == "messages" else {}
    return {"model": "m", "messages": messages or HI, "stream": True, **limit, **rest}


EVERYTHING = reply(
    thinking("hm"), text("hello"), call("Read", p="x"), raw_call("Edit", '{"a":1}'), usage=Usage(7, 3, 2, 1), chunk=3
)


async def test_anthropic_events_come_as_the_service_sends_them(wire: Connect) -> None:
    async with ModelServer([EVERYTHING]) as server:
        answer = await wire(server.port).ask(PATHS["messages"], body("messages"))
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["request-id"] == "req_1"
    assert all(name == data["type"] for name, data in answer.events)
    assert [data for _, data in answer.events] == [
        {
            "type": "message_start",
            "message": {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "model": "m",
                "content": [],
                "stop_reason": None,
                "stop_sequence": None,
                "usage": _usage(1),
            },
        },
        _start(0, {"type": "thinking", "thinking": "", "signature": ""}),
        {"type": "ping"},
        _delta(0, type="thinking_delta", thinking="hm"),
        _delta(0, type="signature_delta", signature="scripted"),
        {"type": "content_block_stop", "index": 0},
        _start(1, {"type": "text", "text": ""}),
        _delta(1, type="text_delta", text="hel"),
        _delta(1, type="text_delta", text="lo"),
        {"type": "content_block_stop", "index": 1},
        _start(2, {"type": "tool_use", "id": "call_1_1", "name": "Read", "input": {}}),
        _delta(2, type="input_json_delta", partial_json='{"p'),
        _delta(2, type="input_json_delta", partial_json='":"'),
        _delta(2, type="input_json_delta", partial_json='x"}'),
        {"type": "content_block_stop", "index": 2},
        _start(3, {"type": "tool_use", "id": "call_1_2", "name": "Edit", "input": {}}),
        _delta(3, type="input_json_delta", partial_json='{"a'),
        _delta(3, type="input_json_delta", partial_json='":1'),
        _delta(3, type="input_json_delta", partial_json="}"),
        {"type": "content_block_stop", "index": 3},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use", "stop_sequence": None},
            "usage": _usage(3),
        },
        {"type": "message_stop"},
    ]


def _usage(output: int) -> dict[str, int]:
    return {
        "input_tokens": 7,
        "cache_creation_input_tokens": 1,
        "cache_read_input_tokens": 2,
        "output_tokens": output,
    }


def _start(index: int, block: dict[str, Any]) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def _delta(index: int, **delta: str) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": delta}


async def test_chat_chunks_come_as_the_service_sends_them(wire: Connect) -> None:
    async with ModelServer([EVERYTHING]) as server:
        asked = body("chat", stream_options={"include_usage": True})
        answer = await wire(server.port).ask(PATHS["chat"], asked)
    *chunks, usage, done = [data for _, data in answer.events]
    assert done == "[DONE]"
    assert {(chunk["object"], chunk["id"], chunk["usage"]) for chunk in chunks} == {
        ("chat.completion.chunk", "chatcmpl-msg_1", None)
    }
    assert usage["choices"] == []
    assert {key: usage["usage"][key] for key in ("prompt_tokens", "completion_tokens", "total_tokens")} == {
        "prompt_tokens": 10,
        "completion_tokens": 3,
        "total_tokens": 13,
    }
    assert usage["usage"]["prompt_tokens_details"]["cached_tokens"] == 2
    assert [chunk["choices"][0]["delta"] for chunk in chunks] == [
        {"role": "assistant", "content": "", "refusal": None},
        {"reasoning_content": "hm"},
        {"content": "hel"},
        {"content": "lo"},
        {"tool_calls": [_tool_call(0, "call_1_1", "Read")]},
        *({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]} for piece in ('{"p', '":"', 'x"}')),
        {"tool_calls": [_tool_call(1, "call_1_2", "Edit")]},
        *({"tool_calls": [{"index": 1, "function": {"arguments": piece}}]} for piece in ('{"a', '":1', "}")),
        {},
    ]
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None] * (len(chunks) - 1) + ["tool_calls"]


def _tool_call(index: int, call_id: str, name: str) -> dict[str, Any]:
    return {"index": index, "id": call_id, "type": "function", "function": {"name": name, "arguments": ""}}


async def test_chat_sends_no_usage_that_was_not_asked_for(wire: Connect) -> None:
    async with ModelServer([reply("a")]) as server:
        answer = await wire(server.port).ask(PATHS["chat"], body("chat"))
    assert all(data == "[DONE]" or "usage" not in data for _, data in answer.events)


async def test_responses_events_come_as_the_service_sends_them(wire: Connect) -> None:
    async with ModelServer([EVERYTHING]) as server:
        answer = await wire(server.port).ask(PATHS["responses"], body("responses"))
    events = answer.events
    assert all(name == data["type"] for name, data in events)
    assert [data["sequence_number"] for _, data in events] == list(range(len(events)))
    names = [name.removeprefix("response.") for name, _ in events]
    assert names == [
        *("created", "in_progress"),
        *("output_item.added", "reasoning_summary_part.added", "reasoning_summary_text.delta"),
        *("reasoning_summary_text.done", "reasoning_summary_part.done", "output_item.done"),
        *("output_item.added", "content_part.added", "output_text.delta", "output_text.delta"),
        *("output_text.done", "content_part.done", "output_item.done"),
        *("output_item.added", *["function_call_arguments.delta"] * 3, "function_call_arguments.done"),
        *("output_item.done", "output_item.added", *["function_call_arguments.delta"] * 3),
        *("function_call_arguments.done", "output_item.done", "completed"),
    ]
    last = events[-1][1]["response"]
    assert (last["status"], last["usage"]["input_tokens"], last["usage"]["output_tokens"]) == ("completed", 10, 3)
    assert last["output"] == [data["item"] for name, data in events if name == "response.output_item.done"]
    assert [item["type"] for item in last["output"]] == ["reasoning", "message", "function_call", "function_call"]
    assert (last["output"][2]["call_id"], last["output"][2]["arguments"]) == ("call_1_1", '{"p":"x"}')


@ALL
async def test_a_reply_in_one_piece_says_the_same(protocol: str, wire: Connect) -> None:
    async with ModelServer([EVERYTHING]) as server:
        answer = await wire(server.port).ask(PATHS[protocol], body(protocol, stream=False))
    said = answer.json
    if protocol == "messages":
        assert said["content"] == [
            {"type": "thinking", "thinking": "hm", "signature": "scripted"},
            {"type": "text", "text": "hello"},
            {"type": "tool_use", "id": "call_1_1", "name": "Read", "input": {"p": "x"}},
            {"type": "tool_use", "id": "call_1_2", "name": "Edit", "input": {"a": 1}},
        ]
        assert (said["stop_reason"], said["usage"]) == ("tool_use", _usage(3))
    elif protocol == "chat":
        message = said["choices"][0]["message"]
        assert (message["content"], message["reasoning_content"]) == ("hello", "hm")
        assert [c["function"] for c in message["tool_calls"]] == [
            {"name": "Read", "arguments": '{"p":"x"}'},
            {"name": "Edit", "arguments": '{"a":1}'},
        ]
        assert said["choices"][0]["finish_reason"] == "tool_calls"
    else:
        assert [item["type"] for item in said["output"]] == ["reasoning", "message", "function_call", "function_call"]
        assert said["status"] == "completed"


@ALL
async def test_one_connection_serves_many_requests(protocol: str, wire: Connect) -> None:
    async with ModelServer([reply("a", repeat=3)]) as server:
        client = wire(server.port)
        for stream in (True, False, True):
            answer = await client.ask(PATHS[protocol], body(protocol, stream=stream))
            assert answer.whole
        assert server.connections == 1


@pytest.mark.parametrize(
    ("stop", "anthropic", "chat", "responses"),
    [
        ("max_tokens", "max_tokens", "length", ("incomplete", {"reason": "max_output_tokens"})),
        ("refusal", "refusal", "content_filter", ("incomplete", {"reason": "content_filter"})),
        ("end_turn", "end_turn", "stop", ("completed", None)),
        ("what is this", "what is this", "what is this", ("completed", None)),
    ],
)
async def test_each_service_has_its_words_for_how_a_reply_ended(
    wire: Connect, stop: str, anthropic: str, chat: str, responses: Any
) -> None:
    async with ModelServer([reply("a", stop=stop, repeat=3)]) as server:
        client = wire(server.port)
        first = (await client.ask(PATHS["messages"], body("messages"))).events
        second = (await client.ask(PATHS["chat"], body("chat"))).events
        third = (await client.ask(PATHS["responses"], body("responses"))).events[-1][1]["response"]
    assert first[-2][1]["delta"]["stop_reason"] == anthropic
    assert second[-2][1]["choices"][0]["finish_reason"] == chat
    assert (third["status"], third["incomplete_details"]) == responses


async def test_opaque_parts_go_to_the_service_that_understands_them(wire: Connect) -> None:
    parts = (
        opaque("anthropic", type="redacted_thinking", data="x"),
        opaque("openai", type="reasoning", id="r", summary=[]),
    )
    async with ModelServer([reply(*parts, "a", repeat=3)]) as server:
        client = wire(server.port)
        first = (await client.ask(PATHS["messages"], body("messages"))).events
        second = (await client.ask(PATHS["chat"], body("chat"))).events
        third = (await client.ask(PATHS["responses"], body("responses"))).events
    blocks = [data["content_block"]["type"] for name, data in first if name == "content_block_start"]
    assert blocks == ["redacted_thinking", "text"]
    assert [data["index"] for name, data in first if name == "content_block_stop"] == [0, 1]
    assert len(second) == 4
    assert [item["type"] for item in third[-1][1]["response"]["output"]] == ["reasoning", "message"]


@ALL
@pytest.mark.parametrize("stream", [True, False])
async def test_a_refusal_has_the_form_of_the_service(protocol: str, stream: bool, wire: Connect) -> None:
    script = [fail(529, "busy", retry_after=7, headers={"X-Extra": "1"}), fail(502, body="<html>bad</html>")]
    async with ModelServer(script) as server:
        client = wire(server.port)
        answer = await client.ask(PATHS[protocol], body(protocol, stream=stream))
        page = await client.ask(PATHS[protocol], body(protocol, stream=stream))
    assert (answer.status, answer.headers["retry-after"], answer.headers["x-extra"]) == (529, "7", "1")
    assert (answer.json["error"]["type"], answer.json["error"]["message"]) == ("overloaded_error", "busy")
    assert ("request_id" in answer.json) == (protocol == "messages")
    assert (page.status, page.body) == (502, b"<html>bad</html>")


@ALL
async def test_a_wrong_key_is_refused_and_the_right_one_taken(protocol: str, wire: Connect) -> None:
    async with ModelServer([reply("a", repeat=2)], require_key="right") as server:
        client = wire(server.port)
        headers = {"anthropic-version": "1"}
        wrong = await client.ask(PATHS[protocol], body(protocol), headers={**headers, "x-api-key": "wrong"})
        assert (wrong.status, wrong.json["error"]["type"]) == (401, "authentication_error")
        for key in ({"x-api-key": "right"}, {"authorization": "Bearer right"}):
            assert (await client.ask(PATHS[protocol], body(protocol), headers={**headers, **key})).status == 200


@ALL
async def test_a_request_too_many_is_answered_with_an_error_that_says_so(protocol: str, wire: Connect) -> None:
    with pytest.raises(ScriptMismatch, match="no step is left for a request"):
        async with ModelServer([]) as server:
            answer = await wire(server.port).ask(PATHS[protocol], body(protocol))
    assert (answer.status, answer.headers["x-should-retry"]) == (500, "false")
    assert "no step is left" in answer.json["error"]["message"]


async def test_leaving_the_server_names_what_nobody_asked_for() -> None:
    with pytest.raises(ScriptMismatch, match="never asked for: step 1: text 'a'"):
        async with ModelServer([reply("a")]):
            pass
    async with ModelServer([reply("a")], lenient=True):
        pass


async def test_an_error_in_the_test_is_not_hidden_by_the_check() -> None:
    with pytest.raises(ZeroDivisionError):
        async with ModelServer([reply("a")]):
            raise ZeroDivisionError


@ALL
async def test_a_gate_holds_back_what_stands_behind_it(protocol: str, wire: Connect) -> None:
    async with ModelServer([reply("before", gate("a"), "after")]) as server:
        client = wire(server.port)
        asking = asyncio.create_task(client.ask(PATHS[protocol], body(protocol)))
        await server.reached("a")
        assert not asking.done()
        server.open("a")
        assert (await asking).whole


async def test_gates_can_be_watched_and_opened_over_http(wire: Connect) -> None:
    async with ModelServer([reply(gate("a b"), "x")]) as server:
        asking = asyncio.create_task(wire(server.port).ask(PATHS["messages"], body("messages")))
        control = wire(server.port)
        reached = (await control.ask("/control/gates/a%20b", method="GET")).json
        assert reached == {"answered": 1, "waiting": {"a b": 1}, "remaining": [], "problems": []}
        await control.ask("/control/gates/a%20b")
        assert (await asking).whole


@ALL
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("how", ["end", "close", "drop"])
@pytest.mark.parametrize("where", [{"bytes": 150}, {"events": 2}, {}])
async def test_a_cut_stream_never_looks_complete(
    protocol: str, stream: bool, how: Any, where: dict[str, int], wire: Connect
) -> None:
    step = reply("one", "two", cut=cut(how, **where)) if where else reply("one", cut(how), "two")
    async with ModelServer([step, reply("next")]) as server:
        client = wire(server.port)
        answer = await client.ask(PATHS[protocol], body(protocol, stream=stream))
        assert answer.whole == (how == "end")
        if stream:
            for sign in (b"message_stop", b"[DONE]", b"response.completed"):
                assert sign not in answer.body
        else:
            with pytest.raises(json.JSONDecodeError):
                _ = answer.json
        if stream and where == {"bytes": 150} and how != "drop":
            assert len(answer.body) == 150
        again = wire(server.port) if how != "end" else client
        assert (await again.ask(PATHS[protocol], body(protocol))).whole


@ALL
@pytest.mark.parametrize("stream", [True, False])
async def test_a_reply_that_hangs_goes_with_its_client(protocol: str, stream: bool, wire: Connect) -> None:
    async with ModelServer([reply("one", gate("here"), cut("hang"))]) as server:
        client = wire(server.port)
        server.open("here")
        await client.send("POST", PATHS[protocol], body(protocol, stream=stream), {"anthropic-version": "1"})
        await server.reached("here")
        assert server.connections == 1
        await client.close()
        async with asyncio.timeout(10):
            await server.disconnected()


async def test_a_server_closes_while_replies_hang(wire: Connect) -> None:
    async with ModelServer([reply(gate("here"), cut("hang"), repeat=3)]) as server:
        server.open("here")
        tasks = [asyncio.create_task(wire(server.port).ask(PATHS["chat"], body("chat"))) for _ in range(3)]
        await server.reached("here", 3)
    assert [answer.whole for answer in await asyncio.gather(*tasks)] == [False] * 3


@ALL
@pytest.mark.parametrize(
    "step",
    [
        reply("a", stop="missing"),
        reply(text("a", unclosed=True), stop="missing"),
        reply("a", error_event("overloaded_error", "busy")),
    ],
)
async def test_a_reply_without_a_proper_end_lacks_its_last_events(protocol: str, step: Step, wire: Connect) -> None:
    async with ModelServer([step, step]) as server:
        client = wire(server.port)
        answer = await client.ask(PATHS[protocol], body(protocol))
        whole = await client.ask(PATHS[protocol], body(protocol, stream=False))
    assert answer.whole
    for sign in (b"message_stop", b"[DONE]", b"response.completed"):
        assert sign not in answer.body
    assert (b"busy" in answer.body) == (step.stop is None)
    with pytest.raises(json.JSONDecodeError):
        _ = whole.json


@ALL
async def test_garbage_pings_and_a_wrong_content_type_go_out_as_written(protocol: str, wire: Connect) -> None:
    step = reply(ping(3), garbage("<oops>"), "a", content_type="text/html")
    async with ModelServer([step]) as server:
        answer = await wire(server.port).ask(PATHS[protocol], body(protocol))
    assert answer.headers["content-type"] == "text/html"
    assert answer.body.count(b"<oops>") == 1
    assert answer.body.count(b"ping") >= 3


@ALL
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=st.text(max_size=60), chunk=st.integers(0, 9), split=st.one_of(st.none(), st.integers(1, 50)))
async def test_any_text_arrives_whole_however_it_is_cut(
    protocol: str, words: str, chunk: int, split: int | None, wire: Connect
) -> None:
    async with ModelServer([reply(text(words), chunk=chunk, split=split)]) as server:
        client = wire(server.port)
        answer = await client.ask(PATHS[protocol], body(protocol))
        await client.close()
    assert "".join(_texts(answer)) == words


def _texts(answer: Any) -> list[str]:
    found = []
    for _, data in answer.events:
        if data == "[DONE]":
            continue
        if "choices" in data:
            found += [choice["delta"].get("content") or "" for choice in data["choices"]]
        elif data["type"] == "response.output_text.delta":
            found.append(data["delta"])
        elif data["type"] == "content_block_delta":
            found.append(data["delta"]["text"])
    return found


async def test_cache_hits_follow_the_markers(wire: Connect) -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    system = [{"type": "text", "text": "rules " * 40, **mark}]

    def ask(*messages: str, marked: bool = True) -> dict[str, Any]:
        said: list[Any] = [
            {"role": "assistant" if n % 2 else "user", "content": [{"type": "text", "text": words}]}
            for n, words in enumerate(messages)
        ]
        if marked:
            said[-1]["content"][0] |= mark
        return body("messages", said, system=system, stream=False)

    async with ModelServer([reply("a", repeat=4)]) as server:
        client = wire(server.port)
        first, second, third, other = [
            (await client.ask(PATHS["messages"], asked)).json["usage"]
            for asked in (ask("one"), ask("one", "a", "two"), ask("one", "a", "two"), ask("else", marked=False))
        ]
    assert (first["cache_read_input_tokens"], first["input_tokens"]) == (0, 0)
    assert second["cache_read_input_tokens"] == first["cache_creation_input_tokens"]
    assert second["cache_creation_input_tokens"] > 0
    assert third["cache_creation_input_tokens"] == 0
    assert third["cache_read_input_tokens"] > second["cache_read_input_tokens"]
    assert 0 < other["cache_read_input_tokens"] < first["cache_creation_input_tokens"]
    assert other["input_tokens"] > 0


@pytest.mark.parametrize("protocol", ["chat", "responses"])
async def test_openai_prefixes_are_kept_unasked(protocol: str, wire: Connect) -> None:
    more = [*HI, {"role": "assistant", "content": "a"}, {"role": "user", "content": "again"}]
    async with ModelServer([reply("a", repeat=3)]) as server:
        client = wire(server.port)
        cached = []
        for messages in (HI, more, more):
            usage = (await client.ask(PATHS[protocol], body(protocol, messages, stream=False))).json["usage"]
            details = usage.get("prompt_tokens_details") or usage["input_tokens_details"]
            cached.append((details["cached_tokens"], usage.get("prompt_tokens") or usage["input_tokens"]))
    assert cached[0][0] == 0
    assert 0 < cached[1][0] < cached[1][1]
    assert cached[2][0] == cached[2][1]


async def test_counting_tokens_uses_up_no_step(wire: Connect) -> None:
    async with ModelServer([]) as server:
        asked = {"model": "m", "messages": [{"role": "user", "content": "x" * 400}]}
        answer = await wire(server.port).ask("/v1/messages/count_tokens", asked)
    assert 100 <= answer.json["input_tokens"] <= 120


async def test_models_are_listed_in_the_form_of_either_service(wire: Connect) -> None:
    async with ModelServer([], models=("big", "small"), lenient=True) as server:
        client = wire(server.port)
        anthropic = (await client.ask("/v1/models", method="GET")).json
        openai = (await client.ask("/v1/models", method="GET", headers={})).json
        one = (await client.ask("/v1/models/small", method="GET", headers={})).json
        none = await client.ask("/v1/models/huge", method="GET", headers={})
    assert [model["display_name"] for model in anthropic["data"]] == ["big", "small"]
    assert (openai["object"], [model["id"] for model in openai["data"]]) == ("list", ["big", "small"])
    assert one["id"] == "small"
    assert none.status == 404


@pytest.mark.parametrize("raw", [b"\xff\xfe\x00", b"", b"[1]", b"{", b"null", b'{"model": 3}', b'"' + b"x" * 100_000])
@ALL
async def test_a_body_that_is_no_request_is_refused(protocol: str, raw: bytes, wire: Connect) -> None:
    async with ModelServer([], lenient=True) as server:
        answer = await wire(server.port).ask(PATHS[protocol], raw)
        assert server.problems
    assert (answer.status, answer.json["error"]["type"]) == (400, "invalid_request_error")


async def test_bytes_that_are_no_http_are_refused_and_the_server_goes_on(wire: Connect) -> None:
    async with ModelServer([reply("a")]) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"\x16\x03\x01 not http at all\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 400")
        writer.close()
        await writer.wait_closed()
        assert (await wire(server.port).ask(PATHS["chat"], body("chat"))).whole


async def test_an_unknown_path_is_named(wire: Connect) -> None:
    with pytest.raises(ScriptMismatch, match="unexpected request: POST /v1/nonsense"):
        async with ModelServer([]) as server:
            answer = await wire(server.port).ask("/v1/nonsense", {})
    assert (answer.status, answer.json["error"]["type"]) == (404, "not_found_error")


async def test_requests_are_kept_with_headers_bytes_and_parsed_body(wire: Connect) -> None:
    async with ModelServer([reply("a")]) as server:
        await wire(server.port).ask(PATHS["messages"], body("messages"))
        (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/v1/messages")
    assert request.headers["anthropic-version"] == "2023-06-01"
    assert json.loads(request.raw) == request.body == body("messages")
    assert server.bodies == [request.body]


async def test_a_purpose_may_be_told_in_a_header(wire: Connect) -> None:
    script = [reply("main"), reply("title", when=Match(purpose="title"))]
    async with ModelServer(script) as server:
        headers = {"anthropic-version": "1", "x-tugline-purpose": "title"}
        client = wire(server.port)
        first = await client.ask(PATHS["messages"], body("messages"), headers=headers)
        second = await client.ask(PATHS["messages"], body("messages"))
    assert ("".join(_texts(first)), "".join(_texts(second))) == ("title", "main")


async def test_a_taken_port_is_one_clear_line() -> None:
    async with ModelServer([]) as first:
        with pytest.raises(UsageError, match=r"cannot listen on 127\.0\.0\.1:\d+: "):
            async with ModelServer([], port=first.port):
                pass
    with pytest.raises(UsageError, match="cannot listen on"):
        async with ModelServer([], port=99_999):
            pass


async def test_a_long_reply_arrives_whole_at_a_client_that_starts_late(wire: Connect) -> None:
    async with ModelServer([reply("x" * 8_000_000, chunk=4000)]) as server:
        client = wire(server.port)
        await client.send("POST", PATHS["messages"], body("messages"), {"anthropic-version": "1"})
        assert (await client.receive()).whole


async def test_a_hundred_clients_at_once_get_their_own_replies(wire: Connect) -> None:
    async with ModelServer([reply("hello", call("Read", p=1), repeat=1000)]) as server:

        async def agent(n: int) -> set[str]:
            client = wire(server.port)
            answers = [await client.ask(PATHS["messages"], body("messages")) for _ in range(10)]
            return {answer.events[0][1]["message"]["id"] for answer in answers}

        ids = await asyncio.gather(*(agent(n) for n in range(100)))
    assert len(set().union(*ids)) == 1000
