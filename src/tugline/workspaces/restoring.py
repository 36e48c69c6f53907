"""Puts files to what they were: whole or not at all, and never through a link."""

import os
import stat
from collections.abc import Collection
from contextlib import suppress

from tugline.ports import WorkspaceError
from tugline.protocol.records import FileState
from tugline.rules.rewinding import digest_of
from tugline.workspaces import files
from tugline.workspaces.paths import refusal

_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW


def look_at(path: str, limit: int) -> tuple[FileState | None, bytes | None]:
    """What stands at a path, and its content (`None` beyond `limit` bytes). `WorkspaceError` says what is there, or in
    the way to it, that is neither a file nor a link."""
    try:
        with files.opened_folder(path) as (folder, name):
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISLNK(found.st_mode):
                data = os.fsencode(os.readlink(name, dir_fd=folder))
                return FileState(digest_of(data), 0o777, link=True), data
        if stat.S_ISDIR(found.st_mode):
            raise WorkspaceError("folder", f"{path}: there is a folder now.")
        mode = stat.S_IMODE(found.st_mode)
        if found.st_size > limit:
            return FileState("", mode), None
        data, _ = files.read_file(path)
        return FileState(digest_of(data), mode), data
    except FileNotFoundError:
        return None, None
    except NotADirectoryError:
        raise WorkspaceError("folder", f"{path}: a file stands where its folder was.") from None
    except OSError as error:
        raise refusal(error, path) from None


def put(path: str, data: bytes, mode: int, *, link: bool = False) -> None:
    """Have this file there, and its folders. A folder in its place is not replaced."""
    try:
        files.make_parents(path)
        with files.opened_folder(path) as (folder, name):
            temp = f".tugline-{os.urandom(8).hex()}.tmp"
            try:
                if link:
                    os.symlink(data, os.fsencode(temp), dir_fd=folder)
                elif _shared(folder, name):
                    _put_in_place(folder, name, data, mode)
                    return
                else:
                    _put_new(folder, temp, data, mode)
                os.rename(temp, name, src_dir_fd=folder, dst_dir_fd=folder)
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(temp, dir_fd=folder)
            files.sync_folder(folder)
    except OSError as error:
        raise refusal(error, path) from None


def remove(path: str, root: str) -> None:
    """Have no file there, and no folder below `root` that is left empty by that."""
    try:
        with files.opened_folder(path) as (folder, name):
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)
            files.sync_folder(folder)
    except FileNotFoundError:
        return
    except OSError as error:
        raise refusal(error, path) from None
    above = os.path.dirname(path)
    with suppress(OSError):
        while above.startswith(root + "/"):
            with files.opened_folder(above) as (folder, name):
                os.rmdir(name, dir_fd=folder)
            above = os.path.dirname(above)


def would_be_free(path: str, removed: Collection[str]) -> bool:
    """Whether nothing stands at a path, nor in the way to it, once these files are removed, but folders without a file
    in them."""
    above = os.path.dirname(path)
    while len(above) > 1:
        if above in removed:
            return True
        above = os.path.dirname(above)
    return os.path.isdir(path) and all(
        os.path.join(folder, name) in removed
        for folder, folders, names in os.walk(path)
        for name in (*names, *(one for one in folders if os.path.islink(os.path.join(folder, one))))
    )


def clear(path: str) -> None:
    """Remove a folder that has nothing but folders in it. `WorkspaceError` if there is more."""
    try:
        for folder, _, _ in list(os.walk(path, topdown=False)):
            os.rmdir(folder)
    except OSError as error:
        raise refusal(error, path) from None


def _shared(folder: int, name: str) -> bool:
    """Whether the file has other names, which are to have the same content."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_nlink > 1


def _put_in_place(folder: int, name: str, data: bytes, mode: int) -> None:
    files.overwrite(folder, name, data)
    os.chmod(name, mode, dir_fd=folder)


def _put_new(folder: int, temp: str, data: bytes, mode: int) -> None:
    fd = os.open(temp, _WRITE, 0o600, dir_fd=folder)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
        file.flush()
        os.fchmod(fd, mode)
        os.fsync(fd)
