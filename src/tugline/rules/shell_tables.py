"""Tables of commands that only read, kept as text in `tables/`, which says what its fields mean.

A table is part of the program, as a module is: it comes through the module loader, once, and a table's entry is read
when a command of that name is judged. Nothing here looks at the user's disk.
"""

import os
import re
from functools import lru_cache
from typing import Literal

from msgspec import Struct

from tugline.rules.names import names

Operands = Literal["none", "text", "names", "content", "pattern"]
"""What the operands are: nothing allowed, plain text, paths looked at by name, paths read, a pattern and then paths."""


class Options(Struct, frozen=True):
    """The harmless options of one command."""

    operands: Operands
    source: str = ""
    flags: str = ""
    valued: str = ""
    attached: str = ""
    paths: str = ""
    long: frozenset[str] = frozenset()
    long_optional: frozenset[str] = frozenset()
    long_valued: frozenset[str] = frozenset()
    long_paths: frozenset[str] = frozenset()
    recursive: str = ""
    most: int = -1
    patterned: frozenset[str] = frozenset()
    obeys: tuple[str, ...] = ()
    here: bool = False
    numbers: bool = False
    dashes: bool = False
    follows: bool = False
    abbreviates: bool = True


_HEAD = re.compile(r"\[([^\]]+)\] ([a-z ]+)")
_FIELDS = {
    "source", "flags", "valued", "attached", "paths", "long", "long optional", "long valued", "long paths", "recursive",
    "most", "pattern by", "obeys",
}  # fmt: skip
_TRAITS = {"here", "numbers", "dashes", "follows", "unabbreviated"}


class TableError(ValueError):
    """A table that cannot be read: a mistake of ours, which a test finds."""


def _text(name: str) -> str:
    loader = __spec__.loader
    if loader is None:
        raise TableError(f"{name} cannot be loaded")
    path = os.path.join(os.path.dirname(__file__), "tables", name)
    data: bytes = loader.get_data(path)  # type: ignore[attr-defined]
    return data.decode("utf-8")


@lru_cache(maxsize=2)
def _blocks(file: str) -> dict[str, str]:
    """The entries of a file by the names of their commands, unread."""
    found: dict[str, str] = {}
    for block in re.split(r"\n{2,}", _text(file)):
        if not block.startswith("["):
            continue
        head = block[1 : block.index("]")].strip()
        for name in [head] if head.startswith("git ") or _is_phrase(head) else head.split():
            found[name] = block
    return found


def _is_phrase(head: str) -> bool:
    """Whether the words are a command and its sub-command, rather than several commands."""
    return head.split()[0] in _WITH_SUBCOMMANDS


_WITH_SUBCOMMANDS = names("ip systemctl pip npm go cargo rustc rustup docker kubectl terraform openssl dotnet")


@lru_cache(maxsize=512)
def options_of(name: str) -> Options | None:
    """The table of a command; `None` where there is none."""
    block = _blocks("commands.txt").get(_ALIKE.get(name, name))
    return None if block is None else _read(block)


_ALIKE = {"pip3": "pip", "podman": "docker"}


def phrase_of(words: tuple[str | None, ...]) -> tuple[Options, int] | None:
    """The table of a command with its sub-command, and how many words that is."""
    if not words or words[0] is None:
        return None
    first = _ALIKE.get(words[0], words[0])
    if first not in _WITH_SUBCOMMANDS:
        return None
    for length in (3, 2):
        head = words[1:length]
        if len(head) < length - 1 or None in head:
            continue
        known = [text or "" for text in head]
        if first == "npm" and known[0] == "list":
            known[0] = "ls"
        table = options_of(" ".join([first, *known]))
        if table is not None:
            return table, length
    return None


@lru_cache(maxsize=256)
def git_options(words: str) -> Options | None:
    """The table of a sub-command of git, of one word or two."""
    block = _git_blocks().get(words)
    return None if block is None else _read(block, unabbreviated=True)


@lru_cache(maxsize=1)
def _git_blocks() -> dict[str, str]:
    found: dict[str, str] = {}
    for head, block in _blocks("git.txt").items():
        words = head.removeprefix("git ")
        phrase = words.split()[0] in ("notes", "submodule", "lfs", "ls-remote")
        for name in [words] if phrase else words.split():
            found[name] = block
    return found


def _read(block: str, *, unabbreviated: bool = False) -> Options:
    lines = re.sub(r"\n[ \t]+", " ", block).split("\n")
    head = _HEAD.fullmatch(lines[0].strip())
    if head is None:
        raise TableError(lines[0])
    operands, *traits = head[2].split()
    fields: dict[str, object] = {"operands": operands}
    for trait in traits:
        if trait not in _TRAITS:
            raise TableError(f"{lines[0]}: {trait}")
        fields["abbreviates" if trait == "unabbreviated" else trait] = trait != "unabbreviated"
    if unabbreviated:
        fields["abbreviates"] = False
    for line in filter(None, lines[1:]):
        name, _, value = line.partition(": ")
        if name not in _FIELDS or not value.strip():
            raise TableError(f"{lines[0]}: {line}")
        fields[name.replace(" ", "_")] = _value(name, value.strip())
    if "pattern_by" in fields:
        fields["patterned"] = fields.pop("pattern_by")
    return Options(**fields)  # type: ignore[arg-type]


def _value(name: str, value: str) -> object:
    if name == "most":
        return int(value)
    if name == "obeys":
        return tuple(value.split())
    if name.startswith("long") or name == "pattern by":
        return names(value)
    return value


def every_table() -> dict[str, Options]:
    """All of them, by name."""
    found = {name: _read(block) for name, block in _blocks("commands.txt").items()}
    return found | {f"git {name}": _read(block, unabbreviated=True) for name, block in _git_blocks().items()}


@lru_cache(maxsize=8)
def _lists(file: str) -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for line in re.sub(r"\n[ \t]+", " ", _text(file)).split("\n"):
        name, colon, words = line.partition(": ")
        if colon and not line.startswith("#"):
            found[name] = names(words)
    return found


def word_list(file: str, name: str) -> frozenset[str]:
    """A list of words by its name, of a file of lists."""
    return _lists(file)[name]


def word_list_or_none(file: str, name: str) -> frozenset[str] | None:
    """The same, where there need not be one."""
    return _lists(file).get(name)


@lru_cache(maxsize=1)
def _written() -> dict[str, frozenset[str]]:
    lines = re.sub(r"\n[ \t]+", " ", _text("writers.txt")).split("\n")
    split = [line.removeprefix("options: ").split() for line in lines if line.startswith("options: ")]
    return {words[0]: frozenset(words[1:]) for words in split}


def written_options(name: str) -> frozenset[str]:
    """The options of a program whose values are files or folders that it writes."""
    return _written().get(name, frozenset())


def asks_version(name: str, option: str) -> bool:
    """Whether the option alone makes the program tell its version and nothing else."""
    return option in ("--version", "-V", "-v", "-version") and name in word_list("versions.txt", option)
