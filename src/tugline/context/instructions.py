"""The instruction files of a session: read at its start and again when asked, and brought up by what calls touch."""

import os
from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

import anyio
import anyio.to_thread
from msgspec import structs

from tugline.context.gathering import Disk, Gathered, Scheme, gather, gather_folders, gather_rules
from tugline.ports import WorkspaceError
from tugline.protocol.instructions import Instruction
from tugline.rules.instructions import LeftOut, ScopedRule, chain, fit, holds, innermost, key, notices, untold

SECONDS = 5.0
"""Time that reading may take, for a folder that is far away."""
NOTICES_LIMIT = 8
"""Notices of one reading."""
T = TypeVar("T")


class Instructions:
    """Reads in worker threads, and tells once what is wrong with each file."""

    def __init__(self, disk: Disk, scheme: Scheme, tell: Callable[[str], None]) -> None:
        self._disk = disk
        self._scheme = scheme
        self._tell = tell
        self._said: set[str] = set()
        self._start = Gathered()
        self._folders: dict[str, tuple[str, ...]] = {}
        """The folders that were looked into, with the files that they brought up."""
        self._rules: dict[str, ScopedRule] = {}

    async def read(self, room: int | None = None) -> tuple[Instruction, ...]:
        """What loads at the start, as it is on the disk now, of at most `room` tokens. What was touched before is
        forgotten."""
        scheme = self._scheme
        if room is not None:
            total = max(0, min(room, scheme.total_tokens))
            scheme = structs.replace(scheme, total_tokens=total, file_tokens=min(scheme.file_tokens, total))
        found = await self._aside(lambda: gather(self._disk, scheme))
        if found is None:
            return ()
        self._start = found
        self._folders = {}
        self._rules = {rule.path: rule for rule in found.rules}
        self._report(found.left_out)
        return found.loaded

    def there(self, path: str) -> bool:
        """Whether there is still something of that name."""
        return os.path.lexists(path)

    async def touched(self, paths: Sequence[str], cwd: str, told: Collection[str]) -> tuple[Instruction, ...]:
        """What holds for these paths, and is not told yet. Quick where everything is known."""
        targets, folders = self._places(paths, cwd)
        unread = [folder for folder in folders if self._unread(folder, told)]
        due = self._due(targets, told)
        if not unread and not due:
            return ()
        found = await self._aside(lambda: self._bring(unread, targets, told))
        if found is None:
            self._folders.update(dict.fromkeys(unread, ()))
            return ()
        self._report(found.left_out)
        return found.loaded

    def _places(self, paths: Sequence[str], cwd: str) -> tuple[list[str], list[str]]:
        """What the paths really are, and the folders on the way to them that do not load at the start."""
        scheme, targets = self._scheme, []
        folders: dict[str, None] = {}
        for path in paths:
            try:
                target = self._disk.resolve(path, cwd)[1]
            except WorkspaceError:
                continue
            root = innermost(target, (scheme.project_root, *scheme.roots))
            if not root:
                continue
            targets.append(target)
            if scheme.project:
                folder = target if os.path.isdir(target) else os.path.dirname(target)
                folders.update(dict.fromkeys(chain(root, folder)))
        starting = set(scheme.starting())
        return targets, [folder for folder in folders if folder not in starting]

    def _unread(self, folder: str, told: Collection[str]) -> bool:
        brought = self._folders.get(folder)
        return brought is None or any(path not in told for path in brought)

    def _due(self, targets: Sequence[str], told: Collection[str]) -> list[ScopedRule]:
        return [rule for path, rule in self._rules.items() if key(path) not in told and holds(rule, targets)]

    def _bring(self, folders: Sequence[str], targets: Sequence[str], told: Collection[str]) -> Gathered:
        """In a worker thread: the files of the folders, then the rules that hold, those of the folders included."""
        left_out: list[LeftOut] = []
        units: list[tuple[Instruction, ...]] = []
        for folder in folders:
            found = gather_folders(self._disk, self._scheme, [folder], self._start.targets)
            self._folders[folder] = tuple(key(one.file.path) for one in found.loaded)
            self._rules.update((rule.path, rule) for rule in found.rules)
            left_out += found.left_out
            units.append(untold(found.loaded, told))
        due = self._due(targets, told)
        rules = gather_rules(self._disk, self._scheme, due)
        loaded = {one.file.path for one in rules.loaded}
        for rule in due:
            if rule.path not in loaded:
                del self._rules[rule.path]  # it cannot be read, which is told
        units.append(untold(rules.loaded, told))
        scheme = self._scheme
        fitting, out = fit(units, each=scheme.total_tokens, total=scheme.total_tokens)
        return Gathered(fitting, (*left_out, *rules.left_out, *out))

    async def _aside(self, work: Callable[[], T]) -> T | None:
        with anyio.move_on_after(SECONDS):
            return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
        self._once(f"Files of instructions could not be read within {SECONDS:g} seconds; they are left out.")
        return None

    def _report(self, left_out: Sequence[LeftOut]) -> None:
        lines = notices(left_out)
        for line in lines[:NOTICES_LIMIT]:
            self._once(line)
        if len(lines) > NOTICES_LIMIT:
            more = len(lines) - NOTICES_LIMIT
            self._once(f"{more} more files of instructions are left out; `tugline config context` names them.")

    def _once(self, line: str) -> None:
        if line not in self._said:
            self._said.add(line)
            self._tell(line)
