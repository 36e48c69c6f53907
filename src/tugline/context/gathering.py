"""Reads files of instructions. Synchronous, bounded, and never stopped by what it finds."""

import hashlib
import os
from collections.abc import Callable, Collection, Iterator, Sequence

from msgspec import Struct

from tugline.ports import FileStat, WorkspaceError
from tugline.protocol.instructions import Instruction, LoadedFile, Scope
from tugline.rules.instruction_text import find_imports, looks_like_path, read_head, without_comments
from tugline.rules.instructions import (
    HOPS,
    RULES,
    UNTRUSTED,
    LeftOut,
    ScopedRule,
    chain,
    file_matcher,
    fit,
    groups,
    own_groups,
    size,
)
from tugline.rules.paths import inside
from tugline.rules.wording import sound

READ_LIMIT = 1_000_000
"""Bytes of a file that is read at all."""
FILES_LIMIT = 500
"""Files that are opened for one gathering."""
BYTES_LIMIT = 8_000_000
"""Bytes that are read for one gathering."""
MENTIONS_LIMIT = 1_000
"""Imports that are looked for in one gathering."""
DEPTH_LIMIT = 8
"""Folders below a folder of rules."""
FOLDERS_LIMIT = 5_000
"""Folders that are looked into for what may load later."""
_PASSED_OVER = frozenset((".git", ".hg", ".svn", "node_modules", ".venv", "venv", "__pycache__", ".tox", ".mypy_cache"))


class Disk(Struct, frozen=True, eq=False):
    """How files are reached: regular ones only, without ever waiting for a pipe. Each raises `WorkspaceError`."""

    resolve: Callable[[str, str], tuple[str, str]]
    stat: Callable[[str], FileStat | None]
    read: Callable[[str, int, int | None], tuple[bytes, FileStat]]
    entries: Callable[[str], Sequence[tuple[str, str]]]


class Scheme(Struct, frozen=True, kw_only=True):
    """Where instructions are looked for, and what of them counts. All folders are resolved.

    `own` are the person's folders, ours first, `managed` those of the machine's owner; each says whether it is Claude
    Code's. `external` are places outside the project that its files may import. `forbidden` says why a path must not
    be read, or nothing.
    """

    cwd: str
    project_root: str
    home: str
    names: tuple[str, ...]
    own: tuple[tuple[str, bool], ...] = ()
    managed: tuple[tuple[str, bool], ...] = ()
    roots: tuple[str, ...] = ()
    project: bool = True
    local: bool = True
    trusted: bool = False
    external: tuple[str, ...] = ()
    file_tokens: int = 10_000
    total_tokens: int = 25_000
    forbidden: Callable[[str, str], str] = lambda name, target: ""

    def starting(self) -> tuple[str, ...]:
        """The folders whose files load at the start, from the project's root to the working folder."""
        return chain(self.project_root, self.cwd) or (self.cwd,)


class Gathered(Struct, frozen=True):
    """What was found: what is loaded, what is not and why, and the rules that wait for their files. `targets` are the
    files that were taken, whatever their names."""

    loaded: tuple[Instruction, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    rules: tuple[ScopedRule, ...] = ()
    targets: frozenset[str] = frozenset()


def gather(disk: Disk, scheme: Scheme) -> Gathered:
    """All that loads at the start of a conversation, farthest first."""
    found = _Gathering(disk, scheme)
    for folder, claude in scheme.managed:
        found.take_folder(folder, "managed", own_groups(scheme.names, claude=claude))
    for folder, claude in scheme.own:
        found.take_folder(folder, "user", own_groups(scheme.names, claude=claude))
        found.take_rules(os.path.join(folder, "rules"), "user", scheme.project_root)
    if scheme.project:
        for folder in scheme.starting():
            found.take_project(folder)
    return found.done()


def gather_folders(disk: Disk, scheme: Scheme, folders: Sequence[str], known: Collection[str]) -> Gathered:
    """What loads when something in these folders is touched; `known` are files that are loaded already."""
    found = _Gathering(disk, scheme, known)
    for folder in folders:
        found.take_project(folder)
    return found.done()


def gather_rules(disk: Disk, scheme: Scheme, rules: Sequence[ScopedRule]) -> Gathered:
    """The texts of rules whose files were touched."""
    found = _Gathering(disk, scheme)
    for rule in rules:
        found.take_scoped(rule)
    return found.done()


def folders_below(disk: Disk, scheme: Scheme) -> Iterator[str]:
    """Folders of the project whose files load when something in them is touched; not all of a huge project."""
    starting = set(scheme.starting())
    todo, count = [scheme.project_root], 0
    while todo and count < FOLDERS_LIMIT:
        folder = todo.pop()
        count += 1
        if folder not in starting:
            yield folder
        try:
            entries = disk.entries(folder)
        except WorkspaceError:
            continue
        below = [os.path.join(folder, name) for name, kind in entries if kind == "folder" and name not in _PASSED_OVER]
        todo += [path for path in reversed(below) if not os.path.islink(path)]


class _Source(Struct, frozen=True):
    """What a file is loaded as."""

    scope: Scope
    why: str = "file"
    parent: str = ""
    hop: int = 0
    base: str = ""


class _Gathering:
    """One walk over the places where instructions are."""

    def __init__(self, disk: Disk, scheme: Scheme, known: Collection[str] = ()) -> None:
        self._disk = disk
        self._scheme = scheme
        self._units: list[list[Instruction]] = []
        self._left_out: list[LeftOut] = []
        self._rules: list[ScopedRule] = []
        self._targets: set[str] = set(known)
        self._texts: dict[str, str] = {}
        """By the digest of the text, the file of this folder that has it."""
        self._withheld: dict[str, LeftOut] = {}
        self._opened = self._bytes = self._mentions = 0

    def done(self) -> Gathered:
        """What came of it, within the budget."""
        scheme = self._scheme
        loaded, out = fit(self._units, each=scheme.file_tokens, total=scheme.total_tokens)
        left_out = (*self._left_out, *self._withheld.values(), *out)
        return Gathered(loaded, left_out, tuple(self._rules), frozenset(self._targets))

    def take_project(self, folder: str) -> None:
        """The files and rules of a folder of the project."""
        self.take_folder(folder, "project", groups(self._scheme.names, local=self._scheme.local))
        for name in RULES:
            self.take_rules(os.path.join(folder, name), "project", folder)

    def take_folder(self, folder: str, scope: Scope, names: Sequence[Sequence[str]]) -> None:
        """Of each group the first file that exists."""
        self._texts = {}
        for group in names:
            for name in group:
                if self._take(os.path.join(folder, name), _Source(scope)):
                    break

    def take_rules(self, folder: str, scope: Scope, base: str) -> None:
        """The rules in a folder of them, at any depth."""
        if not os.path.isdir(folder):
            return
        self._texts = {}
        seen: set[str] = set()
        todo = [(folder, 0)]
        while todo:
            at, depth = todo.pop()
            try:
                target = self._disk.resolve(at, "/")[1]
                if target in seen:
                    continue
                seen.add(target)
                if refused := self._refused(at, target, _Source(scope)):
                    self._leave(at, refused)
                    continue
                entries = self._disk.entries(target)
            except WorkspaceError as error:
                self._leave(at, _reason(error))
                continue
            for name, kind in entries:
                path = os.path.join(at, name)
                if kind != "folder" and name.endswith(".md"):
                    self._take(path, _Source(scope, "rule", base=base))
            if depth < DEPTH_LIMIT:
                below = [os.path.join(at, name) for name, kind in entries if kind == "folder"]
                todo += [(path, depth + 1) for path in reversed(below)]

    def take_scoped(self, rule: ScopedRule) -> None:
        """A rule that waited for its files."""
        self._take(rule.path, _Source(rule.scope, "rule"))

    # -- one file

    def _take(self, path: str, source: _Source) -> bool:
        """Load the file; whether there is one, fit or not."""
        parent = source.parent
        try:
            name, target = self._disk.resolve(path, "/")
            stat = self._disk.stat(target)
            if stat is None:
                if os.path.islink(path):
                    return self._leave(path, "it is a link that leads nowhere", parent)
                return False
            if sound(name) != name:
                return self._leave(path, "its path is not UTF-8 text", parent)
            if target in self._targets:
                return self._leave(path, "it is loaded already", parent, silent=True)
            if refused := self._refused(name, target, source):
                return self._leave(path, refused, parent)
            if self._opened >= FILES_LIMIT or self._bytes >= BYTES_LIMIT:
                return self._leave(path, "too much is read already for instructions", parent)
            self._opened += 1
            self._targets.add(target)
            text = self._text(target, stat)
        except WorkspaceError as error:
            return self._leave(path, _reason(error), parent)
        except ValueError as error:
            return self._leave(path, str(error), parent)
        self._add(path, text, source)
        return True

    def _text(self, target: str, stat: FileStat) -> str:
        """The text of a file; `ValueError` where it is none."""
        if stat.kind == "file" and stat.size > READ_LIMIT:
            raise ValueError(f"it has {stat.size:,} bytes; at most {READ_LIMIT:,} are read")
        data = self._disk.read(target, 0, READ_LIMIT)[0]
        self._bytes += len(data)
        if b"\0" in data:
            raise ValueError("it is not a text, but binary")
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise ValueError(f"it is not UTF-8 text (byte {error.start})") from None
        return text.replace("\r\n", "\n").replace("\r", "\n")

    def _add(self, path: str, text: str, source: _Source) -> None:
        globs: tuple[str, ...] = ()
        if source.why == "rule":
            head = read_head(text)
            text, globs = head.body, head.globs
            if head.problem:
                self._leave(path, head.problem)
                return
        text = without_comments(text).strip("\n")
        if not text.strip():
            self._leave(path, "it is empty", source.parent, silent=True)
            return
        if globs and source.base:
            self._wait(path, text, globs, source)
            return
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass")).hexdigest()
        same = self._texts.setdefault(digest, path)
        if same != path:
            self._leave(path, f"it says the same as {same}", source.parent, silent=True)
            return
        why = source.why if source.why in ("import", "rule") else "file"
        about = LoadedFile(path, source.scope, why, size(text), source.parent, globs)  # type: ignore[arg-type]
        if source.hop == 0:
            self._units.append([])
        self._units[-1].append(Instruction(about, text))
        self._import(path, text, source)

    def _wait(self, path: str, text: str, globs: tuple[str, ...], source: _Source) -> None:
        """A rule for some files: it loads when one of them is touched."""
        try:
            file_matcher(globs)
        except ValueError as error:
            self._leave(path, f"its paths cannot be read: {error}")
            return
        self._rules.append(ScopedRule(path, source.scope, globs, source.base, size(text)))

    # -- imports

    def _import(self, path: str, text: str, source: _Source) -> None:
        folder, scheme = os.path.dirname(path), self._scheme
        for readings in find_imports(text):
            self._mentions += 1
            if self._mentions > MENTIONS_LIMIT:
                return
            places = [os.path.join(folder, scheme.home + one[1:] if one.startswith("~/") else one) for one in readings]
            if source.scope == "project" and not scheme.trusted:
                self._withhold(readings, places, path)
                continue
            place = next((one for one in places if self._exists(one)), None)
            if place is None:
                if looks_like_path(readings[-1]):
                    self._leave(os.path.normpath(places[-1]), "there is no such file", path)
            elif source.hop >= HOPS:
                self._leave(os.path.normpath(place), f"imports nest {HOPS} deep at most", path)
            else:
                self._take_import(place, path, source)

    def _take_import(self, place: str, parent: str, source: _Source) -> None:
        try:
            name, target = self._disk.resolve(place, "/")
        except WorkspaceError as error:
            self._leave(place, _reason(error), parent)
            return
        scope: Scope = "project" if self._in_project(target) else source.scope
        self._take(name, _Source(scope, "import", parent, source.hop + 1))

    def _withhold(self, readings: Sequence[str], places: Sequence[str], parent: str) -> None:
        """Before a folder is trusted, its imports are not even looked for outside of it."""
        near = next((one for one in places if self._in_project(os.path.normpath(one)) and os.path.lexists(one)), None)
        if near is None and not looks_like_path(readings[-1]):
            return
        path = os.path.normpath(near or places[-1])
        if near is None or os.path.realpath(near) not in self._targets:
            self._withheld[path] = LeftOut(path, UNTRUSTED, parent)

    def _exists(self, path: str) -> bool:
        try:
            found = self._disk.stat(self._disk.resolve(path, "/")[1])
        except WorkspaceError:
            return True  # what is wrong with it is said when it is taken
        return os.path.islink(path) if found is None else found.kind != "folder"

    # -- what may be read

    def _in_project(self, path: str) -> bool:
        return any(inside(path, root) for root in (self._scheme.project_root, *self._scheme.roots))

    def _refused(self, name: str, target: str, source: _Source) -> str:
        """Why a file must not be loaded; empty if it may. What a project names must lie in it: a link or an import
        would else show any file of the person's to the model."""
        if source.scope != "project" and source.why != "import":
            return ""
        if forbidden := self._scheme.forbidden(name, target):
            return forbidden
        if source.scope != "project" or self._in_project(target):
            return ""
        if self._scheme.trusted and any(inside(target, place) for place in self._scheme.external):
            return ""
        where = "it lies" if name == target else f"it leads to {target},"
        return f"{where} outside the project (the setting context.externalImports permits places)"

    def _leave(self, path: str, why: str, parent: str = "", *, silent: bool = False) -> bool:
        self._left_out.append(LeftOut(sound(path), sound(why), sound(parent), silent))
        return True


def _reason(error: WorkspaceError) -> str:
    """The reason alone: the words begin with the path."""
    words = str(error).removesuffix(".")
    return words.partition(": ")[2] or words
