"""The store of former contents: whole or not there, shared, private, and cleared of what nobody needs."""

import errno
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tugline.config.folders import make_private
from tugline.protocol.errors import SessionError
from tugline.protocol.ids import AgentId, SessionId
from tugline.protocol.records import FORMAT, FileChange, FilesChanged, FileState, Opened
from tugline.rules.rewinding import digest_of
from tugline.stores.contents import GRACE, LEFT_BEHIND, Contents, checkpoints_folder, prune
from tugline.stores.jsonl import JsonlLog


@pytest.fixture
def contents(tmp_path: Path) -> Contents:
    return Contents(str(tmp_path / "checkpoints/shop-1"), make_private)


@given(data=st.binary(max_size=2_000))
def test_a_content_is_called_as_git_calls_it(data: bytes) -> None:
    assert len(digest_of(data)) == 40
    assert digest_of(b"") == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
    assert digest_of(b"hello\n") == "ce013625030ba8dba906f756967f9e9ca394464a"


def test_what_is_kept_comes_back_and_is_kept_once(contents: Contents) -> None:
    names = {contents.put(data) for data in (b"a", b"b", b"a", b"")}
    assert len(names) == 3
    assert [contents.get(digest_of(data)) for data in (b"a", b"b", b"")] == [b"a", b"b", b""]
    assert contents.get(digest_of(b"c")) is None
    files = [path for path in Path(contents.folder).rglob("*") if path.is_file()]
    assert len(files) == 3
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    assert {path.stat().st_mode & 0o777 for path in Path(contents.folder).rglob("*") if path.is_dir()} == {0o700}


def test_git_can_read_what_is_kept(contents: Contents) -> None:
    digest = contents.put(b"a content\n")
    environ = {**os.environ, "GIT_OBJECT_DIRECTORY": contents.objects}
    subprocess.run(["git", "init", "-q", contents.folder], check=True, env=environ)
    said = subprocess.run(["git", "cat-file", "blob", digest], check=True, capture_output=True, cwd=contents.folder,
                          env=environ)  # fmt: skip
    assert said.stdout == b"a content\n"


@pytest.mark.parametrize("damage", [b"", b"garbage", b"x\x9c\x03\x00\x00\x00\x00\x01"])
def test_a_damaged_content_counts_as_missing_and_is_mended_when_it_comes_again(
    contents: Contents, damage: bytes
) -> None:
    digest = contents.put(b"data")
    path = Path(contents.objects, digest[:2], digest[2:])
    path.write_bytes(damage)
    assert contents.get(digest) is None
    contents.put(b"data")
    assert contents.get(digest) == b"data"


def test_a_content_under_a_wrong_name_counts_as_missing(contents: Contents) -> None:
    one, other = contents.put(b"one"), contents.put(b"other")
    Path(contents.objects, one[:2], one[2:]).replace(Path(contents.objects, other[:2], other[2:]))
    assert contents.get(other) is None


@pytest.mark.parametrize("name", ["", "../../etc/passwd", "A" * 40, "0" * 39, "0" * 40 + "\n"])
def test_what_is_no_name_of_a_content_leads_nowhere(contents: Contents, name: str) -> None:
    assert contents.get(name) is None
    assert not contents.has(name)


def test_many_may_keep_the_same_at_once(contents: Contents) -> None:
    with ThreadPoolExecutor(8) as threads:
        names = set(threads.map(lambda number: contents.put(b"x" * (number % 3)), range(60)))
    assert len(names) == 3
    assert not list(Path(contents.folder).rglob("tmp_*"))


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_what_cannot_be_kept_is_said_and_leaves_nothing(
    contents: Contents, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(fd: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SessionError, match=r"cannot be kept in .*checkpoints.enabled"):
        contents.put(b"data")
    assert not [path for path in Path(contents.folder).rglob("*") if path.is_file()]


KILLED = """
import os, signal, sys
from tugline.stores.contents import Contents
real, count = {}, 0
def dying(name):
    def call(*arguments, **named):
        global count
        count += 1
        if count == int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)
        return real[name](*arguments, **named)
    return call
for name in ("open", "fsync", "replace", "mkdir", "close"):
    real[name] = getattr(os, name)
    setattr(os, name, dying(name))
Contents(sys.argv[1]).put(b"data" * 10_000)
print("kept")
"""


def test_a_process_killed_while_it_keeps_something_leaves_it_whole_or_not_there(contents: Contents) -> None:
    killed = 0
    for number in range(1, 20):
        folder = f"{contents.folder}-{number}"
        command = [sys.executable, "-c", KILLED, folder, str(number)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        store = Contents(folder)
        digest = digest_of(b"data" * 10_000)
        assert store.get(digest) == (b"data" * 10_000 if store.has(digest) else None)
        store.put(b"data" * 10_000)
        assert store.get(digest) == b"data" * 10_000
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL
        killed += 1
    assert killed >= 4


# -- what nobody needs any more


class Shop:
    """A project's sessions and contents."""

    def __init__(self, folder: Path) -> None:
        self.sessions, self.checkpoints = folder / "sessions", folder / "checkpoints"
        self.contents = Contents(str(self.checkpoints / "shop-1"), make_private)

    def transcript(self, name: str, *, archived: bool = False) -> str:
        return str(self.sessions / "shop-1" / ("archive" if archived else "") / f"{name}.jsonl")

    def session(self, name: str, *data: bytes, archived: bool = False) -> JsonlLog:
        log = JsonlLog.create(self.transcript(name, archived=archived))
        log.append(Opened(format=FORMAT, session=SessionId(name), agent=AgentId("main"), cwd="/", version="1"))
        states = [FileState(self.contents.put(one)) for one in data]
        log.append(FilesChanged(files=tuple(FileChange("x", state, None) for state in states)))
        return log

    def age(self, seconds: float = 2 * GRACE) -> None:
        for path in self.checkpoints.rglob("*"):
            os.utime(path, (time.time() - seconds,) * 2)

    def prune(self, **given: Any) -> int:
        return prune(str(self.checkpoints), str(self.sessions), **given).contents

    def kept(self) -> int:
        return len(list(Path(self.contents.objects).glob("??/*")))


async def test_what_a_transcript_names_stays_and_the_rest_goes_when_it_is_old(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    await shop.session("one", b"one").aclose()
    await shop.session("two", b"two", archived=True).aclose()
    shop.contents.put(b"nobody's")
    assert shop.prune() == 0
    shop.age()
    assert (shop.prune(dry_run=True), shop.kept()) == (1, 3)
    assert (shop.prune(), shop.kept()) == (1, 2)
    os.unlink(shop.transcript("one"))
    assert (shop.prune(), shop.contents.get(digest_of(b"two"))) == (1, b"two")
    os.unlink(shop.transcript("two", archived=True))
    assert shop.prune() == 1
    assert not (shop.checkpoints / "shop-1").exists()


async def test_what_a_running_or_a_killed_session_may_need_stays(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    log = shop.session("one")
    work = Path(shop.contents.folder, "work/one/0")
    work.mkdir(parents=True)
    (work / "HEAD").write_text("")
    shop.contents.put(b"seen by a look")
    shop.age()
    os.utime(work / "HEAD", (time.time() - 3 * GRACE,) * 2)
    assert (shop.prune(), shop.kept()) == (0, 1)
    await log.aclose()
    assert (shop.prune(), work.exists()) == (0, True)
    Path(shop.transcript("one")).unlink()
    (work / "running").write_text("")
    assert work.exists()
    shop.prune()
    assert work.exists()  # of a branch that is in use: its folder has the name of the session it came from
    shop.age(2 * LEFT_BEHIND)
    shop.prune()
    assert (work.exists(), shop.kept()) == (False, 0)


async def test_a_project_with_a_transcript_that_cannot_be_read_is_left_alone(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    await shop.session("one", b"one").aclose()
    Path(shop.transcript("link")).symlink_to("/etc/passwd")
    shop.age()
    found = prune(str(shop.checkpoints), str(shop.sessions))
    assert (found.contents, shop.kept(), len(found.problems)) == (0, 1, 1)


def test_nothing_kept_is_nothing_to_prune(tmp_path: Path) -> None:
    assert prune(str(tmp_path / "a"), str(tmp_path / "b")).contents == 0


def test_an_archived_session_keeps_with_its_project() -> None:
    assert checkpoints_folder("/c", "/s/shop-1/one.jsonl") == "/c/shop-1"
    assert checkpoints_folder("/c", "/s/shop-1/archive/one.jsonl") == "/c/shop-1"
