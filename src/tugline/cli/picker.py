"""A choice among sessions: numbered lines on the terminal, one number as the answer."""

import os
import time
from collections.abc import Sequence

from tugline.cli import streams
from tugline.cli.ansi import columns, is_terminal, palette
from tugline.cli.sessions.listing import rows
from tugline.protocol.errors import SessionError, UsageError
from tugline.protocol.sessions import SessionSummary
from tugline.sessions import Sessions
from tugline.stores.sessions import Ambiguous

OFFERED = 20


class NotChosen(SessionError):
    """Nobody chose."""


def settle_resume(words: str) -> str:
    """What `--resume` means, as words that `Options.resume` takes: where several sessions fit, or none was named, a
    person at the terminal chooses; without one it is an error that lists them."""
    somebody = is_terminal(0) and is_terminal(2)
    if words.strip() and not somebody:
        return words  # opening the session says what is not clear
    here = Sessions()
    if not words.strip():
        found = here.summaries(limit=OFFERED)
        if not found:
            raise UsageError("There is no session of this project to go on with. See: tugline sessions list --all")
        if not somebody:
            raise UsageError("--resume needs an id, or words of a name or a first prompt:\n" + listed(found))
        return choose(found)
    try:
        here.find(words)
    except Ambiguous as error:
        return choose(error.found)
    except SessionError:
        pass  # opening it says so, in the run's own format
    return words


def listed(found: Sequence[SessionSummary]) -> str:
    """The sessions in lines, for an error."""
    return "".join(rows(found, time.time(), 100, palette(-1, {}))).rstrip("\n")


def choose(found: Sequence[SessionSummary]) -> str:
    """Ask which one; its id. `NotChosen` where the answer is none."""
    paint = palette(2, os.environ)
    for number, line in enumerate(rows(found, time.time(), columns(2) - 4, paint), 1):
        streams.say(f"{number:>3} {line}")
    while True:
        streams.say(f"Which one? [1-{len(found)}] ")
        try:
            answer = input().strip()
        except EOFError:
            answer = ""
        if not answer or answer in ("q", "quit"):
            raise NotChosen("No session was chosen.")
        if answer.isascii() and answer.isdecimal() and 1 <= int(answer[:9]) <= len(found):
            return found[int(answer) - 1].session
