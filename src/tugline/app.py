"""The composition root: the one file that names concrete classes."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from msgspec import Struct

from tugline.ports import Provider, Tool
from tugline.protocol.specs import Effort, Mode
from tugline.runtime.session import Session


class Options(Struct, frozen=True, kw_only=True):
    """What a session is made of, where it differs from the settings. `None` means: as the settings say.

    `tools` are further tools of the caller's; `builtin_tools` chooses among the built-in ones (`None`: all).
    `settings` is a settings file's path, or settings themselves. `setting_sources` names which settings files count
    (`user`, `project`, `local`; `None`: all that the folder's trust allows). `record` is a file that the session's
    replies are saved to as a script. `environ` stands in for the process's environment.
    """

    model: str | None = None
    fallback_model: str | None = None
    provider: Provider | None = None
    base_url: str | None = None
    api_key: str | None = None
    cwd: str | None = None
    add_dirs: tuple[str, ...] = ()
    tools: tuple[Tool, ...] = ()
    builtin_tools: tuple[str, ...] | None = None
    allowed_tools: tuple[str, ...] = ()
    disallowed_tools: tuple[str, ...] = ()
    permission_mode: Mode | None = None
    system_prompt: str | None = None
    append_system_prompt: str | None = None
    max_turns: int | None = None
    max_budget_usd: float | None = None
    effort: Effort | None = None
    thinking_tokens: int | None = None
    settings: str | Mapping[str, Any] | None = None
    setting_sources: tuple[str, ...] | None = None
    trust: bool = False
    attended: bool = False
    session_id: str | None = None
    record: str | None = None
    debug: bool = False
    environ: Mapping[str, str] | None = None


@asynccontextmanager
async def open_session(options: Options) -> AsyncIterator[Session]:
    """A running session; leaving it ends what runs and closes everything. Raises `TuglineError` for what the user can
    mend."""
    raise NotImplementedError
    yield
