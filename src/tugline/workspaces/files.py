"""Files of this machine: read without ever hanging, written whole or not at all.

A path is resolved first, and then opened component by component without following a link, so that nobody can put a
link in between. What is not a regular file is refused before it is opened, and again by the opened descriptor.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator, Sequence

from tugline.ports import FileStat, WorkspaceError
from tugline.workspaces.paths import is_forbidden, parts, refusal

READ_LIMIT = 256 * 1024 * 1024
"""Bytes that one read may bring into memory."""
_CHUNK = 1024 * 1024
# A folder is only passed through: it need not be readable.
_THROUGH = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_SAFE = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY


def stat_file(target: str) -> FileStat | None:
    """What the system knows of a resolved path; `None` if it does not exist."""
    try:
        return _as_stat(target, os.lstat(target))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise refusal(error, target) from None


def read_file(target: str, offset: int = 0, limit: int | None = None) -> tuple[bytes, FileStat]:
    """Bytes of a regular file, at most `READ_LIMIT` at once."""
    _refuse_special(target)
    try:
        with opened_folder(target) as (folder, name):
            _refuse_irregular(target, os.stat(name, dir_fd=folder, follow_symlinks=False))
            descriptor = os.open(name, os.O_RDONLY | _SAFE, dir_fd=folder)
        try:
            found = os.fstat(descriptor)
            _refuse_irregular(target, found)
            return _read(descriptor, target, found.st_size, offset, limit), _as_stat(target, found)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise refusal(error, target) from None


def write_file(target: str, data: bytes, expect: FileStat | None) -> FileStat:
    """Replace or create a file atomically. `expect`: what must still stand there (`None`: nothing).

    Keeps mode, owner, extended attributes, and the other names of a file that has several (in that case, and where
    a file is a mount point, it is written in place, and put back if that fails).
    """
    _refuse_special(target)
    try:
        if expect is None:
            make_parents(target)
        with opened_folder(target) as (folder, name):
            before = _expected(folder, name, target, expect)
            if before is not None and before.st_nlink > 1:
                overwrite(folder, name, data)
            else:
                _replace(folder, name, target, data, expect, before)
            return _as_stat(target, os.stat(name, dir_fd=folder, follow_symlinks=False))
    except OSError as error:
        raise refusal(error, target) from None


def list_folder(target: str) -> Sequence[tuple[str, str]]:
    """Names and kinds in a folder, sorted. A link has the kind of what it leads to."""
    try:
        with os.scandir(target) as entries:
            return sorted((entry.name, _entry_kind(entry)) for entry in entries)
    except OSError as error:
        raise refusal(error, target) from None


def _entry_kind(entry: os.DirEntry[str]) -> str:
    try:
        if entry.is_dir():
            return "folder"
        return "file" if entry.is_file() else "other"
    except OSError:
        return "other"


def _kind(mode: int) -> str:
    if stat.S_ISREG(mode):
        return "file"
    return "folder" if stat.S_ISDIR(mode) else "other"


def _as_stat(target: str, found: os.stat_result) -> FileStat:
    return FileStat(target, _kind(found.st_mode), found.st_size, found.st_mtime_ns, stat.S_IMODE(found.st_mode))


def _refuse_special(target: str) -> None:
    if is_forbidden(target):
        raise WorkspaceError("irregular", f"{target}: files below /proc, /dev and /sys are not read or written.")


def _refuse_irregular(target: str, found: os.stat_result) -> None:
    mode = found.st_mode
    if stat.S_ISREG(mode):
        return
    if stat.S_ISDIR(mode):
        raise WorkspaceError("folder", f"{target}: it is a folder.")
    if stat.S_ISLNK(mode):
        raise OSError(errno.ELOOP, "")
    kinds = ((stat.S_ISFIFO, "a named pipe"), (stat.S_ISSOCK, "a socket"))
    kind = next((words for test, words in kinds if test(mode)), "a device")
    raise WorkspaceError("irregular", f"{target}: it is {kind}, not a regular file.")


@contextlib.contextmanager
def opened_folder(target: str) -> Iterator[tuple[int, str]]:
    """A descriptor of the folder that a resolved path lies in, reached without following links; and the last name."""
    steps = parts(target)
    if not steps:
        raise WorkspaceError("folder", f"{target}: it is a folder.")
    folder = os.open("/", _THROUGH)
    try:
        for step in steps[:-1]:
            try:
                deeper = os.open(step, _THROUGH, dir_fd=folder)
            except NotADirectoryError:
                # With O_NOFOLLOW and O_DIRECTORY, this is also what a link is told to be.
                found = os.stat(step, dir_fd=folder, follow_symlinks=False)
                raise OSError(errno.ELOOP if stat.S_ISLNK(found.st_mode) else errno.ENOTDIR, "") from None
            os.close(folder)
            folder = deeper
        yield folder, steps[-1]
    finally:
        os.close(folder)


def _read(descriptor: int, target: str, size: int, offset: int, limit: int | None) -> bytes:
    wanted = READ_LIMIT if limit is None else min(limit, READ_LIMIT)
    if limit is None and size - offset > READ_LIMIT:
        raise WorkspaceError("invalid", f"{target}: with {size:,} bytes it is too big to be read at once.")
    pieces: list[bytes] = []
    got = 0
    while got < wanted:
        # One byte more than the size says: a file that has grown meanwhile is read to its end.
        piece = os.pread(descriptor, min(_CHUNK, wanted - got, max(size - offset - got + 1, 1)), offset + got)
        if not piece:
            break
        pieces.append(piece)
        got += len(piece)
    if limit is None and got >= READ_LIMIT:
        raise WorkspaceError("invalid", f"{target}: it has no end, or is too big to be read at once.")
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def make_parents(target: str) -> None:
    """Make the folders that are missing above a resolved path; none is reached through a link."""
    steps = parts(target)[:-1]
    folder = os.open("/", _THROUGH)
    try:
        for step in steps:
            try:
                deeper = os.open(step, _THROUGH, dir_fd=folder)
            except FileNotFoundError:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(step, dir_fd=folder)
                deeper = os.open(step, _THROUGH, dir_fd=folder)
            os.close(folder)
            folder = deeper
    finally:
        os.close(folder)


def _expected(folder: int, name: str, target: str, expect: FileStat | None) -> os.stat_result | None:
    """What stands there now, if it is what was expected."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        if expect is None:
            return None
        raise WorkspaceError("changed", f"{target}: it was removed meanwhile.") from None
    _refuse_irregular(target, found)
    if expect is None:
        raise WorkspaceError("changed", f"{target}: it exists by now.")
    if (found.st_size, found.st_mtime_ns) != (expect.size, expect.mtime_ns):
        raise WorkspaceError("changed", f"{target}: it was changed meanwhile.")
    # A rename needs no permission on the file itself; that it is read-only is to be respected all the same.
    if not os.access(name, os.W_OK, dir_fd=folder, effective_ids=os.access in os.supports_effective_ids):
        raise OSError(errno.EACCES, "")
    return found


def _replace(
    folder: int, name: str, target: str, data: bytes, expect: FileStat | None, before: os.stat_result | None
) -> None:
    temp = f".tugline-{os.urandom(8).hex()}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(temp, flags, 0o666 if before is None else 0o600, dir_fd=folder)
    try:
        try:
            _write_all(descriptor, data)
            if before is not None:
                _keep_attributes(folder, name, descriptor, before)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        # Once more, now that nothing slow stands between this and the rename.
        _expected(folder, name, target, expect)
        if before is None:
            _put_new(folder, temp, name, target)
        else:
            os.rename(temp, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError as error:
        if error.errno != errno.EBUSY or before is None:
            raise
        overwrite(folder, name, data)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temp, dir_fd=folder)
    sync_folder(folder)


def _put_new(folder: int, temp: str, name: str, target: str) -> None:
    """Give the temporary file its name, unless something has taken that name."""
    try:
        os.link(temp, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        raise WorkspaceError("changed", f"{target}: it exists by now.") from None
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EACCES):
            raise
        # A file system without hard links.
        os.rename(temp, name, src_dir_fd=folder, dst_dir_fd=folder)


def overwrite(folder: int, name: str, data: bytes) -> None:
    """Write in place: the file has other names, or cannot be renamed over. Puts the old bytes back if that fails."""
    descriptor = os.open(name, os.O_RDWR | _SAFE, dir_fd=folder)
    try:
        size = os.fstat(descriptor).st_size
        old = _read(descriptor, name, size, 0, None)
        try:
            if len(data) > size and hasattr(os, "posix_fallocate"):
                os.posix_fallocate(descriptor, size, len(data) - size)
            _write_all(descriptor, data)
            os.ftruncate(descriptor, len(data))
            os.fsync(descriptor)
        except OSError:
            os.lseek(descriptor, 0, os.SEEK_SET)
            _write_all(descriptor, old)
            os.ftruncate(descriptor, size)
            raise
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view[:_CHUNK]) :]


def _keep_attributes(folder: int, name: str, descriptor: int, before: os.stat_result) -> None:
    now = os.fstat(descriptor)
    if (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid):
        with contextlib.suppress(OSError):
            os.fchown(descriptor, before.st_uid, before.st_gid)
    if hasattr(os, "listxattr"):
        with contextlib.suppress(OSError):
            _copy_xattrs(folder, name, descriptor)
    os.fchmod(descriptor, stat.S_IMODE(before.st_mode))


def _copy_xattrs(folder: int, name: str, descriptor: int) -> None:
    source = os.open(name, os.O_RDONLY | _SAFE, dir_fd=folder)
    try:
        for key in os.listxattr(source):
            with contextlib.suppress(OSError):
                os.setxattr(descriptor, key, os.getxattr(source, key))
    finally:
        os.close(source)


def sync_folder(folder: int) -> None:
    """Make the new name durable. Some file systems cannot sync a folder; the file itself is safe."""
    with contextlib.suppress(OSError):
        readable = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
        try:
            os.fsync(readable)
        finally:
            os.close(readable)
