"""The files that deny rules for reading name, found on the disk, so that they can be hidden from a command."""

import os
from collections.abc import Callable, Sequence

Hides = Callable[[str, str], bool]
"""Whether a deny rule forbids to read a path, given its name and what it points to."""

FOLDER_LIMIT = 20_000


class DeniedFiles:
    """Looks through the folders; a folder that has not changed since is not read again.

    `truncated`: there are more folders than are looked at, so that something may have been missed.
    """

    def __init__(self, roots: Sequence[str], hides: Hides, *, limit: int = FOLDER_LIMIT) -> None:
        self.truncated = False
        self._roots = tuple(roots)
        self._hides = hides
        self._limit = limit
        self._known: dict[str, tuple[int, tuple[str, ...], tuple[str, ...]]] = {}

    def __call__(self) -> Sequence[str]:
        """The paths, as they are now; below a folder that is named as a whole nothing more is looked for."""
        found: list[str] = []
        known = self._known
        self._known = {}
        waiting = list(self._roots)
        while waiting and len(self._known) < self._limit:
            folder = waiting.pop()
            try:
                changed = os.stat(folder, follow_symlinks=False).st_mtime_ns
                kept = known.get(folder)
                entry = kept if kept is not None and kept[0] == changed else (changed, *self._look(folder))
            except OSError:
                continue
            self._known[folder] = entry
            found += entry[1]
            waiting += entry[2]
        self.truncated = bool(waiting)
        return found

    def _look(self, folder: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        named: list[str] = []
        below: list[str] = []
        with os.scandir(folder) as entries:
            for entry in entries:
                target = os.path.realpath(entry.path) if entry.is_symlink() else entry.path
                if self._hides(entry.path, target):
                    named.append(target)
                elif entry.is_dir(follow_symlinks=False):
                    below.append(entry.path)
        return tuple(named), tuple(below)
