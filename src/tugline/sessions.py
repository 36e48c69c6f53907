"""`Sessions`: what is on the disk of all sessions, to be listed, read, searched, exported and put away."""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING

from tugline.config.folders import find_folders, find_project_root, main_repository
from tugline.protocol.errors import SessionError, UsageError
from tugline.protocol.sessions import FORMATS, ExportFormat, Hit, Passage, SessionSummary
from tugline.rules import wording
from tugline.rules.tidying import Due, Kept, Limits, due
from tugline.stores import shelf
from tugline.stores.chronicle import Chronicle, open_chronicle
from tugline.stores.exporting import document, write_export
from tugline.stores.locks import is_busy
from tugline.stores.searching import Wanted, search
from tugline.stores.sessions import Among, Entry, entries, entry_at, find, summarize

if TYPE_CHECKING:
    from tugline.rules.changes import TurnChanges
    from tugline.stores.contents import Pruned

__all__ = ["Sessions"]


class Sessions:
    """The sessions of a project, or of all projects, as they stand on the disk.

    `cwd` is a folder of the project (default: the process's), `environ` what counts as the environment. A session is
    named by its id, at least four characters of its beginning, its name, or words of its name or first prompt;
    `SessionError` says what there is where that is not clear. All methods read or write files and block meanwhile. None
    needs a model or a key.
    """

    def __init__(self, cwd: str | os.PathLike[str] | None = None, *, environ: Mapping[str, str] | None = None) -> None:
        self._environ = os.environ if environ is None else environ
        home = self._environ.get("HOME") or os.path.expanduser("~")
        folders = find_folders(self._environ, home)
        self.folder = folders.sessions
        """Where all of them are."""
        self._checkpoints = folders.checkpoints
        place = os.path.realpath(os.path.expanduser(os.fspath(cwd) if cwd is not None else os.getcwd()))
        self.project = main_repository(find_project_root(place, os.path.realpath(home)))
        """The project that is meant: a work tree counts as its repository."""

    def summaries(
        self, *, everywhere: bool = False, archived: bool = False, limit: int | None = None
    ) -> tuple[SessionSummary, ...]:
        """The sessions of this project, or of all (`everywhere`), the last used first; `archived` ones in their place.
        Those in which nothing was said, as of a run that only asked for `/help`, are left out."""
        found = (summarize(one) for one in self._entries(everywhere) if one.archived == archived)
        return tuple(islice((one for one in found if _is_worth_a_line(one)), limit))

    def count(self, *, everywhere: bool = False, archived: bool = False) -> int:
        """How many there are."""
        return sum(one.archived == archived for one in self._entries(everywhere))

    def find(self, words: str) -> SessionSummary:
        """The session that is meant."""
        return summarize(self._find(words))

    def passages(self, words: str) -> Iterator[Passage]:
        """What was said in a session, in order; in bounded memory, however long it is."""
        with self.chronicle(words) as (_, chronicle):
            yield from chronicle.passages()

    @contextmanager
    def chronicle(self, words: str) -> Iterator[tuple[SessionSummary, Chronicle]]:
        """A session's transcript, for those who want its records."""
        summary = self.find(words)
        if summary.problem:
            raise SessionError(summary.problem)
        with open_chronicle(summary.path) as chronicle:
            yield summary, chronicle

    def changes(self, words: str) -> "tuple[TurnChanges, ...]":
        """Who changed which files in a session, turn by turn; with lines added and removed where contents are kept."""
        from tugline.app.line_counts import line_counter, session_contents  # noqa: PLC0415  imported here: start-up cost
        from tugline.rules.changes import changes  # noqa: PLC0415  imported here: start-up cost

        with self.chronicle(words) as (summary, chronicle):
            count = line_counter(session_contents(self._checkpoints, summary.path))
            return changes(chronicle.changing(), count)

    def search(self, words: str, *, everywhere: bool = False, archived: bool = False) -> Iterator[Hit]:
        """Where all of these words stand together: in names, prompts and replies, the last used session first."""
        wanted = Wanted(words)
        for entry in self._entries(everywhere):
            if archived or not entry.archived:
                yield from search(entry, wanted)

    def export(self, words: str, path: str | os.PathLike[str] | None = None, form: ExportFormat | None = None) -> str:
        """Write a session as one document; returns its path. A file that exists is never overwritten. What looks like
        a key is masked, as are the secrets of the environment. The format is that of the path's ending, or
        Markdown."""
        if form is not None and form not in FORMATS:
            raise UsageError(f"The format must be one of {', '.join(FORMATS)}, not {form!r}.")
        return write_export(self._find(words), None if path is None else os.fspath(path), form, self._environ)

    def document(self, words: str, form: ExportFormat) -> Iterator[str]:
        """The same document piece by piece, for those who write it elsewhere."""
        return document(self._find(words), form, self._environ)

    def rename(self, words: str, title: str) -> str:
        """Give a session a name; returns it as it is kept."""
        name = wording.session_name(title)
        shelf.rename(self._find(words), name, time.time())
        return name

    def archive(self, words: str) -> str:
        """Put a session aside: no list shows it unasked; returns its path now."""
        return shelf.put_aside(self._find(words, "live"))

    def unarchive(self, words: str) -> str:
        """Take it back; returns its path now."""
        return shelf.take_back(self._find(words, "archived"))

    def remove(self, words: str) -> None:
        """Delete a session and all that belongs to it. There is no way back."""
        shelf.remove(self._find(words))

    def due(self, limits: Limits, *, everywhere: bool = False, archived: bool = False) -> tuple[Due, ...]:
        """The sessions that these limits name and nobody uses now, the longest unused first; `archived`: those that
        were put aside too. Only looks."""
        found = [one for one in self._entries(everywhere) if archived or not one.archived]
        kept = [Kept(one.path, shelf.kept_bytes(one), one.changed) for one in found]
        return tuple(one for one in due(kept, limits, time.time()) if not is_busy(one.kept.key))

    def summary_at(self, path: str) -> SessionSummary:
        """The session whose transcript this is."""
        return summarize(entry_at(path))

    def put_away(self, path: str, *, remove: bool = False) -> None:
        """Archive the session whose transcript this is, or delete it with all that belongs to it."""
        entry = entry_at(path)
        if remove:
            shelf.remove(entry)
        else:
            shelf.put_aside(entry)

    def prune(self) -> "Pruned":
        """Remove former contents of files that no session names any more, as after `remove` and `put_away`."""
        from tugline.stores.contents import prune  # noqa: PLC0415  imported here: start-up cost

        return prune(self._checkpoints, self.folder)

    def _entries(self, everywhere: bool) -> list[Entry]:
        return entries(self.folder, None if everywhere else self.project, archived=True)

    def _find(self, words: str, among: Among = "any") -> Entry:
        return find(self.folder, words, self.project, among)


def _is_worth_a_line(one: SessionSummary) -> bool:
    return bool(one.prompt or one.title or one.problem or one.busy)
