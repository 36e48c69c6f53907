"""`tugline trust`: which folders are trusted, and what of them counts."""

import os
import sys
import time
from collections.abc import Sequence

from msgspec import Struct

from tugline.app.config import load_config
from tugline.app.trust import Folder, survey_trust
from tugline.cli import streams
from tugline.cli.ansi import is_terminal
from tugline.cli.help import TRUST
from tugline.config.trust import TrustStore
from tugline.options import Options
from tugline.protocol.errors import ConfigError, UsageError
from tugline.protocol.trust import TrustAnswer, TrustItem
from tugline.rules.shown import visible
from tugline.rules.trust import described


class _Asked(Struct, frozen=True):
    path: str = "."
    yes: bool = False
    what: str = ""


def trust(words: Sequence[str]) -> int:
    """Show, approve, list or forget; the exit code."""
    if "--help" in words or "-h" in words:
        return streams.put(TRUST)
    asked = _read(words)
    match asked.what:
        case "--list":
            return _list()
        case "--remove":
            return _remove(asked.path)
    folder = survey_trust(Options(cwd=asked.path))
    if asked.what == "--diff":
        return streams.put(_differences(folder))
    return _approve(folder, yes=asked.yes)


def _read(words: Sequence[str]) -> _Asked:
    switches = [word for word in words if word.startswith("-")]
    paths = [word for word in words if not word.startswith("-")]
    for word in switches:
        if word not in ("--yes", "--list", "--remove", "--diff"):
            raise UsageError(f"`tugline trust` has no flag {visible(word)}; there are --yes, --list, --remove, --diff.")
    what = [word for word in switches if word != "--yes"]
    if len(what) > 1 or len(paths) > 1 or (what and len(switches) > 1):
        raise UsageError("`tugline trust` takes one folder, and one of --yes, --list, --remove, --diff.")
    if what == ["--list"] and paths:
        raise UsageError("`tugline trust --list` takes no folder: it lists all.")
    return _Asked(paths[0] if paths else ".", "--yes" in switches, what[0] if what else "")


def _list() -> int:
    folders, problem = _store().read()
    if problem:
        raise ConfigError(problem)
    if not folders:
        return streams.put("No folder is trusted.\n")
    lines = []
    for folder in sorted(folders.values(), key=lambda one: one.path):
        since = time.strftime("%Y-%m-%d", time.localtime(folder.since))
        count = f"{len(folder.items)} approved" if folder.items else "nothing approved"
        lines.append(f"{visible(folder.path)}  since {since}, {count}")
    return streams.put("\n".join(lines) + "\n")


def _remove(path: str) -> int:
    """Forget a folder; also one that is gone, or the project that it lies in."""
    real = os.path.realpath(os.path.expanduser(path))
    roots = [real]
    if os.path.isdir(real):
        roots.append(load_config(Options(cwd=real)).project_root)
    forgotten = [root for root in dict.fromkeys(roots) if _store().forget(root)]
    if forgotten:
        return streams.put(f"{visible(forgotten[-1])} is not trusted any more.\n")
    raise UsageError(f"{visible(real)} is not among the trusted folders. See: tugline trust --list")


def _store() -> TrustStore:
    return TrustStore(load_config(Options(trust=False, setting_sources=("user",))).folders.trust)


def _approve(folder: Folder, *, yes: bool) -> int:
    """Show what would count and ask; No unless somebody says yes."""
    config = folder.config
    for problem in config.problems:
        streams.say(f"tugline: {problem.level}: {visible(problem.text)}\n")
    root = visible(folder.root)
    if config.trust.grounds == "said so":
        return streams.put(f"{root} is trusted by a setting (trustedFolders): all in it counts.\n")
    if config.trusted and not folder.open:
        return streams.put(f"{root} is trusted, and nothing in it has changed since.\n")
    streams.put(_what_counts(folder))
    if not yes:
        if not (is_terminal(0) and is_terminal(1)):
            raise UsageError("Nobody is there to say yes. In a script: tugline trust --yes")
        if not _says_yes(f"Trust {root} with this? [y/N] "):
            streams.put("Nothing was changed.\n")
            return 1
    folder.settle(TrustAnswer(trusted=True))
    return streams.put(f"{root} is trusted with what is shown above. What changes later is asked about again.\n")


def _says_yes(question: str) -> bool:
    streams.put(question)
    try:
        return sys.stdin.readline().strip().lower() in ("y", "yes")
    except (OSError, ValueError):
        return False


def _what_counts(folder: Folder) -> str:
    shown = [item for item in folder.items if item.change != "approved"]
    if not shown:
        return (
            f"{visible(folder.root)} has nothing that could run code by itself today. What is added is asked about.\n"
        )
    count = "1 item" if len(shown) == 1 else f"{len(shown)} items"
    head = f"{visible(folder.root)} has {count} that count only once you approve them (+ new, ~ changed, - gone):"
    return "\n".join([head, *_items(shown)]) + "\n"


def _differences(folder: Folder) -> str:
    changed = [item for item in folder.items if item.change != "approved"]
    if not folder.config.trusted:
        return _what_counts(folder)
    if not changed:
        return f"Nothing in {visible(folder.root)} has changed since it was trusted.\n"
    return "\n".join(_items(changed)) + "\n"


def _items(items: Sequence[TrustItem]) -> list[str]:
    return [line for item in items for line in described(item)]
