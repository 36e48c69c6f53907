"""Keeps allow rules that a person said "always" to: in the project's local settings, which git ignores."""

import json
import os
from collections.abc import Sequence
from typing import Any

from tugline.protocol.errors import ConfigError

FILE = os.path.join(".tugline", "settings.local.json")


def save_rules(project_root: str, rules: Sequence[str]) -> str:
    """Add the rules to `permissions.allow` of the project's local settings; returns the file's path.

    What else stands in the file is kept. Raises `ConfigError` where it cannot be read or written.
    """
    path = os.path.join(project_root, FILE)
    settings = _read(path)
    permissions = settings.setdefault("permissions", {})
    allowed = permissions.setdefault("allow", []) if isinstance(permissions, dict) else None
    if not isinstance(allowed, list):
        raise ConfigError(f"{path}: permissions.allow is not a list; mend the file first.")
    new = [rule for rule in rules if rule not in allowed]
    if new:
        allowed.extend(new)
        _write(path, settings)
    return path


def _read(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            settings = json.load(file)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    if not isinstance(settings, dict):
        raise ConfigError(f"{path}: the settings are not an object; mend the file first.")
    return settings


def _write(path: str, settings: dict[str, Any]) -> None:
    folder = os.path.dirname(path)
    fresh = f"{path}.{os.getpid()}.new"
    if os.path.islink(folder) or os.path.islink(path):
        raise ConfigError(f"{path} is behind a link; nothing is saved through links.")
    try:
        os.makedirs(folder, exist_ok=True)
        ignore = os.path.join(folder, ".gitignore")
        if not os.path.lexists(ignore):
            with open(ignore, "x", encoding="utf-8") as file:
                file.write("settings.local.json\n.gitignore\n")
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            with os.fdopen(fd, "w", encoding="utf-8") as file:
                file.write(json.dumps(settings, indent=2, ensure_ascii=False) + "\n")
                file.flush()
                os.fsync(file.fileno())
            os.replace(fresh, path)
        except BaseException:
            os.unlink(fresh)
            raise
    except OSError as error:
        raise ConfigError(f"The rule cannot be saved in {path}: {error.strerror}") from error
