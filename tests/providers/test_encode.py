import sys
from collections.abc import Callable
from types import FrameType

import pytest
from conversations import LS, READ, assistant, call, conversations, request, result, user
from hypothesis import given
from hypothesis import strategies as st

from tugline.protocol.blocks import ToolUse
from tugline.protocol.messages import Message, User
from tugline.protocol.specs import ModelRequest, ToolSpec
from tugline.providers.anthropic import AnthropicEncoder
from tugline.providers.catalog import Catalog
from tugline.providers.encode import Conversation, ConversationCache, Entry, dumps, inner, wire_id, wire_name


class Counting:
    """Encodes messages and remembers which."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def __call__(self, message: Message) -> Entry:
        self.seen.append(message.id)
        calls = tuple(block.id for block in message.content if isinstance(block, ToolUse))
        return Entry(message, isinstance(message, User), b"", b"x" * 10, calls=calls)


def test_each_message_is_encoded_once() -> None:
    encode, conversation = Counting(), Conversation()
    history: list[Message] = []
    for number in range(5):
        history.append(user(f"m{number}", "x"))
        conversation.update(tuple(history), encode)
    assert encode.seen == ["m0", "m1", "m2", "m3", "m4"]


def test_another_message_of_the_same_id_is_encoded_anew_and_the_rest_is_kept() -> None:
    encode, conversation = Counting(), Conversation()
    first, second, third = user("m0", "a"), user("m1", "b"), user("m2", "c")
    conversation.update([first, second, third], encode)
    changed = user("m0", "stub")
    conversation.update([changed, second, third], encode)
    assert encode.seen == ["m0", "m1", "m2", "m0"]
    assert [entry.message for entry in conversation.entries] == [changed, second, third]


def test_messages_that_no_longer_occur_are_forgotten() -> None:
    encode, conversation = Counting(), Conversation()
    gone, kept = assistant("m0", call("c0")), assistant("m1", call("c1"))
    conversation.update([gone, kept], encode)
    assert conversation.calls == {"c0", "c1"}
    conversation.update([kept], encode)
    assert (conversation.calls, conversation.size, len(conversation.entries)) == ({"c1"}, 10, 1)
    conversation.update([gone, kept], encode)
    assert encode.seen == ["m0", "m1", "m0"]


def asked(agent: str, *messages: Message) -> ModelRequest:
    return request(*messages, agent=agent)


def test_conversations_are_kept_apart_and_bounded_in_number() -> None:
    encode, cache = Counting(), ConversationCache(kept=2)
    one = user("m0", "x")
    for agent in ("a", "b", "a", "c", "a", "b"):
        cache.update(asked(agent, one), encode)
    assert len(encode.seen) == 4  # a, b, c, and b again, which had to go
    assert len(cache) == 2


def test_conversations_are_bounded_in_bytes_but_the_one_at_hand_is_always_kept() -> None:
    encode, cache = Counting(), ConversationCache(kept_bytes=25)
    big = [user(f"m{n}", "x") for n in range(100)]
    cache.update(asked("big", *big), encode)
    cache.update(asked("big", *big), encode)
    assert len(encode.seen) == 100
    for n in range(6):
        cache.update(asked(f"small{n}", user("s", "x")), encode)
    assert len(cache) == 3
    cache.update(asked("big", *big), encode)
    assert len(encode.seen) == 206


@given(conversations(), st.data())
def test_whatever_came_before_the_entries_are_those_of_the_messages(
    history: list[Message], data: st.DataObject
) -> None:
    encoder, kept = Counting(), Conversation()
    for _ in range(3):
        part = data.draw(st.lists(st.sampled_from(history), unique_by=id))
        kept.update(part, encoder)
        fresh = Conversation()
        fresh.update(part, Counting())
        assert [e.message for e in kept.entries] == [e.message for e in fresh.entries]
        assert (kept.calls, kept.size) == (fresh.calls, fresh.size)


def test_tools_are_encoded_again_only_when_they_are_others() -> None:
    seen: list[str] = []

    def encode(spec: ToolSpec) -> bytes:
        seen.append(spec.name)
        return spec.name.encode()

    conversation = Conversation()
    assert conversation.tools((READ, LS), encode) == b"Read,Ls"
    assert conversation.tools((READ, LS), encode) == b"Read,Ls"
    assert conversation.tools((LS,), encode) == b"Ls"
    assert conversation.tools((), encode) == b""
    assert seen == ["Read", "Ls", "Ls"]


@pytest.mark.parametrize("name", ["Read", "mcp__a__b", "x" * 64])
def test_good_names_stay(name: str) -> None:
    assert wire_name(name) == name
    assert wire_id(name) == name


@given(st.text(max_size=80), st.text(max_size=80))
def test_ids_stay_apart_and_acceptable(one: str, other: str) -> None:
    made = wire_id(one, 40), wire_id(other, 40)
    assert (one == other) == (made[0] == made[1])
    assert all(c.isascii() and (c.isalnum() or c in "_-") for c in "".join(made))


def test_json_of_half_characters() -> None:
    assert dumps({"\ud800": ["\udfff", 1]}) == '{"\ufffd":["\ufffd",1]}'.encode()
    assert inner('a"\ud800') == 'a\\"\ufffd'.encode()


def work(function: Callable[[], object]) -> int:
    """How many calls of functions it takes."""
    count = 0

    def see(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(see)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


def test_a_request_costs_what_is_new_in_it_however_long_the_history() -> None:
    encoder = AnthropicEncoder(Catalog())
    history: list[Message] = [user("m", "go")]
    for n in range(377):
        history += [assistant(f"a{n}", call(f"c{n}", file_path="x")), user(f"u{n}", result(f"c{n}", "y" * 2600))]
    asked = request(*history, tools=(READ,))
    assert len(encoder.encode(asked)[1]) > 1_000_000
    short = AnthropicEncoder(Catalog())
    short_asked = request(*history[:5], tools=(READ,))
    short.encode(short_asked)
    assert work(lambda: encoder.encode(asked)) <= work(lambda: short.encode(short_asked)) + 20
