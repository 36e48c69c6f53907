"""Which tools an agent has: choose, leave out, find by name, and which of them a request carries."""

import fnmatch
from collections.abc import Collection, Iterable, Iterator, Sequence

from tugline.ports import Tool
from tugline.protocol.errors import UsageError
from tugline.protocol.specs import ToolSpec
from tugline.tools.schema import closest

ALIASES = {"Task": "Agent"}
"""Older names that people and models still say."""


class Toolset:
    """Tools in a fixed order. Never changed: the combinators below make new ones."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            if tool.name in self._tools:
                raise UsageError(f"There are two tools named {tool.name}: give one of them another name.")
            self._tools[tool.name] = tool

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    @property
    def names(self) -> tuple[str, ...]:
        """All names, in order."""
        return tuple(self._tools)

    def find(self, name: str) -> Tool | None:
        """The tool of that name, or of the name that it is an alias of."""
        found = self._tools.get(name)
        return found if found is not None else self._tools.get(ALIASES.get(name, ""))

    def closest(self, name: str) -> list[str]:
        """The names that come closest to an unknown one."""
        return closest(name, list(self._tools))

    def specs(self, loaded: Collection[str] = ()) -> tuple[ToolSpec, ...]:
        """What a request carries: all that is not deferred, then the deferred ones that were loaded."""
        ready = [tool.spec for tool in self if not tool.deferred]
        return (*ready, *(tool.spec for tool in self if tool.deferred and tool.name in loaded))

    def deferred(self, loaded: Collection[str] = ()) -> tuple[str, ...]:
        """The names that only stand in the prompt."""
        return tuple(tool.name for tool in self if tool.deferred and tool.name not in loaded)


def joined(*sets: Iterable[Tool]) -> Toolset:
    """One set of several, in their order."""
    return Toolset(tool for tools in sets for tool in tools)


def chosen(tools: Toolset, names: Sequence[str]) -> Toolset:
    """Those that are named (`*` at the end is a wildcard; `default` means all), in the order of `tools`."""
    if "default" in names:
        return tools
    for name in names:
        if not any(_names(name, tool.name) for tool in tools):
            raise UsageError(_no_such_tool(tools, name))
    return Toolset(tool for tool in tools if any(_names(name, tool.name) for name in names))


def without(tools: Toolset, names: Sequence[str]) -> Toolset:
    """All but those that are named. Rules with a specifier (`Bash(rm:*)`) and unknown names leave all as it is."""
    return Toolset(tool for tool in tools if not any(_names(name, tool.name) for name in names))


def undeferred(tools: Toolset) -> Toolset:
    """The same set without those that wait to be loaded."""
    return Toolset(tool for tool in tools if not tool.deferred)


def split_names(text: str) -> list[str]:
    """Names as flags give them: separated by commas or spaces, but not inside parentheses."""
    names: list[str] = []
    word = ""
    depth = 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if depth <= 0 and (letter == "," or letter.isspace()):
            names.append(word)
            word, depth = "", 0
        else:
            word += letter
    return [name for name in [*names, word] if name]


def _names(pattern: str, name: str) -> bool:
    wanted = ALIASES.get(pattern, pattern) if pattern != name else pattern
    if wanted.startswith("mcp__") and wanted.count("__") == 1:
        wanted += "__*"
    return fnmatch.fnmatchcase(name, wanted) if wanted.endswith("*") else name == wanted


def _no_such_tool(tools: Toolset, name: str) -> str:
    near = tools.closest(name)
    if near:
        return f"There is no tool {name}. Did you mean {' or '.join(near)}?"
    return f"There is no tool {name}. There are: {', '.join(tools.names)}."
