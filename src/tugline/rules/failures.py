"""Failures of a model's service in the words that programs around us know."""

from tugline.protocol.errors import Failure

_WORDS = {
    "authentication": "authentication_failed",
    "billing": "billing_error",
    "rate_limit": "rate_limit",
    "overloaded": "rate_limit",
    "invalid_model": "invalid_request",
    "invalid_request": "invalid_request",
    "prompt_too_long": "invalid_request",
    "server": "server_error",
}


def error_word(failure: Failure | None) -> str:
    """The word for a failure."""
    return _WORDS.get(failure.kind, "unknown") if failure is not None else "unknown"
