"""Somebody swaps folders and files for links while they are read and written: nothing outside is ever touched."""

import os
import shutil
import threading
from pathlib import Path

import pytest

from tugline.ports import WorkspaceError
from tugline.workspaces import files
from tugline.workspaces.paths import is_inside, resolve

TRIES = 1_000


class Swapping:
    """A thread that makes `spot` a folder and a link to the outside in turn, as fast as it can."""

    def __init__(self, spot: Path, good: Path, outside: Path) -> None:
        self._spot, self._good, self._outside = spot, good, outside
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._swap)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _swap(self) -> None:
        link = self._spot.with_name("link")
        link.symlink_to(self._outside)
        while not self._ended.is_set():
            self._spot.rename(self._good)
            self._put(link, self._spot)
            self._spot.rename(link)
            self._put(self._good, self._spot)

    def _put(self, thing: Path, name: Path) -> None:
        """Give it the name, whatever a writer has made there meanwhile."""
        while True:
            try:
                thing.rename(name)
                return
            except OSError:
                shutil.rmtree(name, ignore_errors=True)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    root = Path(os.path.realpath(tmp_path))
    for name in ("w/spot", "outside"):
        (root / name).mkdir(parents=True)
    (root / "w/spot/file").write_text("inside")
    (root / "outside/file").write_text("outside")
    return root


def test_a_read_never_shows_what_lies_outside(place: Path) -> None:
    work = str(place / "w")
    with Swapping(place / "w/spot", place / "w/aside", place / "outside"):
        for _ in range(TRIES):
            try:
                target = resolve("spot/file", work)[1]
                if is_inside(target, work):
                    assert files.read_file(target)[0] == b"inside"
            except WorkspaceError:
                continue


def test_a_write_with_its_parents_never_lands_outside(place: Path) -> None:
    work = str(place / "w")
    with Swapping(place / "w/spot", place / "w/aside", place / "outside"):
        for number in range(TRIES):
            try:
                target = resolve(f"spot/deep{number % 7}/new{number}", work)[1]
                if is_inside(target, work):
                    files.write_file(target, b"x", None)
            except WorkspaceError:
                continue
    assert sorted(path.name for path in (place / "outside").rglob("*")) == ["file"]
    assert (place / "outside/file").read_text() == "outside"
