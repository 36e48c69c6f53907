"""What is kept so that changes can be taken back: the store of contents, and the work trees that are looked at."""

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tugline.app.core import Core
from tugline.config.folders import make_private
from tugline.loop.transcript import Transcript
from tugline.ports import Tool
from tugline.runtime.checkpointed import Checkpointed
from tugline.runtime.checkpoints import Checkpoints, Tree
from tugline.stores.contents import WORK, Contents, checkpoints_folder

if TYPE_CHECKING:
    from tugline.workspaces.snapshots import Shelf


def make_checkpoints(core: Core, transcript: Transcript, roots: Sequence[str]) -> Checkpoints | None:
    """`None` where they are switched off."""
    config, given = core.config, core.config.settings.checkpoints
    if not given.enabled:
        return None
    contents = Contents(checkpoints_folder(config.folders.checkpoints, core.opening.log.path), make_private)
    trees: dict[str, Tree] = {}

    def find() -> list[Tree]:
        from tugline.workspaces.git import work_tree_of  # noqa: PLC0415  imported here: start-up cost
        from tugline.workspaces.snapshots import Limits, WorkTree  # noqa: PLC0415  imported here: start-up cost

        limits = Limits(given.max_files, given.max_file_bytes, given.session_bytes, given.seconds)
        for number, place in enumerate(roots if given.commands else ()):
            root = work_tree_of(place, config.home)
            if root is not None and root not in trees:
                folder = os.path.join(contents.folder, WORK, core.session, str(number))
                trees[root] = WorkTree(root, folder, _shelf(core, contents), limits)
        return list(trees.values())

    made = Checkpoints(transcript, core.voice, contents, find, root=config.project_root, limit=given.max_file_bytes)
    core.bus.attach(made.hear)
    return made


def _shelf(core: Core, contents: Contents) -> "Shelf":
    from tugline.workspaces.git import person_excludes  # noqa: PLC0415  imported here: start-up cost
    from tugline.workspaces.snapshots import Shelf  # noqa: PLC0415  imported here: start-up cost

    return Shelf(
        data=core.config.folders.data,
        excludes=person_excludes(core.environ, core.config.home),
        search=core.environ.get("PATH", os.defpath),
        objects=contents.objects,
        put=contents.put,
        has=contents.has,
        own=contents.own,
        make=make_private,
    )


def checkpointed(checkpoints: Checkpoints | None) -> Callable[[Tool], Tool]:
    """What makes a tool's changes ones that can be taken back."""
    if checkpoints is None:
        return lambda tool: tool
    return lambda tool: Checkpointed(tool, checkpoints)
