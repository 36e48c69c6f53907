"""The workspace that keeps what is written over does all that a workspace must, and tools do not notice."""

import errno
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from desk import ENVIRONMENT
from stage import Stage

import tugline
from tugline.config.folders import make_private
from tugline.ports import Workspace, WorkspaceError
from tugline.protocol.ids import CallId
from tugline.protocol.records import FilesChanged
from tugline.rules.changes import changes
from tugline.runtime.checkpointed import Keeping
from tugline.runtime.checkpoints import Checkpoints
from tugline.stores.contents import Contents
from tugline.testing import ScriptedProvider
from tugline.testing.conformance import WorkspaceConformance
from tugline.workspaces import files
from tugline.workspaces.local import LocalWorkspace


def keeping(folder: str) -> tuple[Keeping, Stage, Contents]:
    stage = Stage(ScriptedProvider([]))
    contents = Contents(f"{folder}-kept", make_private)
    checkpoints = Checkpoints(stage.transcript, stage.voice, contents, lambda: (), root=folder, limit=1_000)
    return Keeping(LocalWorkspace([folder], environment=ENVIRONMENT), CallId("c1"), checkpoints), stage, contents


class TestKeeping(WorkspaceConformance):
    """What every workspace must do."""

    @asynccontextmanager
    async def workspace(self) -> AsyncIterator[Workspace]:
        with tempfile.TemporaryDirectory() as folder:
            yield keeping(str(Path(folder).resolve()))[0]


async def test_a_write_is_on_record_before_it_is_made_and_taken_back_where_it_was_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace, stage, contents = keeping(str(tmp_path))
    path = tmp_path / "a"
    path.write_text("one")
    stat = await workspace.stat(str(path))
    assert stat is not None
    await workspace.write(str(path), b"two", expect=stat)
    with pytest.raises(WorkspaceError, match="exists by now"):
        await workspace.write(str(path), b"three", expect=None)
    path.write_text("by somebody else")
    with pytest.raises(WorkspaceError, match="changed meanwhile"):
        await workspace.write(str(path), b"four", expect=stat)
    path.unlink()
    (tmp_path / "kept").write_text("by somebody else")
    path.hardlink_to(tmp_path / "kept")
    stat = await workspace.stat(str(path))

    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setattr(files, "overwrite", full)
    with pytest.raises(WorkspaceError, match="no space"):
        await workspace.write(str(path), b"five", expect=stat)
    records = [record for record in stage.log.read(whole=True) if isinstance(record, FilesChanged)]
    seen = [
        tuple(state and contents.get(state.digest) for state in (one.before, one.after))
        for record in records
        for one in record.files
    ]
    assert seen == [(b"one", b"two"), (b"by somebody else", b"five"), (b"five", b"by somebody else")]
    ((one,),) = [found.files for turn in changes(records) for found in turn.sets]
    assert (one.path, one.kind) == ("a", "changed")


async def test_a_file_too_large_to_be_kept_is_written_and_that_is_said(tmp_path: Path) -> None:
    workspace, stage, _ = keeping(str(tmp_path))
    path = tmp_path / "a"
    path.write_bytes(b"x" * 1_001)
    await workspace.write(str(path), b"two", expect=await workspace.stat(str(path)))
    assert [event.text.split(" ", 1)[1] for event in stage.said(tugline.Notice)] == [
        "is too large for its content to be kept (checkpoints.maxFileBytes); there is no way back."
    ]
    (record,) = [record for record in stage.log.read(whole=True) if isinstance(record, FilesChanged)]
    assert (record.files[0].kept, path.read_bytes()) == (False, b"two")
