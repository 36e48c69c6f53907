"""The slash commands that concern the session itself."""

from collections.abc import Callable, Sequence
from typing import Protocol, cast, get_args

from tugline.protocol.commands import RewindWhat
from tugline.protocol.errors import UsageError
from tugline.protocol.records import Compacted
from tugline.protocol.sessions import FORMATS
from tugline.protocol.specs import FileStep
from tugline.rules import costs, filling
from tugline.rules.filling import Filling
from tugline.rules.history import Spoken
from tugline.rules.tasks import listed
from tugline.runtime.copies import Copies
from tugline.runtime.notes import Notes
from tugline.runtime.past import Past, RewindPreview
from tugline.runtime.shortening import Shortening
from tugline.runtime.slash import NOTE, SlashCommand, SlashCommands
from tugline.runtime.tasks import Tasks

_EXPORT = f"[{'|'.join(FORMATS)}] [FILE]"
REWIND_TAKES = "[N [files|both|preview]]"
LISTED = 20
"""How many of the last prompts `/rewind` shows."""
FILES_LISTED = 50
NOT_COVERED = "What shell commands changed is not covered here: this is no git work tree, or it cannot be looked at."
_WORDS = {
    "restore": "restore", "delete": "delete", "recreate": "recreate", "conflict": "leave", "lost": "lost",
}  # fmt: skip


class Host(Protocol):
    """What of a session its commands need."""

    commands: SlashCommands
    past: Past
    list_hooks: Callable[[], str]
    copies: Copies
    notes: Notes
    shortening: Shortening
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
        SlashCommand(
            "compact",
            "put a summary in place of the conversation",
            lambda words: _compact(session, words),
            "[WHAT TO KEEP]",
        ),
        SlashCommand(
            "snip", "cut the oldest part of the conversation, without a summary", lambda words: _snip(session)
        ),
        SlashCommand("uncompact", "bring back what the last compaction took away", lambda words: _uncompact(session)),
        SlashCommand("context", "what fills the context", lambda words: _context(session)),
        SlashCommand("cost", "what the session has cost, and its prompt cache", lambda words: _cost(session)),
        SlashCommand(
            "hooks", "the hooks that run, where they come from, what does not count", lambda words: _hooks(session)
        ),
        SlashCommand("export", "write the conversation as a document", lambda words: _export(session, words), _EXPORT),
        SlashCommand(
            "branch", "go on in a copy; what was stays as it is", lambda words: _branch(session, words), "[NAME]"
        ),
        SlashCommand("memory", "the files of instructions; #TEXT adds a line", lambda words: _memory(session, words)),
        SlashCommand("tasks", "what runs, or ran, in the background", lambda words: _tasks(session)),
        SlashCommand(
            "rewind", "go back to before one of your prompts", lambda words: _rewind(session, words), REWIND_TAKES
        ),
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


async def _compact(session: Host, words: str) -> str:
    made = await session.shortening.compact(words)
    return f"The conversation is compacted: {_sizes(made)}. /uncompact brings it back."


async def _snip(session: Host) -> str:
    made = await session.shortening.snip()
    return f"The oldest part of the conversation is cut: {_sizes(made)}. /uncompact brings it back."


async def _uncompact(session: Host) -> str:
    return await session.shortening.uncompact()


def _sizes(made: Compacted) -> str:
    return f"about {made.tokens_before:,} tokens before, {made.tokens_after:,} now"


async def _cost(session: Host) -> str:
    return costs.rendered(await session.past.costs())


async def _hooks(session: Host) -> str:
    return session.list_hooks()


async def _export(session: Host, words: str) -> str:
    first, _, rest = words.partition(" ")
    form = next((form for form in FORMATS if form == {"md": "markdown"}.get(first, first)), None)
    path = (rest if form else words).strip()
    return f"The conversation is in {await session.copies.export(path or None, form)}"


async def _branch(session: Host, words: str) -> str:
    before = session.past.session
    after = await session.copies.branch()
    if words:
        session.rename(words)
    return f"This is {after} from here on. What was up to here stays in {before}: tugline -r {before}"


async def _memory(session: Host, words: str) -> str:
    if not words:
        return await session.notes.listed()
    verb, _, text = words.partition(" ")
    if verb != NOTE[1]:
        raise UsageError("/memory lists the files of instructions; /memory add TEXT, or #TEXT, adds a line.")
    return f"Noted in {await session.notes.add(text)}"


async def _tasks(session: Host) -> str:
    return listed(session.tasks.all()) or "Nothing runs in the background."


async def _rewind(session: Host, words: str) -> str:
    prompts = await session.past.prompts()
    first, *more = words.split() or [""]
    force = more[-1:] == ["force"]
    if force:
        more.pop()
    if first == "undo" and not more:
        return _done(await session.past.undo_rewind(force=force), "The last rewind of files is taken back.")
    if not prompts:
        return "There is nothing to go back to."
    if not words:
        return _listed(prompts)
    what = more[0] if len(more) == 1 else "conversation" if not more else ""
    if not first.isdecimal() or not 1 <= int(first) <= len(prompts) or what not in (*get_args(RewindWhat), "preview"):
        raise UsageError(
            f"/rewind takes the number of a prompt, 1 to {len(prompts)}, and conversation, files, both or preview; "
            "/rewind alone lists the prompts."
        )
    prompt = prompts[int(first) - 1]
    if what == "preview":
        return _previewed(await session.past.preview(prompt.id), first)
    said = await session.past.rewind(prompt.id, cast(RewindWhat, what), force=force)
    where = f"The conversation goes on from before prompt {first}, which was:\n\n{said.text}"
    if what == "conversation":
        return where
    files = _done(said.files, f"The files are as they were before prompt {first}.")
    if not session.past.covers_commands:
        files += f"\n\n{NOT_COVERED}"
    return files if what == "files" else f"{files}\n\n{where}"


def _listed(prompts: tuple[Spoken, ...]) -> str:
    first = max(0, len(prompts) - LISTED)
    lines = [f"{index + 1:>4}  {_short(words.text)}" for index, words in enumerate(prompts) if index >= first]
    return "\n".join([*lines, "", "/rewind N goes back to before prompt N; /rewind N preview shows what with files."])


def _previewed(preview: RewindPreview, number: str) -> str:
    commands = "Files that shell commands changed are among them." if preview.covers_commands else NOT_COVERED
    if not preview.files:
        return f"No file has to be put back for prompt {number}. {commands}"
    lines = _steps(preview.files)
    return "\n".join([*lines, "", commands, f"/rewind {number} files does it; /rewind {number} both goes back in all."])


def _done(files: Sequence[FileStep], words: str) -> str:
    if not files:
        return f"{words} Nothing had to be changed."
    left = any(one.do in ("conflict", "lost") for one in files)
    hint = ["", "What is left alone because somebody else changed it goes back with force."] if left else []
    return "\n".join([words if not left else "Not all could be put back.", "", *_steps(files), *hint])


def _steps(files: Sequence[FileStep]) -> list[str]:
    shown = files[:FILES_LISTED]
    lines = [f"{_WORDS[one.do]:>9}  {one.path}{f': {one.why}' if one.why else ''}" for one in shown]
    return [*lines, f"           … and {len(files) - len(shown)} more"] if len(files) > len(shown) else lines


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 100 else line[:97] + "..."
