"""How many lines a change of a file added and removed."""

from tugline.protocol.records import FileState
from tugline.rules.changes import CountLines, Lines
from tugline.stores.contents import Contents, checkpoints_folder
from tugline.tools.diff import counts, hunks


def session_contents(checkpoints: str, transcript: str) -> Contents:
    """The store that a session's records name contents of."""
    return Contents(checkpoints_folder(checkpoints, transcript))


def line_counter(contents: Contents) -> CountLines:
    """Counts lines added and removed, for `rules.changes`, where both contents are there and are text."""

    def text(state: FileState | None) -> str | None:
        data = b"" if state is None else contents.get(state.digest)
        return None if data is None or b"\0" in data else data.decode(errors="replace")

    def count(before: FileState | None, after: FileState | None) -> Lines | None:
        old, new = text(before), text(after)
        return None if old is None or new is None else counts(hunks(old, new, 0))

    return count
