"""Failures, sorted by who reads them: the model (`ToolError`), the user (`TuglineError`: one or two lines that say
what to do), the developer (anything else: a traceback)."""

from typing import Literal

from msgspec import Struct

FailureKind = Literal[
    "authentication",
    "billing",
    "invalid_model",
    "invalid_request",
    "prompt_too_long",
    "overloaded",
    "rate_limit",
    "server",
    "network",
    "stream_broken",
    "timeout",
    "refusal",
    "unexpected_reply",
]


class Failure(Struct, frozen=True, omit_defaults=True):
    """Why a request to a model failed. `retry_after` is in seconds; `retryable` says whether trying again can help."""

    kind: FailureKind
    message: str
    status: int | None = None
    retry_after: float | None = None
    retryable: bool = False


class TuglineError(Exception):
    """Something the user can do something about. Its text is one or two lines that say what."""


class UsageError(TuglineError):
    """A wrong flag, argument or parameter."""


class ConfigError(TuglineError):
    """A setting, script or definition that cannot be used; names file and place."""


class SessionError(TuglineError):
    """A session that cannot be opened, written or driven in the way asked for."""


class ProviderError(TuglineError):
    """A request to a model failed for good, or failed in a way that a wrapper may try again."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class ToolError(Exception):
    """Raised by a tool: becomes an error result with this text, without a traceback."""
