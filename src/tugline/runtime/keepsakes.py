"""What a conversation takes along through a compaction: the files read last, the todos, the loaded tools."""

import anyio

from tugline.loop.executor import Gear
from tugline.loop.gate import Judge
from tugline.ports import Tool, ToolContext
from tugline.protocol.blocks import Text
from tugline.protocol.errors import ToolError
from tugline.protocol.ids import CallId
from tugline.protocol.permissions import VerdictDeny
from tugline.protocol.specs import Footprint, ModelCard, PathSubject
from tugline.rules import wording
from tugline.rules.permission import Query
from tugline.rules.state import forget_views
from tugline.rules.tokens import size_of

SECONDS = 5.0
"""Time for reading the files."""
CHARACTERS_PER_TOKEN = 4


class RecentFiles:
    """The files that were read or written last, as they are now."""

    def __init__(self, gear: Gear, read: Tool, judge: Judge, count: int) -> None:
        self._gear = gear
        self._read = read
        self._judge = judge
        self._count = count

    async def recall(self, room: int, card: ModelCard) -> str:
        """The last ones first; those that do not fit, or may not or cannot be read any more, are named or left out."""
        left = room * CHARACTERS_PER_TOKEN
        shown: list[str] = []
        named: list[str] = []
        with anyio.move_on_after(SECONDS):
            for path in reversed(tuple(self._gear.state.now.files)[-self._count :] if self._count else ()):
                text = await self._contents(path, card)
                if text is None:
                    continue
                if size_of(text) > left:
                    named.append(path)
                    continue
                left -= size_of(text)
                shown.append(f'<file path="{path}">\n{text}\n</file>')
        parts = []
        if shown:
            parts.append("\n".join(["The files that you read or wrote last, as they are now:", *shown]))
        if named:
            parts.append(f"Read last too, but too long to be shown here: {', '.join(named)}.")
        return "\n\n".join(parts)

    async def _contents(self, path: str, card: ModelCard) -> str | None:
        gear = self._gear
        verdict = self._judge.judge(Query("Read", {}, Footprint.READS, (PathSubject(path),), gear.state.now.cwd))
        if isinstance(verdict, VerdictDeny):
            return None
        state = forget_views(gear.state.now)
        context = ToolContext(CallId("recall"), gear.agent, state, gear.workspace, card, lambda _: None)
        try:
            # what is read here does not change what the agent knows of the file: if it is another one by now, an edit
            # needs a fresh look
            result = await self._read.run(self._read.parse({"file_path": path}), context)
        except ToolError:
            return None
        content = result.for_model
        if isinstance(content, str):
            return wording.escape(content)
        texts = [part.text for part in content if isinstance(part, Text)]
        return wording.escape("".join(texts)) if texts else None


class OpenTodos:
    """The list of todos."""

    def __init__(self, gear: Gear) -> None:
        self._gear = gear

    async def recall(self, room: int, card: ModelCard) -> str:
        """All of it."""
        todos = self._gear.state.now.todos
        if not todos:
            return ""
        lines = [f"- [{todo.status}] {wording.escape(todo.content)}" for todo in todos]
        return "\n".join(["Your list of todos, as it stands:", *lines])


class LoadedTools:
    """The tools that were loaded on demand; their descriptions stay in every request."""

    def __init__(self, gear: Gear) -> None:
        self._gear = gear

    async def recall(self, room: int, card: ModelCard) -> str:
        """Their names."""
        loaded = sorted(self._gear.state.now.loaded_tools)
        return f"These tools are loaded and can be called: {', '.join(loaded)}." if loaded else ""
