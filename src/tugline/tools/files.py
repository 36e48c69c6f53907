"""What the file tools share: finding the file, knowing whether it is still the one that was read, plain errors."""

import contextlib
import hashlib
import os.path
from collections.abc import Callable, Iterator
from typing import TypeVar

import anyio.to_thread
from msgspec import Struct

from tugline.ports import FileStat, ToolContext, WorkspaceError
from tugline.protocol.errors import ToolError
from tugline.protocol.specs import FileSeen, Seen
from tugline.tools.schema import closest

EDIT_LIMIT = 64 * 1024 * 1024
"""Bytes of a file that is changed as a whole."""
_LOOKED_AT = 2_000
_QUICK = 256 * 1024
T = TypeVar("T")


class Place(Struct, frozen=True):
    """A file by name, and what the name really points to, which is how an agent remembers it."""

    name: str
    target: str


@contextlib.contextmanager
def plain_errors() -> Iterator[None]:
    """What the workspace refuses becomes an error that the model reads."""
    try:
        yield
    except WorkspaceError as error:
        raise ToolError(str(error)) from None


def locate(path: str, context: ToolContext) -> Place:
    """The file that is meant; relative paths count from the agent's working directory."""
    with plain_errors():
        return Place(*context.workspace.resolve(path, context.state.cwd))


async def missing(place: Place, context: ToolContext, what: str = "file") -> ToolError:
    """The error for what does not exist, with the names that come close."""
    folder, name = os.path.split(place.name)
    gone = False
    while True:
        try:
            entries = await context.workspace.entries(folder)
            break
        except WorkspaceError:
            if folder in ("/", ""):
                return ToolError(f"There is no {what} {place.name}.")
            folder, name = os.path.split(folder)
            gone = True
    if any(entry == name for entry, _ in entries):
        there = os.path.join(folder, name)
        why = (
            f"{there} is no folder that can be read" if gone else f"it is a link to {place.target}, which is not there"
        )
        return ToolError(f"There is no {what} {place.name}: {why}.")
    names = [entry for entry, _ in entries[:_LOOKED_AT]]
    near = _close_names(name, names)
    hint = f" Did you mean {' or '.join(os.path.join(folder, hit) for hit in near)}?" if near else ""
    where = f" The folder {os.path.join(folder, name)} does not exist either." if gone else ""
    cwd = "" if near else f" The working directory is {context.state.cwd}."
    return ToolError(f"There is no {what} {place.name}.{where}{hint}{cwd}")


def _close_names(name: str, names: list[str]) -> list[str]:
    """Close in writing, or the same but for what follows the last dot."""
    stem = os.path.splitext(name)[0].lower()
    same = [other for other in names if os.path.splitext(other)[0].lower() == stem]
    return list(dict.fromkeys([*same[:3], *closest(name, names)]))[:3]


async def read_known(place: Place, context: ToolContext, verb: str) -> tuple[bytes, FileStat]:
    """The whole of a file that this agent has read and nobody has changed since; `ToolError` if it is not so."""
    seen = context.state.files.get(place.target)
    try:
        stat = await context.workspace.stat(place.name)
        if stat is None:
            raise await missing(place, context)
        if stat.kind == "file" and stat.size > EDIT_LIMIT:
            raise ToolError(f"{place.name} has {stat.size:,} bytes; files over {EDIT_LIMIT:,} cannot be {verb}.")
        if seen is None and stat.kind == "file":
            raise ToolError(f"{place.name} has not been read yet. Read it first, then it can be {verb}.")
        data, stat = await context.workspace.read(place.name)
    except WorkspaceError as error:
        raise ToolError(str(error)) from None
    if seen is None or await changed(seen, data, stat):
        raise ToolError(f"{place.name} has changed since it was read. Read it again before it is {verb}.")
    return data, stat


async def changed(seen: FileSeen, data: bytes, stat: FileStat) -> bool:
    """Whether a file is another one than was seen. The content decides where it is known; a mere touch is no change."""
    if seen.digest:
        return seen.size != stat.size or seen.digest != await aside(len(data), lambda: fingerprint(data))
    return (seen.mtime_ns, seen.size) != (stat.mtime_ns, stat.size)


def fingerprint(data: bytes) -> str:
    """What tells one content from another."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


async def aside(size: int, work: Callable[[], T]) -> T:
    """Work on that many bytes: at once, or in a worker thread where it would hold everything else up."""
    if size <= _QUICK:
        return work()
    return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)


async def write_back(place: Place, data: bytes, context: ToolContext, expect: FileStat | None) -> tuple[FileStat, Seen]:
    """Write the file; the agent then knows it as it is."""
    try:
        stat = await context.workspace.write(place.name, data, expect=expect)
    except WorkspaceError as error:
        if error.kind == "changed" and expect is not None:
            raise ToolError(f"{error} Nothing was written. Read it again first.") from None
        raise ToolError(str(error)) from None
    digest = await aside(len(data), lambda: fingerprint(data))
    return stat, Seen(place.target, FileSeen(stat.mtime_ns, stat.size, digest))


def shown_path(path: str, cwd: str) -> str:
    """A path for people and for results: relative where it lies in the working directory."""
    inside = path.startswith(cwd.rstrip("/") + "/")
    return path[len(cwd.rstrip("/")) + 1 :] if inside else path
