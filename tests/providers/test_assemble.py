"""What all decoders share: any split of the bytes gives the same chunks; what was sent is what comes out."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wire_streams import (
    CHAT_USAGE,
    DONE,
    anthropic,
    anthropic_block,
    anthropic_end,
    anthropic_start,
    anthropic_text,
    anthropic_tool,
    blocks,
    chat,
    chat_call,
    chat_chunk,
    cut,
    decode,
    response_call,
    response_end,
    response_event,
    response_item,
    response_start,
    response_text,
    responses,
    sse,
)

from tugline.protocol.blocks import Text, Thinking, ToolUse
from tugline.protocol.chunks import BlockClosed, BlockDelta, Chunk, ReplyEnded
from tugline.protocol.codec import mend_surrogates
from tugline.protocol.errors import Failure, ProviderError
from tugline.protocol.ids import CallId, ReplyId
from tugline.protocol.usage import Usage
from tugline.providers.assemble import Assembly, ReplyIds, parse_object
from tugline.providers.wire import Decoder


def outcome(decoder: Decoder, data: bytes) -> list[Chunk] | Failure:
    """What comes of the stream: chunks, or how it failed."""
    try:
        return decode(decoder, [data])
    except ProviderError as error:
        return error.failure


texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
inputs = st.dictionaries(texts, json_values, max_size=3)


@st.composite
def pieces(draw: st.DrawFn, text: str) -> list[str]:
    places = draw(st.lists(st.integers(0, len(text)), max_size=4))
    edges = [0, *sorted(places), len(text)]
    return [text[a:b] for a, b in itertools.pairwise(edges)]


@st.composite
def replies(draw: st.DrawFn) -> list[tuple[str, Any, list[str]]]:
    """Blocks: their kind, what they should become, and the deltas that say it."""
    made: list[tuple[str, Any, list[str]]] = []
    for number in range(draw(st.integers(0, 4))):
        kind = draw(st.sampled_from(["text", "tool_use", "thinking"]))
        if kind == "tool_use":
            data = draw(inputs)
            text = json.dumps(data, ensure_ascii=draw(st.booleans()))
            made.append((kind, (f"call_{number}", "Read", data), draw(pieces(text))))
        else:
            text = draw(texts)
            made.append((kind, text, draw(pieces(text))))
    return made


def anthropic_bytes(reply: list[tuple[str, Any, list[str]]]) -> bytes:
    events = [anthropic_start()]
    for index, (kind, meant, deltas) in enumerate(reply):
        if kind == "text":
            events += anthropic_text(index, *deltas)
        elif kind == "tool_use":
            events += anthropic_tool(index, *deltas, call=meant[0], name=meant[1])
        else:
            thoughts = [{"type": "thinking_delta", "thinking": delta} for delta in deltas]
            events += anthropic_block(index, {"type": "thinking", "thinking": ""}, *thoughts)
        events.append(("ping", {"type": "ping"}))
    return b": hello\n\n" + sse([*events, *anthropic_end()])


def chat_bytes(reply: list[tuple[str, Any, list[str]]]) -> bytes:
    events = [chat_chunk({"role": "assistant"})]
    calls = 0
    for kind, meant, deltas in reply:
        if kind == "tool_use":
            events.append(chat_call(calls, "", id=meant[0], name=meant[1]))
            events += [chat_call(calls, delta) for delta in deltas]
            calls += 1
        else:
            field = "content" if kind == "text" else "reasoning_content"
            events += [chat_chunk({field: delta}) for delta in deltas]
    return b": hello\n\n" + sse([*events, chat_chunk(finish="stop"), CHAT_USAGE, DONE])


def responses_bytes(reply: list[tuple[str, Any, list[str]]]) -> bytes:
    events = [response_start()]
    for index, (kind, meant, deltas) in enumerate(reply):
        if kind == "text":
            events += response_text(index, *deltas)
        elif kind == "tool_use":
            events += response_call(index, *deltas, call=meant[0], name=meant[1])
        else:
            thoughts = [response_event("reasoning_summary_text.delta", delta=delta) for delta in deltas]
            events += response_item(index, {"type": "reasoning", "id": f"rs_{index}"}, *thoughts)
    return b": hello\n\n" + sse([*events, response_end()])


DIALECTS: dict[str, Any] = {
    "anthropic": (anthropic, anthropic_bytes),
    "chat": (chat, chat_bytes),
    "responses": (responses, responses_bytes),
}


def meant(reply: list[tuple[str, Any, list[str]]], *, join: bool) -> list[Any]:
    """The blocks that a reply should become. Chat has no blocks: there, neighbours of one kind are one."""
    made: list[Any] = []
    for kind, value, _ in reply:
        if kind == "tool_use":
            made.append(ToolUse(CallId(value[0]), value[1], value[2]))
        elif join and made and isinstance(made[-1], Text) and kind == "text":
            made[-1] = Text(made[-1].text + value)
        elif join and made and isinstance(made[-1], Thinking) and kind == "thinking":
            made[-1] = Thinking(made[-1].thinking + value)
        else:
            made.append(Text(value) if kind == "text" else Thinking(value))
    return made


@pytest.mark.parametrize("dialect", DIALECTS)
@given(reply=replies(), places=st.lists(st.integers(0, 100_000), max_size=12))
@settings(max_examples=60, deadline=None)
def test_what_was_sent_comes_out_whatever_the_split(dialect: str, reply: Any, places: list[int]) -> None:
    make, encode = DIALECTS[dialect]
    data = encode(reply)
    whole = decode(make(), [data])
    assert blocks(whole) == meant(reply, join=dialect == "chat")
    assert decode(make(), cut(data, places)) == whole
    assert decode(make(), cut(data.replace(b"\n", b"\r\n"), places)) == whole


@pytest.mark.parametrize("dialect", DIALECTS)
@given(reply=replies())
@settings(max_examples=10, deadline=None)
def test_bytes_one_by_one_give_the_same_chunks(dialect: str, reply: Any) -> None:
    make, encode = DIALECTS[dialect]
    data = encode(reply)
    assert decode(make(), [data[i : i + 1] for i in range(len(data))]) == decode(make(), [data])


@pytest.mark.parametrize("dialect", DIALECTS)
@given(reply=replies(), place=st.integers(0, 100_000))
@settings(max_examples=60, deadline=None)
def test_a_stream_cut_anywhere_gives_nothing_that_was_not_said_and_never_a_call_from_half_a_block(
    dialect: str, reply: Any, place: int
) -> None:
    make, encode = DIALECTS[dialect]
    data = encode(reply)
    whole = decode(make(), [data])
    got = outcome(make(), data[: place % len(data)])
    if isinstance(got, Failure):
        assert got.kind == "stream_broken"
    else:
        assert isinstance(got[-1], ReplyEnded)
        assert blocks(got) == blocks(whole)


@pytest.mark.parametrize("dialect", DIALECTS)
@given(reply=replies(), place=st.integers(0, 100_000), junk=st.binary(min_size=1, max_size=4))
@settings(max_examples=60, deadline=None)
def test_damage_anywhere_ends_in_a_reply_or_in_a_failure_but_never_in_another_error(
    dialect: str, reply: Any, place: int, junk: bytes
) -> None:
    make, encode = DIALECTS[dialect]
    data = bytearray(encode(reply))
    place %= len(data)
    data[place : place + len(junk)] = junk
    got = outcome(make(), bytes(data))
    if isinstance(got, Failure):
        assert "\n" not in got.message
    else:
        blocks(got)


@pytest.mark.parametrize("dialect", DIALECTS)
@given(value=json_values, name=st.sampled_from(["", "error", "message_start", "content_block_start", "message_delta"]))
@settings(max_examples=60, deadline=None)
def test_any_json_in_an_event_is_survived(dialect: str, value: Any, name: str) -> None:
    make, encode = DIALECTS[dialect]
    begun = encode([("text", "x", ["x"])])
    for position in (0, begun.index(b"\n\n") + 2, begun.rindex(b"event:") if b"event:" in begun else 0):
        data = begun[:position] + sse([(name, value)]) + begun[position:]
        got = outcome(make(), data)
        if not isinstance(got, Failure):
            blocks(got)


@given(inputs)
def test_any_object_that_json_writes_is_parsed(data: dict[str, Any]) -> None:
    assert parse_object(json.dumps(data)) == data


@given(
    st.text(max_size=30) | st.sampled_from(['{"a":1}x', '{"a":-Infinity}', '{"a":1,}', "{}{}", " {} ", '{"\\udc00":1}'])
)
def test_parsing_never_raises(text: str) -> None:
    value = parse_object(text)
    assert value is None or isinstance(value, dict)


def test_deep_nesting_is_refused_and_shallow_wide_is_not() -> None:
    assert parse_object('{"a":' + "[" * 250 + "]" * 250 + "}") is None
    assert parse_object('{"a":' + "[" * 900_000 + "]" * 900_000 + "}") is None
    assert parse_object('{"a":[' + ",".join(["[]"] * 1000) + "]}") == {"a": [[] for _ in range(1000)]}


def test_surrogates_are_mended() -> None:
    assert mend_surrogates("a\ud83d\ude00b\ud83dc\ude00") == "a\U0001f600b\ufffdc\ufffd"
    assert parse_object('{"a":"\\ud83d\\ude00"}') == {"a": "\U0001f600"}
    assert parse_object('{"a":"\\\\ud83d"}') == {"a": "\\ud83d"}


def test_reply_ids_are_the_servers_and_never_twice_the_same() -> None:
    ids = ReplyIds(memory=2)
    assert ids.fresh("msg_1") == "msg_1"
    assert ids.fresh("msg_1").startswith("msg_1_")
    for nothing in ("", None, 5, "x" * 300, "a\nb"):
        assert ids.fresh(nothing).startswith("reply_")


def test_blocks_that_wait_keep_their_order_and_their_words() -> None:
    assembly = Assembly()
    assembly.start(ReplyId("r"), "m")
    assembly.open("a", "text")
    assembly.open("b", "text")
    assembly.delta("b", "text", "later")
    assembly.close("b")
    assembly.delta("a", "text", "first")
    assembly.take()
    assembly.close("a")
    assert assembly.take()[1:] != []
    assembly.end("end_turn", Usage())
    assert assembly.take() == [ReplyEnded("end_turn", Usage())]


def test_a_waiting_block_says_all_at_once_when_its_turn_comes() -> None:
    assembly = Assembly()
    assembly.start(ReplyId("r"), "m")
    assembly.open("a", "text")
    assembly.delta("a", "text", "1")
    assembly.open("b", "text")
    assembly.delta("b", "text", "2")
    assembly.delta("b", "text", "3")
    assembly.take()
    assembly.close("a")
    closed, _, delta = assembly.take()
    assert closed == BlockClosed(0, Text("1"))
    assert delta == BlockDelta(1, "23")


def test_nothing_can_be_said_before_the_beginning() -> None:
    with pytest.raises(ProviderError):
        Assembly().open("a", "text")
    with pytest.raises(ProviderError):
        Assembly().end("end_turn", Usage())
