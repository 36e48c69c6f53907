"""What of a conversation could be shown shorter: old results that can be had again, and stretches of finished work.

An outline takes each message once, so what it costs does not grow with the history.
"""

from collections import deque
from collections.abc import Collection
from typing import Any

from msgspec import Struct, field

from tugline.protocol.blocks import Text, ToolResult, ToolUse
from tugline.protocol.ids import CallId, MessageId
from tugline.protocol.messages import Assistant, Message, User
from tugline.protocol.records import Stub
from tugline.rules import tokens, wording
from tugline.rules.tokens import Weight

STUB = "[Old result left out to make room: "
"""What a stub begins with."""
FOLD = "Finished work is folded here to make room:"
"""What a fold begins with."""
FOLDED = "a stretch folded"
"""What a transcript calls the change of its history by a fold."""
SHORTEST = 400
"""Characters below which a result is not worth a stub, or a stretch a fold."""
RECENT_ANSWERS = 1
"""Of so many answers at the end the work that led to them stays in sight."""
STUB_CHARACTERS = 180
"""About what a stub has beside the call's title."""
LISTED = 20
"""Calls that a fold names."""
_SUBJECTS = ("file_path", "notebook_path", "path", "pattern", "command", "url", "query", "description")


class OldResult(Struct, frozen=True):
    """The result of a call that can be made again."""

    call: CallId
    title: str
    content: str | tuple[Any, ...]
    weight: Weight
    answer: MessageId


class Stretch(Struct):
    """Replies that ask for calls, with their results, one directly after the other."""

    first: MessageId
    last: MessageId
    steps: int = 0
    weight: Weight = Weight()
    titles: list[str] = field(default_factory=list)

    @property
    def whole(self) -> bool:
        """Whether its last reply has its results."""
        return self.last != ""


class Outline:
    """Takes the messages of a conversation in their order."""

    def __init__(self, rerunnable: Collection[str], keep: int) -> None:
        self.old: dict[CallId, OldResult] = {}
        """Results beyond the last `keep`, oldest first."""
        self.old_gain = Weight()
        """What stubs in their place would free."""
        self.finished: list[Stretch] = []
        """Stretches that led to answers before the last ones, oldest first."""
        self.finished_gain = Weight()
        """What folding them would free."""
        self.last_reply = MessageId("")
        self._rerunnable = rerunnable
        self._keep = keep
        self._recent: deque[OldResult] = deque()
        self._asked: dict[CallId, ToolUse] = {}
        self._reply = Weight()
        self._run: Stretch | None = None
        self._pending: list[Stretch] = []
        self._answers: deque[list[Stretch]] = deque()

    def take(self, message: Message) -> None:
        """The next message."""
        if isinstance(message, Assistant):
            self._take_reply(message)
        elif any(isinstance(block, ToolResult) for block in message.content):
            self._take_results(message)
        else:
            self._close_run()

    def recent(self) -> tuple[OldResult, ...]:
        """The results that are kept in sight, oldest first."""
        return tuple(self._recent)

    def _take_reply(self, message: Assistant) -> None:
        self.last_reply = message.id
        calls = [block for block in message.content if isinstance(block, ToolUse)]
        self._asked = {use.id: use for use in calls}
        if not calls:
            self._close_run()
            self._answers.append(self._pending)
            self._pending = []
            if len(self._answers) > RECENT_ANSWERS:
                for stretch in self._answers.popleft():
                    self.finished.append(stretch)
                    self.finished_gain = tokens.total([self.finished_gain, fold_gain(stretch)])
            return
        if self._run is None:
            self._run = Stretch(message.id, MessageId(""))
        self._reply = tokens.weigh(message)

    def _take_results(self, message: User) -> None:
        for block in message.content:
            if isinstance(block, ToolResult):
                self._take_result(block, message.id)
        run = self._run
        if run is None:
            return
        run.last = message.id
        run.steps += 1
        run.weight = tokens.total([run.weight, self._reply, tokens.weigh(message)])
        run.titles.extend(title(use) for use in self._asked.values())
        if not all(isinstance(block, ToolResult) for block in message.content):
            self._run = None  # somebody's words stand in the same message: they stay in sight
            self._asked = {}

    def _take_result(self, block: ToolResult, message: MessageId) -> None:
        use = self._asked.get(block.tool_use_id)
        if use is None or use.name not in self._rerunnable:
            return
        weight = tokens.weigh_block(block)
        if weight.characters + weight.tokens * tokens.CHARACTERS_PER_TOKEN < SHORTEST:
            return
        self._recent.append(OldResult(block.tool_use_id, title(use), block.content, weight, message))
        while len(self._recent) > self._keep:
            old = self._recent.popleft()
            self.old[old.call] = old
            self.old_gain = tokens.total([self.old_gain, stub_gain(old)])

    def _close_run(self) -> None:
        run, self._run = self._run, None
        if run is not None and run.whole and run.weight.characters >= SHORTEST:
            self._pending.append(run)


def title(use: ToolUse) -> str:
    """A call in a few words."""
    subject = next((use.input[key] for key in _SUBJECTS if isinstance(use.input.get(key), str)), "")
    words = " ".join(subject.split())
    return wording.escape(f"{use.name} {words if len(words) <= 80 else words[:77] + '...'}".strip())


def text_of(old: OldResult) -> str:
    """The text of a result."""
    if isinstance(old.content, str):
        return old.content
    return "".join(part.text for part in old.content if isinstance(part, Text))


def stub_of(old: OldResult, kept: str) -> Stub:
    """The line in place of a result; `kept` is the file that has the whole, if there is one."""
    text = text_of(old)
    size = f"{len(text):,} characters" if text else "a picture or document"
    where = f"The whole is in {kept}." if kept else "Make the call again if it is needed."
    return Stub(old.call, f"{STUB}{old.title}, {size}. {where}]")


def stub_gain(old: OldResult) -> Weight:
    """What a stub in its place frees."""
    return Weight(old.weight.characters - len(old.title) - STUB_CHARACTERS, old.weight.tokens)


def fold_text(stretch: Stretch) -> str:
    """What stands in place of a stretch."""
    more = f"; and {len(stretch.titles) - LISTED} more" if len(stretch.titles) > LISTED else ""
    return wording.reminder(
        f"{FOLD} {stretch.steps} {'step' if stretch.steps == 1 else 'steps'}; the answer below says what came of it. "
        f"The calls were: {'; '.join(stretch.titles[:LISTED])}{more}."
    )


def fold_gain(stretch: Stretch) -> Weight:
    """What folding it frees."""
    return Weight(stretch.weight.characters - len(fold_text(stretch)), stretch.weight.tokens)


def is_stub(block: ToolResult) -> bool:
    """Whether a result gave way to a line."""
    return isinstance(block.content, str) and block.content.startswith(STUB)


def is_fold(message: Message) -> bool:
    """Whether a message stands for a stretch."""
    first = message.content[0] if message.content else None
    return isinstance(first, Text) and first.text.startswith(wording.reminder(FOLD)[: -len("</system-reminder>")])
