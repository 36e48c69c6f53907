import json
from typing import Any

import pytest
from conversations import LS, PDF, PNG, READ, assistant, call, request, result, user

from tugline.net.client import HttpClient
from tugline.protocol.blocks import Opaque, Text, Thinking
from tugline.protocol.errors import ProviderError
from tugline.protocol.specs import ModelRequest
from tugline.providers.catalog import Catalog
from tugline.providers.endpoint import Endpoint
from tugline.providers.openai_chat import ChatEncoder, OpenAIChatProvider


def encode(wanted: ModelRequest, *, openai_itself: bool = False, catalog: Catalog | None = None) -> dict[str, Any]:
    body = json.loads(ChatEncoder(catalog or Catalog(), openai_itself=openai_itself).encode(wanted)[1])
    assert isinstance(body, dict)
    return body


def messages(wanted: ModelRequest) -> Any:
    return encode(wanted)["messages"]


def ask(*history: Any, model: str = "gpt-4o", **options: Any) -> ModelRequest:
    return request(*history, model=model, **options)


def test_a_whole_request() -> None:
    wanted = ask(
        user("m1", "read it"),
        assistant("m2", Thinking("hm", "sig"), "Sure.", call("c1", file_path="a"), Opaque("openai", {})),
        user("m3", result("c1", "words")),
        system=("You are tugline.", "Today is Friday."),
        tools=(READ,),
        session="s1",
        agent="a1",
        tail="Mind the time.",
    )
    assert encode(wanted) == {
        "model": "gpt-4o",
        "tools": [
            {
                "type": "function",
                "function": {"name": "Read", "description": READ.description, "parameters": READ.input_schema},
            }
        ],
        "messages": [
            {"role": "system", "content": "You are tugline.\n\nToday is Friday."},
            {"role": "user", "content": "read it"},
            {
                "role": "assistant",
                "content": "Sure.",
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "Read", "arguments": '{"file_path":"a"}'}}
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "words"},
            {"role": "user", "content": "Mind the time."},
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 16384,
    }


def test_neighbours_of_one_role_are_joined_and_results_come_first() -> None:
    wanted = ask(
        user("m1", "a"),
        user("m2", "b", "c"),
        assistant("m3", "x"),
        assistant("m4", call("c1"), call("c2")),
        user("m5", result("c1")),
        user("m6", "by the way"),
        user("m7", result("c2")),
    )
    made = messages(wanted)
    assert [message["role"] for message in made] == ["user", "assistant", "tool", "tool", "user"]
    assert made[0]["content"] == "a\n\nb\n\nc"
    assert made[1]["content"] == "x"
    assert [made_call["id"] for made_call in made[1]["tool_calls"]] == ["c1", "c2"]
    assert made[4]["content"] == "by the way"


def test_a_reply_that_only_calls_has_null_content_and_one_that_only_talks_no_calls() -> None:
    made = messages(ask(user("m0", "x"), assistant("m1", call("c1")), user("m2", result("c1")), assistant("m3", "y")))
    assert made[1]["content"] is None
    assert made[3] == {"role": "assistant", "content": "y"}


def test_nothing_empty_is_sent() -> None:
    wanted = ask(user("m1", ""), assistant("m2", " ", Thinking("x")), user("m3", "x"), system=("",))
    assert messages(wanted) == [{"role": "user", "content": "x"}]
    assert messages(ask()) == [{"role": "user", "content": "(nothing)"}]


def test_the_tail_joins_the_last_words_of_the_user() -> None:
    assert messages(ask(user("m1", "x"), tail="t")) == [{"role": "user", "content": "x\n\nt"}]
    assert messages(ask(user("m1", PNG), tail="t"))[0]["content"][-1] == {"type": "text", "text": "t"}
    assert messages(ask(user("m1", "x"), assistant("m2", "y"), tail="t"))[-1] == {"role": "user", "content": "t"}


def test_pictures_in_results_follow_as_words_of_the_user() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    wanted = ask(
        user("m0", "x"),
        assistant("m1", call("c1"), call("c2")),
        user("m2", result("c1", (Text("seen"), PNG)), result("c2", (PNG,))),
        user("m3", "letter"),
    )
    made = messages(wanted)
    assert made[2] == {"role": "tool", "tool_call_id": "c1", "content": "seen\n\n[1 attached below]"}
    assert made[3] == {"role": "tool", "tool_call_id": "c2", "content": "[1 attached below]"}
    assert made[4]["content"] == [
        {"type": "text", "text": "[attached to the result of c1]"},
        image,
        {"type": "text", "text": "[attached to the result of c2]"},
        image,
        {"type": "text", "text": "letter"},
    ]
    blind = Catalog({"gpt-4o": {"images": False, "documents": False}})
    notes = encode(wanted, catalog=blind)["messages"]
    assert notes[3]["content"] == "[image left out (image/png): this model cannot see images]"
    assert notes[4] == {"role": "user", "content": "letter"}


def test_documents() -> None:
    made = messages(ask(user("m0", PDF)))[0]["content"]
    file = {"filename": "a.pdf", "file_data": "data:application/pdf;base64,aGk="}
    assert made == [{"type": "file", "file": file}]
    assert "cannot read it" in messages(ask(user("m0", PDF), model="llama3.1"))[0]["content"]


def test_ids_fit_the_limit_and_malformed_input_is_empty() -> None:
    long = "x" * 60
    made = messages(ask(user("m0", "x"), assistant("m1", call(long, malformed="{")), user("m2", result(long))))
    sent = made[1]["tool_calls"][0]
    assert sent["function"]["arguments"] == "{}"
    assert sent["id"] == made[2]["tool_call_id"]
    assert len(sent["id"]) == 40


def test_quotes_and_half_characters_survive_the_joining() -> None:
    words = 'a "quote" \\ and\n\ud800'
    made = messages(ask(user("m0", words), user("m1", words)))
    clean = words.replace("\ud800", "\ufffd")
    assert made[0]["content"] == f"{clean}\n\n{clean}"


def test_openai_itself_gets_words_in_parts_and_its_own_fields() -> None:
    body = encode(ask(user("m0", "x"), session="s1", agent="a1", tail="t"), openai_itself=True)
    assert body == {
        "model": "gpt-4o",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "text", "text": "t"}]}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "prompt_cache_key": "s1:a1",
    }


def test_the_output_limit_has_two_names() -> None:
    assert encode(ask(user("m0", "x"), max_output_tokens=5), openai_itself=True)["max_completion_tokens"] == 5
    assert encode(ask(user("m0", "x"), model="llama3.1"))["max_tokens"] == 8192
    assert "max_tokens" not in encode(ask(user("m0", "x"), model="unknown"))
    assert encode(ask(user("m0", "x"), model="unknown", max_output_tokens=5))["max_tokens"] == 5


def test_effort_is_fitted_to_the_model() -> None:
    assert encode(ask(user("m0", "x"), model="gpt-5", effort="max"))["reasoning_effort"] == "high"
    assert encode(ask(user("m0", "x"), model="gpt-5-pro", effort="low"))["reasoning_effort"] == "high"
    assert "reasoning_effort" not in encode(ask(user("m0", "x"), model="gpt-4o", effort="max"))


def test_not_streamed() -> None:
    body = encode(ask(user("m0", "x"), stream=False))
    assert body["stream"] is False
    assert "stream_options" not in body


def test_a_model_without_tool_calls_is_refused() -> None:
    with pytest.raises(ProviderError, match="gemma3 cannot call tools natively"):
        encode(ask(user("m0", "x"), model="gemma3", tools=(LS,)))
    encode(ask(user("m0", "x"), model="smollm2", tools=(LS,)))


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        (Endpoint(base_url="https://api.openai.com/v1"), "https://api.openai.com/v1/chat/completions"),
        (Endpoint(base_url="http://localhost:11434/v1/"), "http://localhost:11434/v1/chat/completions"),
        (Endpoint(base_url="http://h/a/b?x=1"), "http://h/a/b/chat/completions?x=1"),
        (
            Endpoint(base_url="https://x.openai.azure.com/openai/v1", version="2025-01-01"),
            "https://x.openai.azure.com/openai/v1/chat/completions?api-version=2025-01-01",
        ),
    ],
)
def test_urls(endpoint: Endpoint, url: str) -> None:
    assert OpenAIChatProvider(endpoint, HttpClient(), Catalog()).prepare(ask(user("m0", "x"))).url == url


def test_headers_and_who_is_openai_itself() -> None:
    endpoint = Endpoint(base_url="https://api.openai.com/v1", key="k", headers=(("x-a", "b"),))
    headers = dict(OpenAIChatProvider(endpoint, HttpClient(), Catalog()).prepare(ask(user("m0", "x"))).headers)
    assert headers["authorization"] == "Bearer k"
    assert headers["x-a"] == "b"
    azure = Endpoint(base_url="https://x.openai.azure.com/v1", key="k", auth="api-key")
    headers = dict(OpenAIChatProvider(azure, HttpClient(), Catalog()).prepare(ask(user("m0", "x"))).headers)
    assert headers["api-key"] == "k"
    assert "authorization" not in headers
    assert endpoint.openai_itself
    assert azure.openai_itself
    for base in ("http://localhost/v1", "https://api.openai.com.evil.example/v1", "http://[bad", ""):
        assert not Endpoint(base_url=base).openai_itself


def test_the_decoder_knows_the_ids_of_the_conversation() -> None:
    provider = OpenAIChatProvider(Endpoint(base_url="http://h/v1"), HttpClient(), Catalog())
    outgoing = provider.prepare(ask(user("m0", "x"), assistant("m1", call("c1")), user("m2", result("c1"))))
    event = {"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "Read"}}]}}]}
    started = outgoing.decoder.feed("message", json.dumps(event).encode())[-1]
    assert getattr(started, "call", "c1") != "c1"
