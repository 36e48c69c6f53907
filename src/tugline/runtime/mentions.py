"""Files that a prompt mentions with `@path` go along with it, read as the Read tool reads them."""

import anyio
from msgspec import Struct

from tugline.loop.executor import Gear, take
from tugline.loop.gate import Judge
from tugline.ports import Tool, ToolContext, WorkspaceError
from tugline.protocol.blocks import Document, Image, Text
from tugline.protocol.commands import PromptContent
from tugline.protocol.errors import ToolError
from tugline.protocol.events import Notice
from tugline.protocol.ids import CallId
from tugline.protocol.permissions import VerdictDeny
from tugline.protocol.specs import Footprint, ModelCard, PathSubject
from tugline.rules.mentions import LIMIT, find_mentions
from tugline.rules.permission import Query

SECONDS = 10.0
"""Time for reading all that one prompt mentions."""
ENTRIES = 200


class Attached(Struct, frozen=True):
    """What a mention became."""

    path: str
    content: PromptContent


class Mentions:
    """Reads what prompts mention. Deny rules hold; what does not exist stays plain text."""

    def __init__(self, gear: Gear, read: Tool, judge: Judge) -> None:
        self._gear = gear
        self._read = read
        self._judge = judge

    async def expand(self, content: PromptContent, card: ModelCard) -> PromptContent:
        """The prompt with what it mentions behind it. Only the first part speaks for the person; what follows is data,
        and who wrote that must not choose what is read."""
        paths = find_mentions(content[0].text) if content and isinstance(content[0], Text) else ()
        if not paths:
            return content
        attached: dict[str, PromptContent] = {}
        with anyio.move_on_after(SECONDS):
            for path in paths:
                if len(attached) == LIMIT:
                    break
                await self._attach(path, card, attached)
        return (*content, *(part for parts in attached.values() for part in parts))

    async def _attach(self, path: str, card: ModelCard, attached: dict[str, PromptContent]) -> None:
        state, workspace = self._gear.state.now, self._gear.workspace
        try:
            name, target = workspace.resolve(path, state.cwd)
            stat = await workspace.stat(target)
        except WorkspaceError:
            return
        if stat is None or target in attached:
            return
        verdict = self._judge.judge(Query("Read", {}, Footprint.READS, (PathSubject(name),), state.cwd))
        if isinstance(verdict, VerdictDeny):
            self._gear.voice.say(Notice, level="warning", text=f"@{path} is not attached: {verdict.reason}")
            return
        if stat.kind == "folder":
            attached[target] = (Text(await self._listing(path, target)),)
            return
        parts = await self._contents(name, path, card)
        if parts is not None:
            attached[target] = parts

    async def _listing(self, path: str, target: str) -> str:
        try:
            entries = await self._gear.workspace.entries(target)
        except WorkspaceError as error:
            return f"@{path}: {error}"
        names = [f"{name}/" if kind == "folder" else name for name, kind in entries[:ENTRIES]]
        more = f"\n… and {len(entries) - ENTRIES} more" if len(entries) > ENTRIES else ""
        listed = "\n".join(names) or "(empty)"
        return f'<folder path="{path}">\n{listed}{more}\n</folder>'

    async def _contents(self, name: str, path: str, card: ModelCard) -> PromptContent | None:
        gear = self._gear
        context = ToolContext(CallId("mention"), gear.agent, gear.state.now, gear.workspace, card, lambda _: None)
        try:
            result = await self._read.run(self._read.parse({"file_path": name}), context)
        except ToolError as error:
            gear.voice.say(Notice, level="warning", text=f"@{path} is not attached: {error}")
            return None
        take(gear, result.changes)
        if isinstance(result.for_model, str):
            return (Text(f'<file path="{path}">\n{result.for_model}\n</file>'),)
        shown: list[Text | Image | Document] = [Text(f'<file path="{path}">'), *result.for_model, Text("</file>")]
        return tuple(shown)
