"""What lies in a project's folders that could run code, apart from its settings: servers, agents, skills, commands,
tools, plugins. Looked at only to be approved; nothing here is run, and no link is followed out of the project."""

import json
import os
import stat
from collections.abc import Iterator

from tugline.protocol.trust import ItemKind, TrustItem
from tugline.rules.paths import inside
from tugline.rules.trust import as_json, make_item

FILE_LIMIT = 256_000
FILES = 2_000
"""How many are looked at; what is beyond is not approved, and so does not count."""

_TOPS = (".tugline", ".claude", ".agents")
_KINDS: tuple[tuple[str, ItemKind, str], ...] = (
    ("agents", "agent", ".md"),
    ("skills", "skill", "SKILL.md"),
    ("commands", "command", ".md"),
    ("tools", "tool", ".py"),
    ("plugins", "plugin", ".json"),
)
_FOLDERS = tuple((f"{top}/{name}", kind, ending) for top in _TOPS for name, kind, ending in _KINDS)
_POWERS = ("hooks:", "mcpservers:", "permissionmode:", "allowed-tools:", "tools:", "shell:")
"""Keys of a head that let something run."""


def project_parts(root: str) -> tuple[TrustItem, ...]:
    """All of them, in a fixed order."""
    return (*_servers(root), *_files(root))


def _servers(root: str) -> Iterator[TrustItem]:
    text = read_text(root, ".mcp.json")
    if text is None:
        return
    try:
        servers = json.loads(text)["mcpServers"]
        entries = sorted((str(name), as_json(entry)) for name, entry in servers.items())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        yield make_item("server", ".mcp.json", "", text)
        return
    for name, entry in entries:
        yield make_item("server", ".mcp.json", name, entry)


def _files(root: str) -> Iterator[TrustItem]:
    left = FILES
    for folder, kind, ending in _FOLDERS:
        for path in _below(os.path.join(root, folder), root):
            if not path.endswith(ending):
                continue
            left -= 1
            if left < 0:
                return
            source = os.path.relpath(path, root)
            text = read_text(root, source)
            if text is not None and (kind in ("tool", "plugin") or runs_something(text)):
                yield make_item(kind, source, "", text)


def _below(folder: str, root: str) -> Iterator[str]:
    if not inside(os.path.realpath(folder), root):
        return
    for at, folders, names in os.walk(folder):
        folders.sort()
        yield from (os.path.join(at, name) for name in sorted(names))


def runs_something(text: str) -> bool:
    """Whether the text of an agent, a skill or a command does more than talk: it injects the output of a command, or
    its head gives it tools, hooks or servers."""
    if "!`" in text or "```!" in text:
        return True
    if not text.startswith("---"):
        return False
    head = text[3:].split("\n---", 1)[0].lower()
    return any(line.lstrip().startswith(_POWERS) for line in head.split("\n"))


def read_text(root: str, source: str) -> str | None:
    """A regular file of the project; `None` where there is none, a link leads out, or it has more than 256 kB: what
    cannot be shown is not approved."""
    path = os.path.join(root, source)
    try:
        if not inside(os.path.realpath(path), root):
            return None
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                return None
            raw = file.read(FILE_LIMIT + 1)
    except (OSError, ValueError):
        return None
    if len(raw) > FILE_LIMIT:
        return None
    return raw.decode("utf-8", "replace")
