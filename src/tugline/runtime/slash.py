"""Slash commands: a prompt that begins with `/` and a command's name is answered here, or becomes another prompt."""

import re
from collections.abc import Awaitable, Callable, Iterable
from difflib import get_close_matches

from msgspec import Struct

from tugline.protocol.errors import UsageError

_NOTE = re.compile(r"#(?![#!\d])\s*(\S[^\n]*)\Z")
"""One line that begins with `#`. More lines are a document; digits are the number of an issue."""
NOTE = ("memory", "add")
"""The command that `#TEXT` is short for."""
_COMMAND = re.compile(r"/([A-Za-z?][A-Za-z0-9_:.-]*)(?:\s+(.*))?\Z", re.DOTALL)


class SlashCommand(Struct, frozen=True, eq=False):
    """A command: its name without the slash, what it takes, what it does in one line, and how it answers (Markdown)."""

    name: str
    description: str
    answer: Callable[[str], Awaitable[str]]
    takes: str = ""


class SlashCommands:
    """The commands of a session, by name."""

    def __init__(self, commands: Iterable[SlashCommand] = ()) -> None:
        self._commands = {command.name: command for command in commands}

    def add(self, command: SlashCommand) -> None:
        """One more, or another one of that name."""
        self._commands[command.name] = command

    def all(self) -> list[SlashCommand]:
        """Every command, by name."""
        return sorted(self._commands.values(), key=lambda command: command.name)

    def find(self, text: str) -> tuple[SlashCommand, str] | None:
        """The command that the text calls, and its words; `None` if it calls none. `UsageError` for one that does not
        exist: a name alone, or one that is nearly right."""
        plain = text.rstrip()
        if (note := _NOTE.match(plain)) and NOTE[0] in self._commands:
            return self._commands[NOTE[0]], f"{NOTE[1]} {note[1]}"
        match = _COMMAND.match(plain)
        if match is None:
            return None
        name, words = match[1], (match[2] or "").strip()
        command = self._commands.get(name)
        if command is not None:
            return command, words
        near = get_close_matches(name, self._commands, 1, 0.75)
        if words and not near:
            return None
        hint = f" Did you mean /{near[0]}?" if near else " See /help."
        raise UsageError(f"There is no command /{name}.{hint} To send it as it is, put a blank before it.")
