"""What the paths of a command are on the disk, as far as that can be known before it runs."""

import posixpath
import re
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from tugline.rules import paths
from tugline.rules.paths import Place
from tugline.rules.permission_parts import Expand, Policy, Resolve, Survey
from tugline.rules.shell_options import Operand
from tugline.rules.shell_parts import Folders
from tugline.rules.shell_words import Output, Word

Access = Literal["read", "edit", "mention"]


class Seen(Struct, frozen=True):
    """A path of a command, looked up. `place` is `None` where it is not known before the command runs."""

    place: Place | None
    access: Access
    content: bool = True
    recursive: bool = False


class Look:
    """Looks paths up for one call."""

    def __init__(
        self, policy: Policy, cwd: str, resolve: Resolve, expand: Expand | None, survey: Survey | None
    ) -> None:
        self.policy, self.cwd, self.resolve, self.expand, self.survey = policy, cwd, resolve, expand, survey
        self.where = policy.where
        self.cache: dict[tuple[str, str], Place | None] = {}

    def place(self, path: str, folder: str) -> Place | None:
        key = (path, folder)
        if key not in self.cache:
            joined = path if path.startswith(("/", "~")) or not folder else posixpath.join(folder, path)
            found = self.resolve(joined, self.cwd) if "\x00" not in joined else None
            self.cache[key] = Place(*found) if found is not None else None
        return self.cache[key]

    def places(self, path: str, folders: Folders) -> list[Place | None]:
        if path.startswith(("/", "~")):
            return [self.place(path, "")]
        return [None] if folders is None else [self.place(path, folder) for folder in folders]

    def operand(self, operand: Operand, folders: Folders) -> list[Seen]:
        word = operand.word
        if word.output is not None:
            return self._printed(word.output, operand, folders)
        if word.path is not None:
            if not word.path:
                return []
            places = self.places(word.path, folders)
            if operand.follows and not all(place is not None and self._tame(place) for place in places):
                return [Seen(None, "read")]
            return [Seen(p, "read", operand.content, operand.recursive) for p in places]
        if word.glob is None or word.glob_path is None:
            return [Seen(None, "read")]
        if not operand.content and not (operand.undashed and re.match(r"[*?\[-]", word.glob)):
            return [Seen(p, "read", False, True) for p in self.places(word.glob_path, folders)]
        return self._expanded(word, operand, folders)

    def _printed(self, output: Output, operand: Operand, folders: Folders) -> list[Seen]:
        """What the output of a command names."""
        if output.kind == "top":
            top = self.top(folders)
            return [Seen(None if top is None else self.place(top + output.rest, ""), "read", operand.content, True)]
        if output.kind in ("name", "here"):
            places = self.places("." + output.rest, folders)
            return [Seen(p, "read", operand.content, operand.recursive or output.kind == "name") for p in places]
        found: list[Seen] = []
        careful = output.split or (output.links and operand.content)
        for start in output.starts:
            path = start.path or start.glob_path
            places = self.places(path, folders) if path else [None]
            if careful and not all(place is not None and self._tame(place) for place in places):
                return [Seen(None, "read")]
            found.extend(Seen(p, "read", operand.content, True) for p in places)
        return found

    def _tame(self, place: Place) -> bool:
        return self.survey is not None and self.survey(place.target) is True

    def top(self, folders: Folders) -> str | None:
        """The top folder of the repository that the command runs in; `None` where that is not certain."""
        if folders is None or len(folders) != 1:
            return None
        place = self.place(folders[0] or ".", "")
        at = place.target if place is not None else None
        while at is not None:
            there = self.exists(at, ".git")
            if there or at == "/":
                # outside of a repository git prints nothing
                return at if there else self.place(".", "").target  # type: ignore[union-attr]
            at = None if there is None else posixpath.dirname(at)
        return None

    def exists(self, folder: str, name: str) -> bool | None:
        """Whether a folder has a file of this name; `None` where that is not known."""
        if self.expand is None or re.search(r"[*?\[\]\\{}]", folder):
            return None
        path = posixpath.join(folder, name)
        found = self.expand(path + "*", self.cwd)
        return None if found is None else path in found

    def own_repository(self, folders: Folders) -> bool:
        """Whether git obeys there what it obeys where the session began, and no repository further down."""
        roots = {self.policy.cwd, self.policy.project_root, *self.policy.directories}
        for place in self.places(".", folders):
            at = place.target if place is not None else "/"
            while at not in roots:
                inside = any(paths.inside(at, root) for root in roots if root)
                if not inside or self.exists(at, ".git") is not False or self.exists(at, "HEAD") is not False:
                    return False
                at = posixpath.dirname(at)
        return bool(folders)

    def obeyed(self, names_: Sequence[str], folders: Folders) -> bool:
        """Whether one of these files may stand in the folder or above it."""
        for place in self.places(".", folders):
            at = place.target if place is not None else None
            while at is not None:
                if any(self.exists(at, name) is not False for name in names_):
                    return True
                at = posixpath.dirname(at) if at != "/" else None
        return folders is None

    def _expanded(self, word: Word, operand: Operand, folders: Folders) -> list[Seen]:
        if self.expand is None or folders is None or word.glob is None:
            return [Seen(None, "read")]
        found: list[Seen] = []
        for folder in folders:
            matches = self.expand(posixpath.join(folder, word.glob) if folder else word.glob, self.cwd)
            if matches is None or (operand.undashed and any(match.startswith("-") for match in matches)):
                return [Seen(None, "read")]
            found.extend(Seen(self.place(m, ""), "read", operand.content, operand.recursive) for m in matches)
            # with no match the pattern itself is the name
            found.extend(Seen(p, "read", False) for p in self.places(word.glob_path or ".", (folder,)))
        return found
