"""The settings of a session with given options."""

import os
from collections.abc import Mapping
from typing import Any

from tugline.config.load import Config, load
from tugline.options import Options
from tugline.protocol.codec import encode
from tugline.protocol.errors import UsageError


def load_config(options: Options) -> Config:
    """The settings of a session with these options."""
    environ = os.environ if options.environ is None else options.environ
    settings = options.settings
    trusted = options.trust if isinstance(options.trust, bool) else None
    if trusted is None and "project" in (options.setting_sources or ()):
        trusted = True  # a host that names the project's settings has said so
    if isinstance(settings, Mapping):
        try:
            settings = encode(dict(settings)).decode()
        except (TypeError, ValueError, RecursionError) as error:
            raise UsageError(f"settings must be what JSON can say: {error}.") from None
    return load(
        cwd=real_folder(options.cwd or os.getcwd()),
        environ=environ,
        trusted=trusted,
        flags=_flags(options),
        settings=settings,
        sources=options.setting_sources,
    )


def _flags(options: Options) -> dict[str, Any]:
    """The options that are settings, by the settings' names."""
    given = {
        "model": options.model,
        "fallbackModel": options.fallback_model,
        "effort": options.effort,
        "permissions.defaultMode": options.permission_mode,
        "permissions.allow": list(options.allowed_tools),
        "permissions.deny": list(options.disallowed_tools),
        "permissions.additionalDirectories": list(options.add_dirs),
        "limits.maxTurns": options.max_turns,
        "limits.maxBudgetUsd": options.max_budget_usd,
        "limits.thinkingTokens": options.thinking_tokens,
    }
    return {name: value for name, value in given.items() if value not in (None, [])}


def real_folder(path: str) -> str:
    """The folder itself, behind all links."""
    real = os.path.realpath(os.path.expanduser(path))
    shown = os.fsencode(real).decode("utf-8", "replace")
    if not os.path.isdir(real):
        raise UsageError(f"{path} is not a folder.")
    if os.fsencode(shown) != os.fsencode(real):
        # neither a transcript nor a model could name a file in it
        raise UsageError(f"The path {shown} is not UTF-8 text. Rename the folder, or work in another one.")
    return real
