"""The slash commands that concern the session itself."""

from typing import Protocol

from tugline.protocol.errors import UsageError
from tugline.rules import costs, filling
from tugline.rules.filling import Filling
from tugline.rules.history import Spoken
from tugline.rules.tasks import listed
from tugline.runtime.past import Past
from tugline.runtime.slash import SlashCommand, SlashCommands
from tugline.runtime.tasks import Tasks

LISTED = 20
"""How many of the last prompts `/rewind` shows."""


class Host(Protocol):
    """What of a session its commands need."""

    commands: SlashCommands
    past: Past
    tasks: Tasks

    def context(self) -> Filling:
        """What fills its context."""
        ...

    def rename(self, title: str) -> str:
        """Give it a name; returns the name as it is kept."""
        ...


def session_commands(session: Host) -> list[SlashCommand]:
    """All of them, for this session."""
    return [
        SlashCommand("help", "list the commands", lambda words: _help(session)),
        SlashCommand("clear", "begin the conversation anew; the file keeps what was", lambda words: _clear(session)),
        SlashCommand("rename", "give the session a name", lambda words: _rename(session, words), "NAME"),
        SlashCommand("context", "what fills the context", lambda words: _context(session)),
        SlashCommand("cost", "what the session has cost, and its prompt cache", lambda words: _cost(session)),
        SlashCommand("tasks", "what runs, or ran, in the background", lambda words: _tasks(session)),
        SlashCommand("rewind", "go back to before one of your prompts", lambda words: _rewind(session, words), "[N]"),
    ]


async def _help(session: Host) -> str:
    rows = [(f"/{command.name} {command.takes}".rstrip(), command.description) for command in session.commands.all()]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {description}" for name, description in rows)


async def _clear(session: Host) -> str:
    await session.past.clear()
    return "The conversation begins anew. /rewind has nothing to go back to; the transcript keeps what was."


async def _rename(session: Host, words: str) -> str:
    return f"The session is named: {session.rename(words)}"


async def _context(session: Host) -> str:
    return filling.rendered(session.context())


async def _cost(session: Host) -> str:
    return costs.rendered(await session.past.costs())


async def _tasks(session: Host) -> str:
    return listed(session.tasks.all()) or "Nothing runs in the background."


async def _rewind(session: Host, words: str) -> str:
    prompts = await session.past.prompts()
    if not prompts:
        return "There is nothing to go back to."
    if not words:
        return _listed(prompts)
    number = words.split()[0]
    if not number.isdecimal() or not 1 <= int(number) <= len(prompts):
        raise UsageError(f"/rewind takes the number of a prompt, 1 to {len(prompts)}; /rewind alone lists them.")
    said = await session.past.rewind(prompts[int(number) - 1].id)
    return f"The conversation goes on from before prompt {number}, which was:\n\n{said.text}"


def _listed(prompts: tuple[Spoken, ...]) -> str:
    first = max(0, len(prompts) - LISTED)
    lines = [f"{index + 1:>4}  {_short(words.text)}" for index, words in enumerate(prompts) if index >= first]
    return "\n".join([*lines, "", "/rewind N goes back to before prompt N."])


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 100 else line[:97] + "..."
