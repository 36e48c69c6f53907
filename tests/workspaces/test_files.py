"""Files: read without hanging, written whole or not at all."""

import errno
import os
import resource
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tugline.ports import FileStat, WorkspaceError
from tugline.workspaces import files
from tugline.workspaces.files import list_folder, read_file, stat_file, write_file


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return os.path.realpath(tmp_path)


def put(path: str, data: bytes) -> FileStat:
    Path(path).write_bytes(data)
    found = stat_file(path)
    assert found is not None
    return found


def kind_of(caught: pytest.ExceptionInfo[WorkspaceError]) -> str:
    return caught.value.kind


@contextmanager
def refused(kind: str) -> Iterator[None]:
    with pytest.raises(WorkspaceError) as caught:
        yield
    assert kind_of(caught) == kind


@contextmanager
def small_disk(folder: str) -> Iterator[str]:
    """A file system of 256 kB, or a process that may write no more: whichever works here."""
    disk = f"{folder}/disk"
    Path(disk).mkdir()
    mount = shutil.which("mount")
    command = [mount or "", "-t", "tmpfs", "-o", "size=256k", "none", disk]
    if mount and os.geteuid() == 0 and subprocess.run(command, capture_output=True, check=False).returncode == 0:
        try:
            yield disk
        finally:
            subprocess.run(["umount", disk], check=True)
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (256 * 1024, hard))
    try:
        yield disk
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_file_is_read_whole_or_in_part(folder: str) -> None:
    path = f"{folder}/a"
    known = put(path, b"0123456789")
    assert read_file(path) == (b"0123456789", known)
    assert read_file(path, 3, 4) == (b"3456", known)
    assert read_file(path, 8, 100)[0] == b"89"
    assert read_file(path, 50)[0] == b""
    assert known == FileStat(path, "file", 10, os.stat(path).st_mtime_ns, os.stat(path).st_mode & 0o7777)


def test_what_is_missing_is_no_error_to_stat_but_to_read(folder: str) -> None:
    assert stat_file(f"{folder}/a") is None
    put(f"{folder}/file", b"")
    assert stat_file(f"{folder}/file/x") is None
    with refused("missing"):
        read_file(f"{folder}/a/b")
    with refused("missing"):
        read_file(f"{folder}/file/x")


def test_too_much_at_once_is_refused(folder: str) -> None:
    path = f"{folder}/a"
    put(path, b"")
    os.truncate(path, files.READ_LIMIT + 1)
    with refused("invalid"):
        read_file(path)
    assert len(read_file(path, 5, 10)[0]) == 10


def test_what_is_not_regular_is_refused(folder: str) -> None:
    os.mkfifo(f"{folder}/pipe")
    with refused("irregular"):
        read_file(f"{folder}/pipe")
    with refused("irregular"):
        write_file(f"{folder}/pipe", b"x", FileStat(f"{folder}/pipe", "other", 0, 0, 0))
    with refused("folder"):
        read_file(folder)
    with refused("folder"):
        read_file("/")
    for path in ("/dev/zero", "/proc/self/maps", "/sys/x"):
        with refused("irregular"):
            read_file(path)
        with refused("irregular"):
            write_file(path, b"", None)


def test_a_device_elsewhere_is_refused_too(folder: str) -> None:
    try:
        os.mknod(f"{folder}/zero", stat.S_IFCHR | 0o666, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("only root may make devices, and not everywhere")
    with refused("irregular"):
        read_file(f"{folder}/zero")


@pytest.mark.parametrize("swapped", ["sub/a", "sub"])
def test_a_link_that_was_put_in_between_is_not_followed(folder: str, swapped: str) -> None:
    Path(f"{folder}/sub").mkdir()
    Path(f"{folder}/secret").mkdir()
    known = put(f"{folder}/sub/a", b"mine")
    put(f"{folder}/secret/a", b"not yours")
    link = Path(folder, swapped)
    link.rename(f"{folder}/away")
    link.symlink_to(f"{folder}/secret" + ("/a" if swapped == "sub/a" else ""))
    with refused("changed"):
        read_file(f"{folder}/sub/a")
    with refused("changed"):
        write_file(f"{folder}/sub/a", b"x", known)
    assert Path(f"{folder}/secret/a").read_bytes() == b"not yours"


def test_folders_are_not_made_through_a_link(folder: str) -> None:
    Path(f"{folder}/secret").mkdir()
    Path(f"{folder}/sub").symlink_to("secret")
    for name in ("sub/new", "sub/deep/new"):
        with pytest.raises(WorkspaceError):
            write_file(f"{folder}/{name}", b"x", None)
    assert os.listdir(f"{folder}/secret") == []


def test_a_new_file_gets_the_usual_mode_and_its_folders(folder: str) -> None:
    made = write_file(f"{folder}/x/y/a", b"data", None)
    put(f"{folder}/other", b"")
    assert made == stat_file(f"{folder}/x/y/a")
    assert made.mode == os.stat(f"{folder}/other").st_mode & 0o7777
    assert os.listdir(f"{folder}/x/y") == ["a"]


def test_only_what_was_expected_is_replaced(folder: str) -> None:
    path = f"{folder}/a"
    known = put(path, b"one")
    with refused("changed"):
        write_file(path, b"two", None)
    os.utime(path, ns=(1, 1))
    with refused("changed"):
        write_file(path, b"two", known)
    os.unlink(path)
    with refused("changed"):
        write_file(path, b"two", known)
    assert os.listdir(folder) == []


def test_what_appears_at_the_last_moment_is_not_overwritten(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = f"{folder}/a"

    def late(source: str, target: str, **options: object) -> None:
        Path(path).write_bytes(b"somebody else's")
        raise FileExistsError(errno.EEXIST, "")

    monkeypatch.setattr(os, "link", late)
    with refused("changed"):
        write_file(path, b"mine", None)
    assert Path(path).read_bytes() == b"somebody else's"
    assert os.listdir(folder) == ["a"]


def test_a_file_system_without_hard_links_will_do(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*args: object, **options: object) -> None:
        raise PermissionError(errno.EPERM, "")

    monkeypatch.setattr(os, "link", none)
    write_file(f"{folder}/a", b"mine", None)
    assert os.listdir(folder) == ["a"]


def test_mode_owner_and_attributes_are_kept(folder: str) -> None:
    path = f"{folder}/a"
    put(path, b"one")
    os.chmod(path, 0o4711)
    if os.geteuid() == 0:
        os.chown(path, 12, 34)
        os.chmod(path, 0o4711)
    try:
        os.setxattr(path, "user.note", b"keep me")
    except OSError:
        noted = False
    else:
        noted = True
    known = stat_file(path)
    write_file(path, b"two", known)
    found = os.stat(path)
    assert found.st_mode & 0o7777 == 0o4711
    assert (found.st_uid, found.st_gid) == ((12, 34) if os.geteuid() == 0 else (os.geteuid(), found.st_gid))
    assert not noted or os.getxattr(path, "user.note") == b"keep me"


def test_readers_see_the_old_or_the_new_file_and_never_a_part(folder: str) -> None:
    path = f"{folder}/a"
    known = put(path, b"old" * 100_000)
    with open(path, "rb") as reader:
        first = reader.read(3)
        write_file(path, b"new" * 100_000, known)
        assert first + reader.read() == b"old" * 100_000
    assert Path(path).read_bytes() == b"new" * 100_000


@pytest.mark.parametrize("new", [b"longer than before", b"x", b""])
def test_a_file_of_several_names_keeps_them(folder: str, new: bytes) -> None:
    path = f"{folder}/a"
    put(path, b"before")
    os.link(path, f"{folder}/b")
    inode = os.stat(path).st_ino
    write_file(path, new, stat_file(path))
    assert Path(f"{folder}/b").read_bytes() == new
    assert os.stat(path).st_ino == inode


@pytest.mark.parametrize("linked", [False, True])
def test_a_full_disk_leaves_the_file_as_it_was(folder: str, linked: bool) -> None:
    with small_disk(folder) as disk:
        known = put(f"{disk}/a", b"old" * 1_000)
        if linked:
            os.link(f"{disk}/a", f"{disk}/b")
        with refused("full"):
            write_file(f"{disk}/a", b"x" * 1_000_000, known)
        with refused("full"):
            write_file(f"{disk}/new", b"x" * 1_000_000, None)
        assert Path(f"{disk}/a").read_bytes() == b"old" * 1_000
        assert os.listdir(disk) == (["a", "b"] if linked else ["a"]) or set(os.listdir(disk)) == {"a", "b"}
        write_file(f"{disk}/a", b"new", stat_file(f"{disk}/a"))
        assert Path(f"{disk}/a").read_bytes() == b"new"


def test_a_write_in_place_that_fails_half_way_is_taken_back(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = f"{folder}/a"
    put(path, b"the old content")
    os.link(path, f"{folder}/b")
    real = files._write_all

    def failing(descriptor: int, data: bytes) -> None:
        real(descriptor, data[:4])
        monkeypatch.setattr(files, "_write_all", real)
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(files, "_write_all", failing)
    with refused("invalid"):
        write_file(path, b"NEW AND MUCH LONGER CONTENT", stat_file(path))
    assert Path(path).read_bytes() == b"the old content"


def test_what_changes_while_the_new_file_is_written_is_not_overwritten(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"{folder}/a"
    known = put(path, b"one")
    monkeypatch.setattr(os, "fsync", lambda descriptor: Path(path).write_bytes(b"somebody else's"))
    with refused("changed"):
        write_file(path, b"two", known)
    assert Path(path).read_bytes() == b"somebody else's"
    assert os.listdir(folder) == ["a"]


def test_a_mount_point_is_written_in_place(folder: str) -> None:
    known = put(f"{folder}/a", b"one")
    put(f"{folder}/source", b"two")
    command = ["mount", "--bind", f"{folder}/source", f"{folder}/a"]
    if (
        os.geteuid()
        or not shutil.which("mount")
        or subprocess.run(command, capture_output=True, check=False).returncode
    ):
        pytest.skip("only root may mount, and not everywhere")
    try:
        found = stat_file(f"{folder}/a")
        assert found != known
        write_file(f"{folder}/a", b"three", found)
        assert Path(f"{folder}/source").read_bytes() == b"three"
        assert sorted(os.listdir(folder)) == ["a", "source"]
    finally:
        subprocess.run(["umount", f"{folder}/a"], check=True)


def test_a_read_only_file_system_is_a_plain_error(folder: str) -> None:
    Path(f"{folder}/ro").mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "ro", "none", f"{folder}/ro"]
    if (
        os.geteuid()
        or not shutil.which("mount")
        or subprocess.run(command, capture_output=True, check=False).returncode
    ):
        pytest.skip("only root may mount, and not everywhere")
    try:
        with refused("denied"):
            write_file(f"{folder}/ro/a", b"x", None)
        with refused("denied"):
            write_file(f"{folder}/ro/sub/a", b"x", None)
    finally:
        subprocess.run(["umount", f"{folder}/ro"], check=True)


def test_what_is_read_only_stays_as_it_is(folder: str) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everything")
    known = put(f"{folder}/a", b"one")
    os.chmod(f"{folder}/a", 0o444)
    with refused("denied"):
        write_file(f"{folder}/a", b"two", known)
    os.chmod(folder, 0o555)
    try:
        with refused("denied"):
            write_file(f"{folder}/new", b"x", None)
    finally:
        os.chmod(folder, 0o755)


@pytest.fixture
def stranger() -> Iterator[str]:
    """A folder that everybody may enter, and rights that are nobody's."""
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else; without root the test above says the same")
    folder = os.path.realpath(tempfile.mkdtemp())
    os.chmod(folder, 0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@contextmanager
def without_rights() -> Iterator[None]:
    os.setegid(12345)
    os.seteuid(12345)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


def test_a_user_without_rights_gets_plain_errors(stranger: str) -> None:
    put(f"{stranger}/secret", b"x")
    os.chmod(f"{stranger}/secret", 0o600)
    put(f"{stranger}/readable", b"x")
    Path(f"{stranger}/mine").mkdir()
    os.chown(f"{stranger}/mine", 12345, 12345)
    put(f"{stranger}/mine/a", b"x")
    os.chmod(f"{stranger}/mine/a", 0o444)
    os.chown(f"{stranger}/mine/a", 12345, 12345)
    with without_rights():
        with refused("denied"):
            read_file(f"{stranger}/secret")
        for path in (f"{stranger}/readable", f"{stranger}/mine/a"):
            with refused("denied"):
                write_file(path, b"y", stat_file(path))
        with refused("denied"):
            write_file(f"{stranger}/new", b"y", None)
        write_file(f"{stranger}/mine/b", b"y", None)
    assert sorted(os.listdir(f"{stranger}/mine")) == ["a", "b"]


def test_a_folder_is_listed_in_order_with_kinds(folder: str) -> None:
    put(f"{folder}/b", b"")
    Path(f"{folder}/a").mkdir()
    os.mkfifo(f"{folder}/d")
    Path(folder, "c").symlink_to("a")
    Path(folder, "e").symlink_to("nowhere")
    assert list_folder(folder) == [("a", "folder"), ("b", "file"), ("c", "folder"), ("d", "other"), ("e", "other")]
    with refused("missing"):
        list_folder(f"{folder}/x")
    with refused("missing"):
        list_folder(f"{folder}/b")


@given(st.binary(max_size=200), st.binary(max_size=200), st.booleans())
def test_what_is_written_is_what_is_read(
    tmp_path_factory: pytest.TempPathFactory, first: bytes, second: bytes, linked: bool
) -> None:
    path = os.path.join(os.path.realpath(tmp_path_factory.getbasetemp()), f"round-{os.getpid()}")
    for name in (path, f"{path}-b"):
        if os.path.exists(name):
            os.unlink(name)
    made = write_file(path, first, None)
    assert read_file(path) == (first, made)
    if linked:
        os.link(path, f"{path}-b")
    again = write_file(path, second, made)
    assert read_file(path) == (second, again)
