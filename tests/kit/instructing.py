"""A project with files of instructions, and what is read of it."""

import os
from pathlib import Path
from typing import Any

from tugline.context.gathering import Disk, Gathered, Scheme, gather
from tugline.workspaces import files, paths

DISK = Disk(resolve=paths.resolve, stat=files.stat_file, read=files.read_file, entries=files.list_folder)


class Project:
    """`repo` is the project, `home` the person's."""

    def __init__(self, folder: Path) -> None:
        self.top = Path(os.path.realpath(folder))
        self.repo = self.top / "repo"
        self.home = self.top / "home"
        self.repo.mkdir()
        self.home.mkdir()

    def file(self, name: str, content: str | bytes = "") -> Path:
        """Put a file into the project, or (`../home/…`) beside it."""
        path = Path(os.path.normpath(self.repo / name))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def link(self, name: str, target: str) -> Path:
        path = self.repo / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)
        return path

    def scheme(self, cwd: str = "", **given: Any) -> Scheme:
        own = ((str(self.home / ".config/tugline"), False), (str(self.home / ".claude"), True))
        plain: dict[str, Any] = {
            "cwd": str(self.repo / cwd) if cwd else str(self.repo),
            "project_root": str(self.repo),
            "home": str(self.home),
            "names": ("AGENTS.md", "CLAUDE.md"),
            "own": own,
            "trusted": True,
        }
        return Scheme(**{**plain, **given})

    def gather(self, cwd: str = "", **given: Any) -> Gathered:
        return gather(DISK, self.scheme(cwd, **given))

    def name(self, path: str) -> str:
        """A path as the tests write it."""
        return os.path.relpath(path, self.repo)

    def loaded(self, cwd: str = "", **given: Any) -> list[str]:
        return [self.name(one.file.path) for one in self.gather(cwd, **given).loaded]

    def left_out(self, cwd: str = "", **given: Any) -> dict[str, str]:
        return {self.name(one.path): one.why for one in self.gather(cwd, **given).left_out if not one.silent}
