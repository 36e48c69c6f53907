import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tugline.net.client import Headers
from tugline.net.errors import HttpError, HttpErrorKind
from tugline.protocol.errors import Failure
from tugline.providers.endpoint import Endpoint
from tugline.providers.failure import failure_of_http, failure_of_status, one_line, retry_after

PLAIN = Headers(())


def failure(status: int, body: Any = b"", **headers: str) -> Failure:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    items = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    made = failure_of_status(status, Headers(items), data, provider="p")
    assert "\n" not in made.message
    assert len(made.message) < 600
    return made


def anthropic(kind: str, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}}


def openai(message: str, kind: str | None = None, code: Any = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


CASES: list[tuple[int, Any, str, bool]] = [
    # Anthropic
    (401, anthropic("authentication_error", "invalid x-api-key"), "authentication", False),
    (403, anthropic("permission_error", "Your API key does not have permission"), "authentication", False),
    (402, anthropic("billing_error", "billing"), "billing", False),
    (400, anthropic("invalid_request_error", "Your credit balance is too low to access the API"), "billing", False),
    (404, anthropic("not_found_error", "model: claude-nope"), "invalid_model", False),
    (
        400,
        anthropic("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
        "prompt_too_long",
        False,
    ),
    (
        400,
        anthropic(
            "invalid_request_error", "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"
        ),
        "prompt_too_long",
        False,
    ),
    (413, anthropic("request_too_large", "Request exceeds the maximum size"), "prompt_too_long", False),
    (400, anthropic("invalid_request_error", "messages.1: tool_use ids were found without"), "invalid_request", False),
    (
        429,
        anthropic("rate_limit_error", "This request would exceed your organization's rate limit"),
        "rate_limit",
        True,
    ),
    (
        429,
        anthropic("rate_limit_error", "You have reached your specified API usage limits: usage limit"),
        "billing",
        False,
    ),
    (529, anthropic("overloaded_error", "Overloaded"), "overloaded", True),
    (500, anthropic("api_error", "Internal server error"), "server", True),
    # OpenAI
    (401, openai("Incorrect API key provided", "invalid_request_error", "invalid_api_key"), "authentication", False),
    (
        404,
        openai("The model `gpt-9` does not exist", "invalid_request_error", "model_not_found"),
        "invalid_model",
        False,
    ),
    (403, openai("Project does not have access to model gpt-4", None, "model_not_found"), "invalid_model", False),
    (
        400,
        openai("Your input exceeds the context window of this model", None, "context_length_exceeded"),
        "prompt_too_long",
        False,
    ),
    (429, openai("You exceeded your current quota", "insufficient_quota", "insufficient_quota"), "billing", False),
    (429, openai("Rate limit reached for gpt-4o", "tokens", "rate_limit_exceeded"), "rate_limit", True),
    (503, openai("The server is overloaded", "server_error"), "overloaded", True),
    (400, openai("Invalid schema for function", "invalid_request_error"), "invalid_request", False),
    (400, openai("flagged", "invalid_request_error", "content_policy_violation"), "refusal", False),
    # llama.cpp, vLLM, Ollama and others
    (
        400,
        openai("the request exceeds the available context size, try increasing it", "exceed_context_size_error", 400),
        "prompt_too_long",
        False,
    ),
    (500, openai("input is too large to process", "server_error", 500), "prompt_too_long", False),
    (503, openai("Loading model", "unavailable_error", 503), "overloaded", True),
    (
        400,
        {
            "object": "error",
            "message": "This model's maximum context length is 4096 tokens. However, you requested 5000",
        },
        "prompt_too_long",
        False,
    ),
    (400, openai("The prompt (total length 9) is too long to fit into the model"), "prompt_too_long", False),
    (404, openai("model 'x' not found, try pulling it first", "api_error"), "invalid_model", False),
    (404, {"object": "error", "message": "The model `x` does not exist."}, "invalid_model", False),
    (400, openai("registry.ollama.ai/library/x does not support tools"), "invalid_request", False),
    (402, openai("Insufficient credits", code=402), "billing", False),
    # anything
    (404, b"404 page not found", "invalid_request", False),
    (404, {"detail": "Not Found"}, "invalid_request", False),
    (422, {"detail": [{"loc": ["body"], "msg": "field required"}]}, "invalid_request", False),
    (408, b"", "timeout", True),
    (409, b"", "server", True),
    (502, b"<html><head><title>502 Bad Gateway</title></head></html>", "server", True),
    (504, b"\xff\xfe", "server", True),
    (418, b"null", "invalid_request", False),
    (302, b"", "unexpected_reply", False),
    (400, b"[]", "invalid_request", False),
    (500, [anthropic("api_error", "in a list")], "server", True),
]


@pytest.mark.parametrize(("status", "body", "kind", "retryable"), CASES)
def test_what_a_refusal_means(status: int, body: Any, kind: str, retryable: bool) -> None:
    made = failure(status, body)
    assert (made.kind, made.retryable, made.status) == (kind, retryable, status)


def test_the_message_says_who_what_and_why() -> None:
    assert failure(401, anthropic("authentication_error", "invalid x-api-key")).message == (
        "p: the key was not accepted (HTTP 401): invalid x-api-key"
    )
    assert "check the base URL" in failure(404, b"404 page not found").message
    assert "cannot call tools" in failure(400, openai("x does not support tools")).message
    assert (
        failure(502, b"<title>502 Bad\n Gateway</title>").message
        == "p: the provider failed (HTTP 502): 502 Bad Gateway"
    )
    assert failure(500).message == "p: the provider failed (HTTP 500)"
    assert "field required" in failure(422, {"detail": [{"msg": "field required"}]}).message


def test_a_huge_or_hostile_error_page_becomes_one_short_line() -> None:
    for body in (b"x" * 1_000_000, b"a\r\nb\x1b[31m\x00" * 10_000, b"[" * 100_000, b'{"error":' * 5000):
        message = failure(500, body).message
        assert message.isprintable()


@given(st.integers(100, 599), st.binary(max_size=200) | st.text(max_size=100).map(lambda t: json.dumps(t).encode()))
def test_any_status_with_any_body_is_a_failure(status: int, body: bytes) -> None:
    assert failure(status, body).message.isprintable()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["error", "type", "code", "message", "detail"]), inner, max_size=3)
    ),
)


@given(st.integers(400, 599), json_values)
def test_any_json_in_an_error_body_is_survived(status: int, body: Any) -> None:
    assert failure(status, body).status == status


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry_after": "7"}, 7.0),
        ({"retry_after": " 1.5 "}, 1.5),
        ({"retry_after_ms": "250", "retry_after": "7"}, 0.25),
        ({"retry_after_ms": "soon", "retry_after": "7"}, 7.0),
        ({"retry_after": "-3"}, 0.0),
        ({"retry_after": "inf"}, None),
        ({"retry_after": "nan"}, None),
        ({"retry_after": "soon"}, None),
        ({"retry_after": "Fri, 31 Jan 2025 10:00:30 GMT", "date": "Fri, 31 Jan 2025 10:00:00 GMT"}, 30.0),
        ({"retry_after": "Fri, 31 Jan 2025 10:00:00 GMT", "date": "Fri, 31 Jan 2025 10:00:30 GMT"}, 0.0),
        ({"retry_after": "Fri, 31 Jan 2025 10:00:00 GMT"}, 0.0),
        ({"retry_after": "Fri, 31 Jan 2025 10:00:00 GMT", "date": "yesterday"}, 0.0),
        ({"retry_after": "Fri, 31 Jan 99999 10:00:00 GMT"}, None),
    ],
)
def test_how_long_the_server_asks_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    items = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    assert retry_after(Headers(items)) == seconds
    assert failure(429, **headers).retry_after == seconds


def test_the_server_has_the_last_word_on_retrying() -> None:
    assert failure(529, x_should_retry="false").retryable is False
    assert failure(400, x_should_retry="true").retryable is True
    assert failure(529, x_should_retry="perhaps").retryable is True


@pytest.mark.parametrize(
    ("kind", "began", "expected", "retryable"),
    [
        ("connect", False, "network", True),
        ("dns", False, "network", True),
        ("proxy", False, "network", True),
        ("tls", False, "network", True),
        ("timeout", False, "timeout", True),
        ("timeout", True, "timeout", True),
        ("cut", False, "network", True),
        ("cut", True, "stream_broken", True),
        ("protocol", True, "stream_broken", True),
        ("too_large", True, "unexpected_reply", False),
        ("redirect", False, "unexpected_reply", False),
        ("invalid", False, "invalid_request", False),
    ],
)
def test_failures_below_http(kind: HttpErrorKind, began: bool, expected: str, retryable: bool) -> None:
    made = failure_of_http(HttpError(kind, "what happened"), began=began, provider="p")
    assert (made.kind, made.retryable) == (expected, retryable)
    assert made.message.endswith(": what happened")


def test_a_certificate_that_is_not_trusted_is_not_tried_again() -> None:
    error = HttpError("tls", "h: certificate verify failed")
    assert failure_of_http(error, began=False).retryable is False


def test_what_cannot_be_sent_as_it_was_set_up_is_said_at_once() -> None:
    made = failure_of_http(HttpError("invalid", "the URL names no host"), began=False, provider="openai")
    assert made == Failure(
        "invalid_request", "openai: the request cannot be sent: the URL names no host; check the base URL"
    )


def test_one_line() -> None:
    assert one_line(" a\n\tb\x07c\u202ed ") == "a b c d"
    assert one_line("x" * 400) == "x" * 299 + "…"


def test_an_endpoint_never_shows_its_key() -> None:
    endpoint = Endpoint(
        base_url="http://me:secret-word@host:8080/v1", key="sk-key", headers=(("x-token", "long-value"), ("x-a", "b"))
    )
    assert repr(endpoint) == str(endpoint) == "Endpoint(host:8080, no name, with a key)"
    assert endpoint.redact("sk-key and long-value and b") == "*** and *** and b"
    assert Endpoint(base_url="http://[", key="").origin == "the given base URL"
