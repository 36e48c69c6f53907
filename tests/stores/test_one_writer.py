"""Who may write a transcript: real processes at the same file at the same time."""

import asyncio
import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from shelf import Shelf, opened, said

from tugline.protocol.errors import SessionError
from tugline.protocol.records import Titled
from tugline.stores import shelf as shelves
from tugline.stores.jsonl import JsonlLog
from tugline.stores.locks import Busy, held, is_busy
from tugline.stores.sessions import entry_at

HOLD = """
import sys
from tugline.stores.locks import held
with held(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


def holding(path: Path) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    return process


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return Shelf(tmp_path).write("s-1", [opened("s-1"), said("m1", "Hello")])


def test_another_process_keeps_everybody_out_and_its_end_lets_them_in(path: Path) -> None:
    entry = entry_at(str(path))
    before = path.read_bytes()
    process = holding(path)
    try:
        assert is_busy(str(path))
        for work in (
            lambda: shelves.remove(entry),
            lambda: shelves.put_aside(entry),
            lambda: shelves.rename(entry, "No", 0.0),
            lambda: JsonlLog.resume(str(path)),
        ):
            with pytest.raises(SessionError, match="in use"):
                work()
    finally:
        process.kill()
        process.communicate()
    assert path.read_bytes() == before
    shelves.rename(entry, "Yes", 0.0)
    assert b'"Yes"' in path.read_bytes()


def test_who_only_asks_does_not_turn_a_writer_away(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_SH)
    loop = asyncio.new_event_loop()
    try:
        loop.run_in_executor(None, os.close, fd)  # the look at it is over before long
        log, _ = JsonlLog.resume(str(path))
        loop.run_until_complete(log.aclose())
    finally:
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


async def test_a_transcript_that_was_removed_or_moved_meanwhile_is_not_written_any_more(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = fcntl.flock

    def removed_first(fd: int, what: int) -> None:
        # between the opening of the file and the lock somebody else had the lock, and took the file away
        path.rename(path.with_name("gone.jsonl"))
        real(fd, what)

    monkeypatch.setattr(fcntl, "flock", removed_first)
    with pytest.raises(SessionError, match="moved or removed meanwhile"):
        JsonlLog.resume(str(path))


def test_all_that_belongs_to_a_session_moves_and_goes_with_it(path: Path) -> None:
    beside = path.with_suffix("")
    beside.mkdir()
    (beside / "agents").mkdir()
    (beside / "agents" / "a.jsonl").write_text("{}\n")
    path.with_name(path.name + ".torn").write_text("torn")
    archived = Path(shelves.put_aside(entry_at(str(path))))
    assert sorted(p.name for p in archived.parent.iterdir()) == ["s-1", "s-1.jsonl", "s-1.jsonl.torn"]
    entry = entry_at(str(archived))
    assert (entry.archived, entry.folder) == (True, str(path.parent))
    assert shelves.kept_bytes(entry) > entry.size
    shelves.remove(entry)
    assert list(archived.parent.iterdir()) == []


def test_what_lies_behind_a_link_beside_a_session_is_not_removed(path: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "a.txt").write_text("a")
    path.with_suffix("").symlink_to(precious)
    assert shelves.kept_bytes(entry_at(str(path))) == path.stat().st_size
    shelves.remove(entry_at(str(path)))
    assert (precious / "a.txt").exists()
    assert not path.with_suffix("").is_symlink()


def test_a_name_goes_behind_a_torn_end_that_is_kept(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b'{"kind":"said","mess')
    shelves.rename(entry_at(str(path)), "Named", 1.0)
    lines = path.read_bytes().splitlines()
    assert b'"Named"' in lines[-1]
    assert b'"n":3' in lines[-1]
    assert path.with_name(path.name + ".torn").read_bytes() == b'{"kind":"said","mess\n'


async def test_a_writer_that_goes_on_in_another_file_lets_go_of_the_first(path: Path) -> None:
    other = path.with_name("s-2.jsonl")
    shelves.fork(str(path), str(other), entry_at(str(path)).session, 0.0)
    log, _ = JsonlLog.resume(str(path))
    before = path.read_bytes()
    await log.go_on_in(JsonlLog.add_to(str(other)))
    log.append(Titled(title="In the other"))
    with held(str(path)):
        pass
    with pytest.raises(Busy):
        JsonlLog.resume(str(other))
    await log.aclose()
    assert path.read_bytes() == before
    assert [json.loads(line)["n"] for line in other.read_bytes().splitlines()] == [1, 2, 3, 4]
