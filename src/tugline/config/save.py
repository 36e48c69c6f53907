"""Keeps what a person said "always" to: allow rules and the like, in a settings file."""

import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tugline.config.folders import make_private, write_privately
from tugline.config.sources import SIZE_LIMIT
from tugline.protocol.errors import ConfigError
from tugline.protocol.permissions import PermissionUpdate


def save(path: str, update: PermissionUpdate, *, ignored: bool = False) -> None:
    """Write the change into a settings file; what else stands in it is kept. `ignored`: git is told to ignore it.

    Raises `ConfigError` where the file cannot be read or written; it is then as it was.
    """
    with _held(path, ignored=ignored):
        settings = _read(path)
        before = json.dumps(settings)
        _change(path, settings, update)
        if json.dumps(settings) != before:
            _write(path, settings)


def _change(path: str, settings: dict[str, Any], update: PermissionUpdate) -> None:
    permissions = settings.setdefault("permissions", {})
    if not isinstance(permissions, dict):
        raise ConfigError(f"{path}: permissions is not an object; mend the file first.")
    match update.kind:
        case "addRules":
            _extend(_list(path, permissions, update.behavior), update.rules)
        case "replaceRules":
            _list(path, permissions, update.behavior)[:] = list(update.rules)
        case "removeRules":
            _remove(_list(path, permissions, update.behavior), update.rules)
        case "setMode":
            permissions["defaultMode"] = update.mode
        case "addDirectories":
            _extend(_list(path, permissions, "additionalDirectories"), update.directories)
        case "removeDirectories":
            _remove(_list(path, permissions, "additionalDirectories"), update.directories)


def _list(path: str, permissions: dict[str, Any], name: str) -> list[Any]:
    found = permissions.setdefault(name, [])
    if not isinstance(found, list):
        raise ConfigError(f"{path}: permissions.{name} is not a list; mend the file first.")
    return found


def _extend(found: list[Any], more: Sequence[str]) -> None:
    found.extend(entry for entry in dict.fromkeys(more) if entry not in found)


def _remove(found: list[Any], gone: Sequence[str]) -> None:
    found[:] = [entry for entry in found if entry not in gone]


def _read(path: str) -> dict[str, Any]:
    try:
        # a pipe in its place must not hold us up
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            settings = json.loads(file.read(SIZE_LIMIT) or b"")
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    if not isinstance(settings, dict):
        raise ConfigError(f"{path}: the settings are not an object; mend the file first.")
    return settings


@contextmanager
def _held(path: str, *, ignored: bool) -> Iterator[None]:
    """The folder is there, and nobody else changes a file in it. A lock goes with its process, and is short."""
    folder = os.path.dirname(path)
    if os.path.islink(folder) or os.path.islink(path):
        raise ConfigError(f"{path} is behind a link; nothing is saved through links.")
    try:
        if os.path.basename(folder) == ".tugline":
            os.makedirs(folder, exist_ok=True)
        else:
            make_private(folder)
        if ignored:
            _ignore(folder)
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise ConfigError(f"The rule cannot be saved in {path}: {error.strerror}") from error
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)


def _ignore(folder: str) -> None:
    path = os.path.join(folder, ".gitignore")
    if not os.path.lexists(path):
        with open(path, "x", encoding="utf-8") as file:
            file.write("settings.local.json\n.gitignore\n")


def _write(path: str, settings: dict[str, Any]) -> None:
    try:
        write_privately(
            path, (json.dumps(settings, indent=2, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace")
        )
    except OSError as error:
        raise ConfigError(f"The rule cannot be saved in {path}: {error.strerror}") from error
