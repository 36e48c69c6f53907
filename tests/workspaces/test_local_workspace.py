"""The local workspace: what tools see of this machine."""

import os
import threading
from pathlib import Path

import anyio
import pytest

from tugline.ports import FileStat, Workspace, WorkspaceError
from tugline.workspaces import files
from tugline.workspaces.local import LocalWorkspace


@pytest.fixture
def workspace(tmp_path: Path) -> LocalWorkspace:
    return LocalWorkspace([str(tmp_path)], environment={"PATH": os.environ["PATH"], "A": "1"})


def test_its_roots_are_resolved(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    made: Workspace = LocalWorkspace([str(tmp_path / "link"), str(tmp_path)], environment={})
    assert made.roots == (os.path.realpath(tmp_path / "real"), os.path.realpath(tmp_path))
    with pytest.raises(ValueError, match="at least one root"):
        LocalWorkspace([])


async def test_links_are_followed_to_what_they_mean(workspace: LocalWorkspace, tmp_path: Path) -> None:
    (tmp_path / "real.txt").write_text("one")
    (tmp_path / "link").symlink_to("real.txt")
    target = os.path.realpath(tmp_path / "real.txt")
    data, stat = await workspace.read(str(tmp_path / "link"))
    assert (data, stat.path) == (b"one", target)
    assert await workspace.stat(str(tmp_path / "link")) == stat
    written = await workspace.write(str(tmp_path / "link"), b"two", expect=stat)
    assert written == FileStat(target, "file", 3, os.stat(target).st_mtime_ns, stat.mode)
    assert (tmp_path / "link").is_symlink()
    assert await workspace.entries(str(tmp_path)) == [("link", "file"), ("real.txt", "file")]


async def test_relative_paths_are_refused(workspace: LocalWorkspace) -> None:
    with pytest.raises(WorkspaceError, match="absolute paths only"):
        await workspace.read("a.txt")


async def test_a_write_that_is_interrupted_is_still_whole(
    workspace: LocalWorkspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    real = files._write_all

    def slow(descriptor: int, data: bytes) -> None:
        begun.set()
        go_on.wait(10)
        real(descriptor, data)

    monkeypatch.setattr(files, "_write_all", slow)
    async with anyio.create_task_group() as tasks:

        async def write() -> None:
            await workspace.write(str(tmp_path / "a"), b"whole", expect=None)

        tasks.start_soon(write)
        await anyio.to_thread.run_sync(begun.wait, 10)
        tasks.cancel_scope.cancel()
        go_on.set()
    assert (tmp_path / "a").read_bytes() == b"whole"
    assert os.listdir(tmp_path) == ["a"]


async def test_a_read_that_hangs_does_not_hold_up_an_interrupt(
    workspace: LocalWorkspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()
    monkeypatch.setattr(files, "stat_file", lambda target: release.wait(20))
    try:
        with anyio.move_on_after(0.05) as scope:
            await workspace.stat(str(tmp_path))
        assert scope.cancelled_caught
    finally:
        release.set()


async def test_of_many_writers_with_the_same_expectation_one_wins(workspace: LocalWorkspace, tmp_path: Path) -> None:
    won: list[int] = []

    async def write(number: int) -> None:
        try:
            await workspace.write(str(tmp_path / "a"), b"%d" % number, expect=None)
        except WorkspaceError as error:
            assert error.kind == "changed"  # noqa: PT017  # in a task of its own
        else:
            won.append(number)

    async with anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(write, number)
    assert len(won) == 1
    assert (tmp_path / "a").read_bytes() == b"%d" % won[0]


async def test_processes_get_the_environment_of_the_workspace(workspace: LocalWorkspace, tmp_path: Path) -> None:
    argv = ["/bin/sh", "-c", 'echo "$A $B $PWD"']
    async with workspace.process(argv, cwd=str(tmp_path), env={"B": "2"}) as process:
        assert (await process.wait()).status == 0
        assert process.output().head == f"1 2 {tmp_path}\n"
