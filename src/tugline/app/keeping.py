"""What a running session can do with its own transcript, and with the files of instructions."""

import os
from collections.abc import Sequence

import anyio.to_thread
from msgspec import structs

from tugline.app.briefing import DISK
from tugline.app.core import Core, make_shelf
from tugline.context.gathering import Scheme
from tugline.context.survey import Survey, survey
from tugline.loop.executor import Gear
from tugline.protocol.ids import SessionId
from tugline.protocol.instructions import LoadedFile
from tugline.protocol.permissions import Verdict
from tugline.protocol.sessions import ExportFormat
from tugline.rules.permission import Query, decide
from tugline.rules.telling import size
from tugline.runtime.copies import Copies
from tugline.runtime.notes import Notes
from tugline.runtime.standing import Standing
from tugline.runtime.system import new_uuid
from tugline.stores.jsonl import JsonlLog
from tugline.stores.sessions import ENDING, entry_at
from tugline.stores.shelf import fork
from tugline.stores.spill import FileSpill
from tugline.workspaces.local import LocalWorkspace


def make_copies(core: Core, gear: Gear, spill: FileSpill, workspace: LocalWorkspace, standing: Standing) -> Copies:
    """Documents of the session's transcript, and branches of it."""
    log = core.opening.log

    def export(path: str | None, form: ExportFormat | None) -> str:
        from tugline.stores.exporting import write_export  # noqa: PLC0415  imported here: start-up cost

        cwd = core.config.cwd
        given = None if path is None else os.path.join(cwd, os.path.expanduser(path))
        return write_export(entry_at(log.path), given, form, core.environ, cwd)

    async def branch() -> SessionId:
        fresh = SessionId(new_uuid())
        path = make_shelf(core.config).path(fresh)

        def copy() -> JsonlLog:
            fork(log.path, path, fresh, core.clock.time())
            return JsonlLog.add_to(path)

        await log.go_on_in(await anyio.to_thread.run_sync(copy))
        # what was kept until now stays where it is, and readable: the conversation names it
        kept = path.removesuffix(ENDING)
        spill.folder = kept
        workspace.spill_to(kept)
        allow_reading(standing, [kept])
        return fresh

    return Copies(gear, export, branch)


def allow_reading(standing: Standing, folders: Sequence[str]) -> None:
    """Let these folders of our own be read without a question."""
    standing.policy = structs.replace(standing.policy, readable=(*standing.policy.readable, *folders))


def make_notes(core: Core, gear: Gear, standing: Standing, scheme: Scheme | None) -> Notes:
    """The files of instructions, for a person."""

    def judge(query: Query) -> Verdict:
        # the person's own order: no mode and no missing rule speak against it, but what holds in every mode does
        return decide(query, structs.replace(standing.policy, mode="bypassPermissions"), standing.resolve)

    async def listing() -> str:
        if scheme is None:
            return ""
        return listed(await anyio.to_thread.run_sync(lambda: survey(DISK, scheme), abandon_on_cancel=True))

    return Notes(
        gear,
        core.ids,
        judge,
        names=() if scheme is None else scheme.names,
        project_root=core.config.project_root,
        listing=listing,
    )


def listed(found: Survey) -> str:
    """The files of instructions with their sizes, in Markdown."""
    parts = [f"Loaded at the start, about {found.tokens:,} tokens of {found.limit:,}:", *map(_line, found.loaded)]
    if not found.loaded:
        parts = ["There are no files of instructions that load at the start."]
    if found.later:
        parts += ["", "Loaded when something in their folder is touched:", *map(_line, found.later)]
    if found.rules:
        parts += ["", "Loaded when one of their files is touched:"]
        parts += [f"- {rule.path} (for {', '.join(rule.globs)})" for rule in found.rules]
    if found.left_out:
        parts += ["", "Left out:", *(f"- {one.path}: {one.why}" for one in found.left_out)]
    return "\n".join(parts) + "\n"


def _line(one: LoadedFile) -> str:
    try:
        bytes_ = f", {size(os.stat(one.path).st_size)}"
    except OSError:
        bytes_ = ""
    return f"- {one.path} ({one.scope}{bytes_}, {one.tokens:,} tokens)"
