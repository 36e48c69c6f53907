import base64
import json
from typing import Any

import pytest
from conversations import LS, PDF, PNG, READ, assistant, call, request, result, user

from tugline.net.client import HttpClient
from tugline.protocol.blocks import Document, Image, Opaque, Text, Thinking
from tugline.protocol.errors import ProviderError
from tugline.protocol.specs import ModelRequest
from tugline.providers.anthropic import AnthropicEncoder, AnthropicProvider
from tugline.providers.catalog import Catalog
from tugline.providers.endpoint import Endpoint

MARK = {"type": "ephemeral"}


def encode(wanted: ModelRequest, encoder: AnthropicEncoder | None = None) -> dict[str, Any]:
    body = json.loads((encoder or AnthropicEncoder(Catalog())).encode(wanted)[1])
    assert isinstance(body, dict)
    return body


def messages(wanted: ModelRequest) -> Any:
    """The messages without cache markers."""
    made = encode(wanted)["messages"]
    for message in made:
        for block in message["content"]:
            block.pop("cache_control", None)
    return made


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def test_a_whole_request() -> None:
    wanted = request(
        user("m1", "read it"),
        assistant("m2", Thinking("hm", "sig"), "Sure.", call("c1", file_path="a")),
        user("m3", result("c1", "words")),
        system=("You are tugline.", "Today is Friday."),
        tools=(READ, LS),
        session="s1",
        tail="Mind the time.",
    )
    assert encode(wanted) == {
        "model": "claude-sonnet-4-5",
        "tools": [
            {"name": "Read", "description": READ.description, "input_schema": READ.input_schema},
            {"name": "Ls", "description": "Lists.", "input_schema": {"type": "object"}, "cache_control": MARK},
        ],
        "system": [text("You are tugline."), {**text("Today is Friday."), "cache_control": MARK}],
        "messages": [
            {"role": "user", "content": [{**text("read it"), "cache_control": MARK}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "sig"},
                    text("Sure."),
                    {"type": "tool_use", "id": "c1", "name": "Read", "input": {"file_path": "a"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "c1", "content": "words", "cache_control": MARK},
                    text("Mind the time."),
                ],
            },
        ],
        "max_tokens": 32000,
        "metadata": {"user_id": "s1"},
        "stream": True,
    }


def test_what_varies_stands_behind_the_messages() -> None:
    body = AnthropicEncoder(Catalog()).encode(request(user("m1", "x"), system=("s",), tools=(READ,)))[1]
    order = list(json.loads(body))
    assert order[:4] == ["model", "tools", "system", "messages"]


def test_neighbours_of_one_role_are_joined_and_results_come_first() -> None:
    wanted = request(
        user("m1", "a"),
        user("m2", "b"),
        assistant("m3", "c"),
        assistant("m4", call("c1"), call("c2")),
        user("m5", result("c1")),
        user("m6", "by the way"),
        user("m7", result("c2")),
    )
    made = messages(wanted)
    assert [message["role"] for message in made] == ["user", "assistant", "user"]
    assert made[0]["content"] == [text("a"), text("b")]
    assert [block["type"] for block in made[1]["content"]] == ["text", "tool_use", "tool_use"]
    assert [block["type"] for block in made[2]["content"]] == ["tool_result", "tool_result", "text"]


def test_nothing_empty_is_sent() -> None:
    wanted = request(user("m1", "", " \n"), assistant("m2", ""), user("m3", "x"), system=("", "s"))
    assert messages(wanted) == [{"role": "user", "content": [text("x")]}]
    assert [part["text"] for part in encode(wanted)["system"]] == ["s"]
    assert "system" not in encode(request(user("m1", "x"), system=("",)))
    assert messages(request()) == [{"role": "user", "content": [text("(nothing)")]}]
    assert messages(request(tail="t")) == [{"role": "user", "content": [text("t")]}]


def test_a_tail_behind_a_reply_is_a_message_of_its_own() -> None:
    made = messages(request(user("m1", "x"), assistant("m2", "y"), tail="go on"))
    assert made[-1] == {"role": "user", "content": [text("go on")]}


def test_results_in_all_their_shapes() -> None:
    wanted = request(
        user("m0", "x"),
        assistant("m1", *(call(f"c{n}") for n in range(4))),
        user(
            "m2",
            result("c0", "", is_error=True),
            result("c1", (Text("one"), PNG)),
            result("c2", (Text("only"),)),
            result("c3", ()),
        ),
    )
    made = messages(wanted)[2]["content"]
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    assert made == [
        {"type": "tool_result", "tool_use_id": "c0", "content": "(no output)", "is_error": True},
        {"type": "tool_result", "tool_use_id": "c1", "content": [text("one"), image]},
        {"type": "tool_result", "tool_use_id": "c2", "content": "only"},
        {"type": "tool_result", "tool_use_id": "c3", "content": "(no output)"},
    ]


def test_a_malformed_call_is_sent_with_an_empty_input() -> None:
    made = messages(request(user("m0", "x"), assistant("m1", call("c1", malformed='{"a'))))
    assert made[1]["content"] == [{"type": "tool_use", "id": "c1", "name": "Read", "input": {}}]


def test_odd_names_and_ids_become_acceptable_and_stay_matched_and_apart() -> None:
    odd = ["functions.Read:0", "functions_Read_0", "", "x" * 100, "é"]
    wanted = request(
        user("m0", "x"),
        assistant("m1", *(call(one, "bad name!\ud800") for one in odd), call("last", "")),
        user("m2", *(result(one) for one in odd), result("last")),
    )
    made = messages(wanted)
    calls = [block["id"] for block in made[1]["content"]]
    assert calls == [block["tool_use_id"] for block in made[2]["content"]]
    assert len(set(calls)) == len(odd) + 1
    for one in calls:
        assert 0 < len(one) <= 64
        assert all(c.isascii() and (c.isalnum() or c in "_-") for c in one)
    assert {block["name"] for block in made[1]["content"]} == {"bad_name__", "unknown"}


def test_thinking_goes_back_only_where_it_came_from() -> None:
    blocks = (
        Thinking("a", "sig"),
        Thinking("b"),
        Opaque("anthropic", {"type": "redacted_thinking"}),
        Opaque("openai", {}),
    )
    own = messages(request(user("m0", "x"), assistant("m1", *blocks, "t", model="claude-haiku-4-5")))
    assert [block["type"] for block in own[1]["content"]] == ["thinking", "redacted_thinking", "text"]
    other = messages(request(user("m0", "x"), assistant("m1", *blocks, "t", model="gpt-5")))
    assert [block["type"] for block in other[1]["content"]] == ["redacted_thinking", "text"]


def test_what_a_model_cannot_see_becomes_a_note() -> None:
    catalog = Catalog({"blind": {"images": False, "documents": False}})
    wanted = request(user("m0", PNG, PDF), model="blind")
    made = json.loads(AnthropicEncoder(catalog).encode(wanted)[1])["messages"][0]["content"]
    assert [block["type"] for block in made] == ["text", "text"]
    assert "image/png" in made[0]["text"]
    assert "'a.pdf'" in made[1]["text"]
    svg, word = Image("image/svg+xml", "x"), Document("application/msword", "x")
    made = messages(request(user("m0", svg, word)))[0]["content"]
    assert [block["type"] for block in made] == ["text", "text"]


def test_documents_are_sent_as_what_they_are() -> None:
    plain = Document("text/plain", base64.b64encode("grün".encode()).decode())
    damaged = Document("text/plain", "%%%")
    made = messages(request(user("m0", PDF, plain, damaged)))[0]["content"]
    assert made[0]["source"]["media_type"] == "application/pdf"
    assert made[0]["title"] == "a.pdf"
    assert made[1]["source"] == {"type": "text", "media_type": "text/plain", "data": "grün"}
    assert made[2]["type"] == "text"


def test_half_characters_in_text_are_mended() -> None:
    made = messages(request(user("m0", "a\udcffb"), assistant("m1", call("c1", path="\ud83d")), tail="\udcff"))
    assert made[0]["content"] == [text("a\ufffdb")]
    assert made[1]["content"][0]["input"] == {"path": "\ufffd"}
    assert made[2]["content"] == [text("\ufffd")]


# --- limits, thinking, effort


def test_the_output_limit_is_the_cards_or_the_requests() -> None:
    assert encode(request(user("m0", "x"), model="claude-3-5-haiku-latest"))["max_tokens"] == 8192
    assert encode(request(user("m0", "x"), max_output_tokens=77))["max_tokens"] == 77


@pytest.mark.parametrize(
    ("model", "budget", "limit", "thinking"),
    [
        ("claude-sonnet-4-5", 5000, None, {"type": "enabled", "budget_tokens": 5000}),
        ("claude-sonnet-4-5", 5000, 4000, {"type": "enabled", "budget_tokens": 3999}),
        ("claude-sonnet-4-5", 5000, 500, None),
        ("claude-sonnet-4-5", 0, None, None),
        ("claude-3-5-haiku", 5000, None, None),
        ("claude-opus-4-6", 5000, None, {"type": "adaptive", "display": "summarized"}),
        ("some-model", 2000, None, {"type": "enabled", "budget_tokens": 2000}),
    ],
)
def test_thinking(model: str, budget: int, limit: int | None, thinking: Any) -> None:
    wanted = request(user("m0", "x"), model=model, thinking_tokens=budget, max_output_tokens=limit)
    assert encode(wanted).get("thinking") == thinking


def test_a_turn_that_called_tools_without_thinking_goes_on_without() -> None:
    begun: list[Any] = [
        user("m0", "x"),
        assistant("m1", "t", call("c1")),
        user("m2", result("c1")),
        user("m3", "letter"),
    ]
    assert "thinking" not in encode(request(*begun, thinking_tokens=2000))
    thought: list[Any] = [user("m0", "x"), assistant("m1", Thinking("a", "s"), call("c1")), user("m2", result("c1"))]
    assert "thinking" in encode(request(*thought, thinking_tokens=2000))
    assert "thinking" in encode(request(*begun, assistant("m4", "done"), user("m5", "more"), thinking_tokens=2000))


@pytest.mark.parametrize(
    ("model", "effort", "sent"),
    [
        ("claude-opus-4-6", "max", "max"),
        ("claude-opus-4-6", "xhigh", "high"),
        ("claude-opus-4-5", "max", "high"),
        ("claude-opus-4-5", "low", "low"),
        ("claude-sonnet-4-5", "high", None),
        ("unheard-of", "high", "high"),
    ],
)
def test_effort(model: str, effort: Any, sent: str | None) -> None:
    body = encode(request(user("m0", "x"), model=model, effort=effort))
    assert body.get("output_config") == ({"effort": sent} if sent else None)


def test_a_model_without_tool_calls_is_refused_before_anything_is_sent() -> None:
    catalog = Catalog({"old": {"tools": False}})
    with pytest.raises(ProviderError, match="old cannot call tools"):
        AnthropicEncoder(catalog).encode(request(user("m0", "x"), model="old", tools=(READ,)))
    AnthropicEncoder(catalog).encode(request(user("m0", "x"), model="old"))


# --- cache markers


def marks(body: dict[str, Any]) -> list[tuple[int, int]]:
    """Where markers stand in the messages."""
    return [
        (m, b)
        for m, message in enumerate(body["messages"])
        for b, block in enumerate(message["content"])
        if "cache_control" in block
    ]


def test_the_next_request_has_a_marker_where_the_last_one_had_its_last() -> None:
    encoder = AnthropicEncoder(Catalog())
    history: list[Any] = [user("m0", "x")]
    assert marks(encode(request(*history), encoder)) == [(0, 0)]
    history += [assistant("m1", call("c1")), user("m2", result("c1"))]
    assert marks(encode(request(*history), encoder)) == [(0, 0), (2, 0)]
    # A letter joins the group: the written place is inside of it now, and stays marked.
    history += [user("m3", "letter")]
    assert marks(encode(request(*history), encoder)) == [(2, 0), (2, 1)]
    assert marks(encode(request(*history), encoder)) == [(2, 0), (2, 1)]
    history += [assistant("m4", call("c2"), call("c3")), user("m5", result("c2")), user("m6", result("c3"), "and")]
    assert marks(encode(request(*history, tail="now"), encoder)) == [(2, 1), (4, 2)]


def test_a_resumed_conversation_is_marked_by_its_last_two_user_messages() -> None:
    history: list[Any] = [
        user("m0", "x"),
        assistant("m1", "y"),
        user("m2", "z"),
        assistant("m3", "y"),
        user("m4", "end"),
    ]
    assert marks(encode(request(*history))) == [(2, 0), (4, 0)]


def test_a_shortened_conversation_is_marked_anew() -> None:
    encoder = AnthropicEncoder(Catalog())
    encode(request(user("m0", "x"), assistant("m1", "y"), user("m2", "z")), encoder)
    assert marks(encode(request(user("n0", "summary")), encoder)) == [(0, 0)]


def test_there_are_never_more_than_four_markers() -> None:
    encoder = AnthropicEncoder(Catalog())
    history: list[Any] = [user("m0", "x")]
    for n in range(10):
        history += [assistant(f"a{n}", call(f"c{n}")), user(f"u{n}", result(f"c{n}"))]
        body = encoder.encode(request(*history, system=("a", "b"), tools=(READ, LS), tail="t"))[1]
        assert body.count(b'"cache_control"') == 4


# --- the envelope


def outgoing(endpoint: Endpoint, **options: Any) -> Any:
    return AnthropicProvider(endpoint, HttpClient(), Catalog()).prepare(request(user("m0", "x"), **options))


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("https://api.anthropic.com", "https://api.anthropic.com/v1/messages"),
        ("https://api.anthropic.com/", "https://api.anthropic.com/v1/messages"),
        ("http://proxy:8080/anthropic", "http://proxy:8080/anthropic/v1/messages"),
        ("http://proxy/v1", "http://proxy/v1/messages"),
    ],
)
def test_the_base_url_has_no_version_and_keeps_its_prefix(base: str, url: str) -> None:
    assert outgoing(Endpoint(base_url=base)).url == url


def test_headers() -> None:
    endpoint = Endpoint(
        base_url="http://x", key="k", betas=("a", "b"), user_agent="tugline/1", headers=(("x-team", "blue"),)
    )
    assert dict(outgoing(endpoint).headers) == {
        "content-type": "application/json",
        "accept": "text/event-stream",
        "anthropic-version": "2023-06-01",
        "user-agent": "tugline/1",
        "x-api-key": "k",
        "anthropic-beta": "a,b",
        "x-team": "blue",
    }
    bearer = dict(outgoing(Endpoint(base_url="http://x", key="k", auth="bearer", version="v9"), stream=False).headers)
    assert bearer["authorization"] == "Bearer k"
    assert bearer["anthropic-version"] == "v9"
    assert bearer["accept"] == "application/json"
    assert "x-api-key" not in dict(outgoing(Endpoint(base_url="http://x")).headers)
