"""How a run ended: the exit code, and the `result` line. Pure."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from tugline.cli.headless.shapes import usage_shape
from tugline.protocol.errors import Failure
from tugline.protocol.events import EndReason, TurnFinished
from tugline.protocol.specs import ModelCard
from tugline.protocol.usage import Spend, Usage

EX_TEMPFAIL = 75
"""Failed, but worth trying again later."""

_WORTH_RETRYING = frozenset({"overloaded", "rate_limit", "server", "stream_broken", "timeout"})

_SUBTYPES: dict[EndReason, str] = {
    "completed": "success",
    "hook_stopped": "success",
    "api_error": "success",
    "refused": "success",
    "prompt_too_long": "success",
    "max_steps": "error_max_turns",
    "max_budget": "error_max_budget_usd",
}
_API_ENDINGS = ("api_error", "refused", "prompt_too_long")
_GOOD_ENDINGS = ("completed", "hook_stopped")
_TERMINAL_REASONS: dict[EndReason, str] = {"max_steps": "max_turns", "max_budget": "max_budget_usd"}

Cards = Callable[[str], ModelCard]


class Failed(Struct, frozen=True):
    """A run that ended without a turn's end: it could not begin, or something broke."""

    message: str
    failure: Failure | None = None
    terminal_reason: str = "failed"


def exit_code(finished: TurnFinished) -> int:
    """0 done, 1 failed, 75 failed but worth trying again."""
    if finished.reason in _GOOD_ENDINGS:
        return 0
    return EX_TEMPFAIL if finished.failure is not None and worth_retrying(finished.failure) else 1


def worth_retrying(failure: Failure) -> bool:
    """Whether the same run may well succeed later. Of a network that is not reached, the failure itself says it: a
    certificate that is not trusted will not be trusted later."""
    return failure.retryable or failure.kind in _WORTH_RETRYING


def is_good(finished: TurnFinished) -> bool:
    """Whether the turn ended as it should."""
    return finished.reason in _GOOD_ENDINGS


def is_api_error(finished: TurnFinished) -> bool:
    """Whether the model's service is why the turn ended."""
    return finished.reason in _API_ENDINGS


def error_text(finished: TurnFinished) -> str:
    """Why the turn did not simply complete."""
    said = finished.message or (finished.failure.message if finished.failure is not None else "")
    return said or f"The turn ended: {finished.reason}."


def result_of(finished: TurnFinished, session: str, uuid: str, cards: Cards) -> dict[str, Any]:
    """The result message of a turn."""
    good = is_good(finished)
    message: dict[str, Any] = {
        "type": "result",
        "subtype": _SUBTYPES.get(finished.reason, "error_during_execution"),
        "uuid": uuid,
        "session_id": session,
        "is_error": not good,
        "duration_ms": round(finished.duration * 1_000),
        "duration_api_ms": round(finished.api_duration * 1_000),
        "num_turns": finished.steps,
    }
    if good:
        message["result"] = finished.text
    elif is_api_error(finished):
        message["result"] = f"API Error: {error_text(finished)}"
    else:
        message["errors"] = [error_text(finished)]
    message["stop_reason"] = finished.stop or None
    message["total_cost_usd"] = finished.total_cost_usd
    message["usage"] = usage_shape(finished.spend.usage)
    message["modelUsage"] = {model: _model_usage(spend, cards(model)) for model, spend in finished.models.items()}
    message["permission_denials"] = list(finished.denials)
    message["terminal_reason"] = _terminal_reason(finished)
    if finished.failure is not None and finished.failure.status is not None and not good:
        message["api_error_status"] = finished.failure.status
    return message


def result_of_failure(failed: Failed, session: str, uuid: str) -> dict[str, Any]:
    """The result message of a run without a turn's end."""
    return {
        "type": "result",
        "subtype": "error_during_execution",
        "uuid": uuid,
        "session_id": session,
        "is_error": True,
        "duration_ms": 0,
        "duration_api_ms": 0,
        "num_turns": 0,
        "errors": [failed.message],
        "stop_reason": None,
        "total_cost_usd": 0.0,
        "usage": usage_shape(Usage()),
        "modelUsage": {},
        "permission_denials": [],
        "terminal_reason": failed.terminal_reason,
    }


def _terminal_reason(finished: TurnFinished) -> str:
    if finished.reason == "interrupted":
        return "aborted_tools" if finished.interrupted_during == "tools" else "aborted_streaming"
    return _TERMINAL_REASONS.get(finished.reason, finished.reason)


def _model_usage(spend: Spend, card: ModelCard) -> dict[str, Any]:
    return {
        "inputTokens": spend.usage.input,
        "outputTokens": spend.usage.output,
        "cacheReadInputTokens": spend.usage.cache_read,
        "cacheCreationInputTokens": spend.usage.cache_write,
        "webSearchRequests": 0,
        "costUSD": spend.cost_usd,
        "contextWindow": card.window,
        "maxOutputTokens": card.output_limit,
    }
