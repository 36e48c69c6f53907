"""What a refusal means: statuses, error bodies and errors in a stream, as one `Failure`."""

import re
import time
from typing import Any, Protocol

from tugline.net.errors import HttpError
from tugline.protocol.codec import DecodeError, decode_json
from tugline.protocol.errors import Failure, FailureKind, ProviderError

DETAIL_LIMIT = 300
_RETRYABLE: frozenset[FailureKind] = frozenset(
    {"overloaded", "rate_limit", "server", "network", "stream_broken", "timeout"}
)

_TOO_LONG = re.compile(
    r"prompt is too long|prompt too long|exceeds? (the )?(model'?s )?(maximum )?(available )?context"
    r"|exceed_context_size|context[_ ]length[_ ]exceeded|maximum context length"
    r"|context (size|length|window) (has been )?exceeded"
    r"|exceeds? the context window|longer than the maximum model length|too long to fit into the model"
    r"|greater than the context length|input is too (large|long)|input token count .{0,40}exceeds"
    r"|exceed context limit|too large for model with|context the overflows|larger than the .{0,20}context"
    r"|reduce the length of the (messages|prompt|input)|request_too_large",
    re.IGNORECASE,
)
_SPENT = re.compile(
    r"credit balance|insufficient[_ ](quota|funds|balance|credits?)|exceeded your current quota|billing"
    r"|spend(ing)?[ _]limit|usage limit|payment required|out of credits",
    re.IGNORECASE,
)
_NO_MODEL = re.compile(
    r"model_not_found|model[^.]{0,80}(not found|does not exist|not exist|not available|is not supported|unknown)"
    r"|invalid model|unknown model|no such model|no access to model|access to model|^model: ",
    re.IGNORECASE,
)
_NO_TOOLS = re.compile(
    r"does not support (tools|tool|function)|(tool|function)[ -](use|call(s|ing)?) (is |are )?not supported"
    r"|no endpoints found that support tool",
    re.IGNORECASE,
)

_WORDS: dict[str, FailureKind] = {
    "authentication_error": "authentication",
    "permission_error": "authentication",
    "permission_denied": "authentication",
    "invalid_api_key": "authentication",
    "billing_error": "billing",
    "insufficient_quota": "billing",
    "billing_hard_limit_reached": "billing",
    "model_not_found": "invalid_model",
    "context_length_exceeded": "prompt_too_long",
    "exceed_context_size_error": "prompt_too_long",
    "request_too_large": "prompt_too_long",
    "overloaded_error": "overloaded",
    "overloaded": "overloaded",
    "server_is_overloaded": "overloaded",
    "slow_down": "overloaded",
    "unavailable_error": "overloaded",
    "rate_limit_error": "rate_limit",
    "rate_limit_exceeded": "rate_limit",
    "timeout_error": "timeout",
    "api_error": "server",
    "server_error": "server",
    "internal_error": "server",
    "internal_server_error": "server",
    "invalid_request_error": "invalid_request",
    "invalid_prompt": "invalid_request",
    "content_filter": "refusal",
    "content_policy_violation": "refusal",
    "image_content_policy_violation": "refusal",
}

_LEADS: dict[FailureKind, str] = {
    "authentication": "the key was not accepted",
    "billing": "the account cannot be charged, or its limit is used up",
    "invalid_model": "the model is not known there, or not open to this key",
    "invalid_request": "the request was refused",
    "prompt_too_long": "the conversation is too long for the model",
    "overloaded": "the provider is overloaded",
    "rate_limit": "too many requests",
    "server": "the provider failed",
    "network": "the provider cannot be reached",
    "stream_broken": "the reply broke off",
    "timeout": "the provider took too long",
    "refusal": "the provider refused the content",
    "unexpected_reply": "the answer is not one of this protocol",
}


class HeaderSource(Protocol):
    """Anything that gives a header's value by its name, or an empty string."""

    def get(self, name: str, default: str = "", /) -> str: ...


def one_line(text: str, limit: int = DETAIL_LIMIT) -> str:
    """The text on one line, without control characters, cut to `limit` characters."""
    # Only a prefix can survive the cut, so a huge error page is not walked as a whole.
    clean = "".join(c if c.isprintable() else " " for c in text[: limit * 8])
    clean = " ".join(clean.split())
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"


def broken(message: str) -> ProviderError:
    """A stream that does not keep to its protocol, or ended early."""
    return ProviderError(Failure("stream_broken", f"the reply broke off: {one_line(message)}", retryable=True))


def failure_of_error(words: tuple[str, ...], detail: str, *, status: int | None = None, provider: str = "") -> Failure:
    """A failure from what an error object says: its type and code, and its text."""
    kind = _kind(status, tuple(w for w in words if w), detail)
    return _build(kind, detail, status=status, provider=provider)


def failure_of_status(status: int, headers: HeaderSource, body: bytes, *, provider: str = "") -> Failure:
    """A failure from an answer that is not a success."""
    words, detail = _read_error(body)
    failure = failure_of_error(words, detail, status=status, provider=provider)
    retryable = {"true": True, "false": False}.get(headers.get("x-should-retry").strip().lower(), failure.retryable)
    return Failure(
        kind=failure.kind,
        message=failure.message,
        status=status,
        retry_after=retry_after(headers),
        retryable=retryable,
    )


def failure_of_http(error: HttpError, *, began: bool, provider: str = "") -> Failure:
    """A failure below HTTP. `began`: the answer's head had arrived."""
    kind: FailureKind
    if error.kind == "timeout":
        kind = "timeout"
    elif error.kind in ("too_large", "redirect"):
        kind = "unexpected_reply"
    elif error.kind == "invalid":
        lead = f"{provider}: " if provider else ""
        hint = "; check the base URL" if str(error).startswith("the URL") else ""
        return Failure("invalid_request", f"{lead}the request cannot be sent: {one_line(str(error))}{hint}")
    else:
        kind = "stream_broken" if began else "network"
    failure = _build(kind, str(error), provider=provider)
    if error.kind == "tls" and "certificate" in str(error).lower():
        # A certificate that is not trusted now will not be trusted in a second either.
        return Failure(kind=failure.kind, message=failure.message)
    return failure


def error_of(value: Any) -> tuple[tuple[str, ...], str]:
    """Type and code, and the text, of an error object in any of the shapes that servers use."""
    if isinstance(value, dict):
        inner = value.get("error")
        if isinstance(inner, dict | str) and inner:
            words, text = error_of(inner)
            return words, text or _text_of(value)
        words = tuple(str(value[key]) for key in ("type", "code", "status") if isinstance(value.get(key), str | int))
        return words, _text_of(value)
    return (), value if isinstance(value, str) else ""


def failure_in_reply(value: Any, provider: str) -> ProviderError:
    """An error that stands where a reply should be, in a stream or in an answer that calls itself a success."""
    words, detail = error_of(value)
    code = next((int(word) for word in words if re.fullmatch("[45][0-9][0-9]", word)), None)
    return ProviderError(failure_of_error(words, detail, status=code, provider=provider))


def retry_after(headers: HeaderSource) -> float | None:
    """Seconds that the server asks to wait, from `retry-after-ms` or `retry-after` (seconds or a date)."""
    for name, factor in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        text = headers.get(name).strip()
        if not text:
            continue
        try:
            value = float(text) * factor
        except ValueError:
            if name == "retry-after-ms":
                continue
            return _until(text, headers.get("date").strip())
        if 0 <= value < float("inf"):
            return value
        return 0.0 if value < 0 else None
    return None


def _until(date: str, now: str) -> float | None:
    from email.utils import parsedate_to_datetime  # noqa: PLC0415  imported here: start-up cost

    try:
        moment = parsedate_to_datetime(date).timestamp()
    except (ValueError, OverflowError, TypeError):
        return None
    try:
        # The server's own clock, where it tells it: ours may be wrong.
        present = parsedate_to_datetime(now).timestamp() if now else time.time()
    except (ValueError, OverflowError, TypeError):
        present = time.time()
    return max(0.0, moment - present)


def _text_of(value: dict[str, Any]) -> str:
    for key in ("message", "detail", "error_description", "msg", "title"):
        text = value.get(key)
        if isinstance(text, str) and text:
            return text
        if isinstance(text, list) and text:
            return "; ".join(_text_of(item) if isinstance(item, dict) else str(item) for item in text[:5])
    return ""


def _read_error(body: bytes) -> tuple[tuple[str, ...], str]:
    try:
        value = decode_json(body)
    except (DecodeError, UnicodeDecodeError, RecursionError):
        text = body[: DETAIL_LIMIT * 16].decode("utf-8", "replace")
        if "<" in text:
            title = re.search(r"<title[^>]*>([^<]*)", text, re.IGNORECASE)
            text = title[1] if title else re.sub(r"<[^>]*>", " ", text)
        return (), text
    if isinstance(value, list) and value:
        value = value[0]
    words, text = error_of(value)
    return words, text or body[:DETAIL_LIMIT].decode("utf-8", "replace")


def _kind(status: int | None, words: tuple[str, ...], detail: str) -> FailureKind:
    text = detail[:4000]
    refused = status is None or 400 <= status < 500 or status == 500
    if status == 413 or (refused and status not in (401, 403, 429) and _TOO_LONG.search(text)):
        return "prompt_too_long"
    if status == 402 or (refused and _SPENT.search(text) and status != 500):
        return "billing"
    if status in (400, 403, 404, None) and _NO_MODEL.search(text):
        return "invalid_model"
    named = [_WORDS[word] for word in words if word in _WORDS]
    # The code says more than the type: OpenAI's type of a wrong key is invalid_request_error.
    exact = next((kind for kind in named if kind not in ("invalid_request", "server")), None)
    if exact is not None:
        return exact
    return _kind_of_status(status) or (named[0] if named else "server" if status is None else "invalid_request")


def _kind_of_status(status: int | None) -> FailureKind | None:
    if status is None:
        return None
    if status in (401, 403):
        return "authentication"
    if status == 408:
        return "timeout"
    if status == 429:
        return "rate_limit"
    if status in (503, 529):
        return "overloaded"
    if status >= 500 or status == 409:
        return "server"
    if status < 400:
        return "unexpected_reply"
    return "invalid_request"


def _build(kind: FailureKind, detail: str, *, status: int | None = None, provider: str = "") -> Failure:
    lead = _LEADS[kind]
    if kind == "invalid_request" and _NO_TOOLS.search(detail[:4000]):
        lead = "the model cannot call tools; choose one that can"
    elif status == 404 and kind == "invalid_request":
        lead = "nothing is served at this address; check the base URL"
    name = f"{provider}: " if provider else ""
    code = f" (HTTP {status})" if status is not None else ""
    rest = one_line(detail)
    return Failure(
        kind=kind,
        message=f"{name}{lead}{code}" + (f": {rest}" if rest else ""),
        status=status,
        retryable=kind in _RETRYABLE,
    )
