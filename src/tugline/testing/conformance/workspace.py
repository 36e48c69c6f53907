"""What every workspace must do with files and processes."""

import os
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio

from tugline.ports import FileStat, Workspace, WorkspaceError

PATIENCE = 20.0


class WorkspaceConformance:
    """Subclass it and give `workspace`: a workspace over an empty folder, made anew for each test. It needs a shell,
    and `sleep`, on its path."""

    def workspace(self) -> AbstractAsyncContextManager[Workspace]:
        """A workspace whose first root is an empty folder."""
        raise NotImplementedError

    # files

    async def test_what_is_written_can_be_read(self) -> None:
        """Bytes come back as they were, and parents are made."""
        async with self.workspace() as workspace:
            path = _below(workspace, "a", "b.txt")
            data = "naïve\r\n😀\0".encode()
            written = await workspace.write(path, data, expect=None)
            assert await workspace.read(path) == (data, written)
            assert written == await workspace.stat(path)
            assert (written.kind, written.size) == ("file", len(data))

    async def test_a_part_of_a_file_can_be_read(self) -> None:
        """From an offset, so many bytes; beyond the end there is nothing."""
        async with self.workspace() as workspace:
            path = _below(workspace, "a")
            await workspace.write(path, b"0123456789", expect=None)
            parts = [(3, 4), (8, 100), (10, 1), (100, 1)]
            read = [(await workspace.read(path, offset=offset, limit=limit))[0] for offset, limit in parts]
            assert read == [b"3456", b"89", b"", b""]
            assert (await workspace.read(path, offset=7))[0] == b"789"

    async def test_a_file_that_is_there_is_not_made_anew(self) -> None:
        """`expect=None` means: must not exist."""
        async with self.workspace() as workspace:
            path = _below(workspace, "a")
            await workspace.write(path, b"old", expect=None)
            assert await _refusal(workspace.write(path, b"new", expect=None)) in ("changed", "exists")
            assert (await workspace.read(path))[0] == b"old"

    async def test_a_file_is_replaced_only_if_it_is_still_the_one_expected(self) -> None:
        """A change in between is not overwritten."""
        async with self.workspace() as workspace:
            path = _below(workspace, "a")
            first = await workspace.write(path, b"one", expect=None)
            second = await workspace.write(path, b"second", expect=first)
            assert await _refusal(workspace.write(path, b"three", expect=first)) == "changed"
            assert (await workspace.read(path))[0] == b"second"
            gone = FileStat(second.path, second.kind, second.size, second.mtime_ns - 1, second.mode)
            assert await _refusal(workspace.write(path, b"three", expect=gone)) == "changed"

    async def test_what_is_not_there_is_said_so(self) -> None:
        """`stat` gives nothing; reading and listing name it."""
        async with self.workspace() as workspace:
            path = _below(workspace, "none", "at all")
            assert await workspace.stat(path) is None
            assert await _refusal(workspace.read(path)) == "missing"
            assert await _refusal(workspace.entries(path)) == "missing"

    async def test_a_folder_is_no_file_and_a_file_no_folder(self) -> None:
        """Neither is taken for the other."""
        async with self.workspace() as workspace:
            path = _below(workspace, "folder", "file")
            await workspace.write(path, b"", expect=None)
            folder = os.path.dirname(path)
            stat = await workspace.stat(folder)
            assert stat is not None
            assert stat.kind == "folder"
            assert await _refusal(workspace.read(folder)) in ("folder", "irregular")
            assert await _refusal(workspace.write(folder, b"x", expect=stat)) in ("folder", "irregular", "changed")
            assert await _refusal(workspace.entries(path))

    async def test_entries_are_sorted_and_say_what_they_are(self) -> None:
        """Names and kinds."""
        async with self.workspace() as workspace:
            for name in ("b", "a", "C", "d/e"):
                await workspace.write(_below(workspace, *name.split("/")), b"", expect=None)
            entries = list(await workspace.entries(workspace.roots[0]))
            assert entries == sorted(entries)
            assert set(entries) == {("b", "file"), ("a", "file"), ("C", "file"), ("d", "folder")}

    async def test_a_path_that_no_system_takes_is_refused(self) -> None:
        """Also that is an answer, not a crash."""
        async with self.workspace() as workspace:
            for name in ("a\0b", "x" * 5000):
                assert await _refusal(workspace.read(_below(workspace, name)))
                assert await _refusal(workspace.write(_below(workspace, name), b"", expect=None))

    async def test_paths_are_resolved_from_the_working_directory(self) -> None:
        """Absolute, with `.` and `..` gone."""
        async with self.workspace() as workspace:
            root = workspace.roots[0]
            assert workspace.resolve("./a/../b", root)[0] == _below(workspace, "b")
            assert workspace.resolve(_below(workspace, "c"), "/")[0] == _below(workspace, "c")
            assert workspace.resolve("x", _below(workspace, "d"))[0] == _below(workspace, "d", "x")

    # processes

    async def test_a_process_tells_its_output_and_its_end(self) -> None:
        """stdout and stderr in one stream, and the status."""
        async with self.workspace() as workspace:
            status, head = await _shell(workspace, "echo out; echo err >&2; exit 3")
            assert (status, head.split()) == (3, ["out", "err"])

    async def test_a_process_has_the_folder_and_the_environment_that_it_is_given(self) -> None:
        """And nothing to read, unless it gets something."""
        async with self.workspace() as workspace:
            status, head = await _shell(workspace, 'pwd -P; echo "$MARK"; cat', env={"MARK": "a b"})
            assert (status, head.split("\n")[:2]) == (0, [os.path.realpath(workspace.roots[0]), "a b"])
            assert (await _shell(workspace, "cat", stdin=b"given"))[1] == "given"

    async def test_a_process_that_takes_too_long_is_ended(self) -> None:
        """And the end says so."""
        async with self.workspace() as workspace:
            with anyio.fail_after(PATIENCE):
                async with workspace.process(["sh", "-c", "sleep 600"], cwd=workspace.roots[0], timeout=0.2) as process:
                    end = await process.wait()
            assert end.timed_out
            assert end.status != 0

    async def test_leaving_the_context_ends_all_that_was_started(self) -> None:
        """Also children in the background, and what ignores a polite end."""
        async with self.workspace() as workspace:
            root = workspace.roots[0]
            with anyio.fail_after(PATIENCE):
                script = "trap '' TERM; sleep 600 & echo $! > pid; wait; sleep 600"
                async with workspace.process(["sh", "-c", script], cwd=root):
                    pid = b""
                    while not pid.endswith(b"\n"):
                        await anyio.sleep(0.01)
                        if await workspace.stat(_below(workspace, "pid")):
                            pid = (await workspace.read(_below(workspace, "pid")))[0]
            number = int(pid)
            # a dead one that nobody has waited for yet still has its number
            lives = f"kill -0 {number} 2>/dev/null && ! grep -q ') Z' /proc/{number}/stat 2>/dev/null"
            assert (await _shell(workspace, lives))[0] != 0

    async def test_a_program_that_is_not_there_is_said_so(self) -> None:
        """An error of the workspace, or a status: never a crash."""
        async with self.workspace() as workspace:
            words = "a status"
            try:
                async with workspace.process(["no-such-program-here"], cwd=workspace.roots[0]) as process:
                    assert (await process.wait()).status != 0
            except WorkspaceError as error:
                words = str(error)
            assert words.strip(), "the error has no words"


def _below(workspace: Workspace, *names: str) -> str:
    return os.path.join(workspace.roots[0], *names)


async def _refusal(doing: Any) -> str:
    """The kind of the error with which the workspace refuses."""
    try:
        given = await doing
    except WorkspaceError as error:
        refusal = error
    else:
        raise AssertionError(f"not refused: {given!r}")
    assert str(refusal).strip(), "the refusal has no words"
    return refusal.kind


async def _shell(workspace: Workspace, script: str, **rest: Any) -> tuple[int, str]:
    with anyio.fail_after(PATIENCE):
        async with workspace.process(["sh", "-c", script], cwd=workspace.roots[0], **rest) as process:
            end = await process.wait()
            return end.status, process.output().head
