"""Which parts of a project count: each is approved as it is, by its digest, and one that has changed is a new one."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Literal

from msgspec import Struct, structs, to_builtins

from tugline.protocol.trust import ItemKind, TrustItem
from tugline.rules.shown import visible

Grounds = Literal["nothing", "said so", "approved"]
"""Why a folder's parts count: they do not; a flag, a setting or a host says so for all of them; each by itself."""

FREE = frozenset(
    [
        ("permissions", "deny"),
        ("permissions", "ask"),
        ("sandbox", "denyRead"),
        ("sandbox", "denyWrite"),
        ("sandbox", "network", "deniedDomains"),
    ]
)
"""Settings that count in any folder: they only forbid."""
HARMLESS = frozenset(
    ["background", "compaction", "context", "effort", "limits", "network", "sessions", "theme", "tools"]
)
"""Settings that start nothing, reach nothing and allow nothing: in a trusted folder they need no approval of their
own. A setting that is not named here does."""
FOREIGN_POWERS = frozenset(
    [
        "allowedMcpServers",
        "apiKeyHelper",
        "autoMemoryDirectory",
        "awsAuthRefresh",
        "awsCredentialExport",
        "defaultShell",
        "enableAllProjectMcpServers",
        "enabledMcpjsonServers",
        "enabledPlugins",
        "extraKnownMarketplaces",
        "fileSuggestion",
        "mcpServers",
        "otelHeadersHelper",
        "outputStyle",
        "plansDirectory",
        "sandbox",
        "skipDangerousModePermissionPrompt",
        "statusLine",
        "worktree",
    ]
)
"""Settings of other tools, or of later versions, that run something, let something run or say where things go."""

Path = tuple[str, ...]


class Approval(Struct, frozen=True, omit_defaults=True):
    """What a person approved. `text` is left out where it is long."""

    kind: str
    source: str
    name: str
    sha256: str
    text: str = ""


class Trust(Struct, frozen=True):
    """What of a project counts."""

    grounds: Grounds = "nothing"
    approved: Mapping[tuple[str, str, str], Approval] = {}

    @property
    def folder(self) -> bool:
        """Whether the folder is trusted at all."""
        return self.grounds != "nothing"

    def allows(self, item: TrustItem) -> bool:
        """Whether this part counts, as it is."""
        if self.grounds == "approved":
            known = self.approved.get(key(item))
            return known is not None and known.sha256 == digest(item)
        return self.folder


def approvals(items: Iterable[Approval]) -> dict[tuple[str, str, str], Approval]:
    """By what they are."""
    return {(one.kind, one.source, one.name): one for one in items}


def key(item: TrustItem) -> tuple[str, str, str]:
    """What makes two items versions of one."""
    return item.kind, item.source, item.name


def digest(item: TrustItem) -> str:
    """Of all that it is."""
    whole = json.dumps([item.kind, item.source, item.name, item.text])
    return sha256(whole.encode()).hexdigest()


TEXT_LIMIT = 20_000
"""Characters of an approved item that are kept to show what has changed."""


def approve(item: TrustItem) -> Approval:
    """The approval of an item as it is."""
    return Approval(*key(item), digest(item), item.text if len(item.text) <= TEXT_LIMIT else "")


def compared(trust: Trust, items: Sequence[TrustItem]) -> tuple[TrustItem, ...]:
    """The items, each with what it is to what was approved, and behind them what is gone."""
    found: list[TrustItem] = []
    for item in items:
        known = trust.approved.get(key(item))
        if known is None:
            found.append(structs.replace(item, change="new"))
        elif known.sha256 == digest(item):
            found.append(structs.replace(item, change="approved"))
        else:
            found.append(structs.replace(item, change="changed", before=known.text))
    here = {key(item) for item in items}
    for known in trust.approved.values():
        if (known.kind, known.source, known.name) not in here:
            found.append(TrustItem(known.kind, known.source, known.name, "", "gone", known.text))  # type: ignore[arg-type]  # what a store holds was such a kind
    return tuple(found)


# -- the items in settings ---------------------------------------------------------------------------


def make_item(kind: ItemKind, source: str, name: str, text: str) -> TrustItem:
    """An item whose words can be kept and sent: names of files and JSON may hold what is no text."""
    source, name, text = (part.encode("utf-8", "backslashreplace").decode() for part in (source, name, text))
    return TrustItem(kind, source, name, text)


def setting_item(source: str, name: str, value: Any) -> TrustItem:
    """A setting, or one entry of one."""
    return make_item("setting", source, name, value if isinstance(value, str) else as_json(to_builtins(value)))


def as_json(value: Any) -> str:
    """A value as text that is the same whatever the order of its keys."""
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)


def setting_items(source: str, path: Path, value: Any) -> Iterator[tuple[Any, TrustItem]]:
    """What of a setting needs an approval: each entry of a list or a map by itself, with the entry or its key."""
    if path in FREE or path[0] in HARMLESS:
        return
    dotted = ".".join(path)
    if isinstance(value, tuple | list):
        for entry in value:
            yield entry, setting_item(source, f"{dotted} {as_line(entry)}", entry)
    elif isinstance(value, Mapping):
        for name, entry in value.items():
            yield name, setting_item(source, f"{dotted}.{name}", entry)
    else:
        yield None, setting_item(source, dotted, value)


def foreign_items(source: str, data: Mapping[str, Any], own: Iterable[str]) -> Iterator[TrustItem]:
    """The settings that are not read as ours and could run something all the same, or will."""
    known = frozenset(own)
    for name, value in data.items():
        if name in FOREIGN_POWERS and name not in known:
            for _, item in setting_items(source, (name,), value):
                yield item


def as_line(value: Any) -> str:
    """A value in a line."""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)


# -- as people see it --------------------------------------------------------------------------------


def described(item: TrustItem) -> list[str]:
    """An item for a person, whole: its label, then what it says, or how that differs from what was approved."""
    mark = {"new": "+", "changed": "~", "approved": " ", "gone": "-"}[item.change]
    return [f"{mark} {visible(item.label)}", *(f"    {visible(line)}" for line in _body(item))]


def _body(item: TrustItem) -> list[str]:
    if item.change in ("approved", "gone") or item.name.endswith(item.text):
        return []
    text = item.text.split("\n")
    if item.change == "changed" and item.before:
        from difflib import unified_diff  # noqa: PLC0415  imported here: start-up cost

        return list(unified_diff(item.before.split("\n"), text, "approved", "now", lineterm="", n=2))[2:]
    return text
