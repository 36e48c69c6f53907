"""Puts a streamed reply together: the same strict rules for every wire protocol.

Blocks come out one after the other and never nested, in the order in which they were opened, also where the server
interleaves them: what arrives for a later block waits until the earlier ones are closed.
"""

import hashlib
import json
import re
import uuid
from collections.abc import Callable
from typing import Any

from tugline.protocol import codec
from tugline.protocol.blocks import AssistantBlock, Opaque, Text, Thinking, ToolUse
from tugline.protocol.chunks import BlockClosed, BlockDelta, BlockKind, BlockStarted, Chunk, ReplyEnded, ReplyStarted
from tugline.protocol.codec import mend_surrogates
from tugline.protocol.ids import CallId, ReplyId
from tugline.protocol.messages import StopReason
from tugline.protocol.usage import Usage
from tugline.providers.failure import broken

DEPTH_LIMIT = 200
NO_USAGE = Usage()
CUT = frozenset({"max_tokens", "context_exceeded"})
"""Stop reasons after which the last block may be unfinished."""

_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def parse_object(text: str) -> dict[str, Any] | None:
    """The one JSON object that the text is; `None` for anything else.

    Refused besides: duplicate keys, NaN and infinities, lone surrogates, deeper nesting than `DEPTH_LIMIT`.
    """
    try:
        value = _strict.decode(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    if text.count("{") + text.count("[") > DEPTH_LIMIT and _too_deep(value):
        return None
    if _SURROGATE_ESCAPE.search(text) and _SURROGATE.search(json.dumps(value, ensure_ascii=False)):
        return None
    return value


def loose_json(data: bytes) -> tuple[Any, bool]:
    """JSON that the fast decoder refuses for its characters, and whether bytes in it were not UTF-8.

    Strings may hold lone surrogates. Raises `ProviderError` where it is no JSON at all.
    """
    damaged = False
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text, damaged = data.decode("utf-8", "replace"), True
    try:
        return json.loads(text, parse_constant=_refuse), damaged
    except (ValueError, RecursionError):
        raise broken("an event is not JSON") from None


def count(value: Any) -> int:
    """A number of tokens as a server tells it; zero for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e15:
        return 0
    return int(value)


class ReplyIds:
    """Gives each reply an id of its own: the server's, or a new one where it has none or repeats one."""

    def __init__(self, memory: int = 1000) -> None:
        self._memory = memory
        self._seen: dict[str, None] = {}

    def fresh(self, wire: Any) -> ReplyId:
        """The id for the reply that the server calls `wire`."""
        name = wire if isinstance(wire, str) and 0 < len(wire) <= 200 and wire.isprintable() else ""
        if not name or name in self._seen:
            name = f"{name or 'reply'}_{uuid.uuid4().hex[:16]}"
        self._seen[name] = None
        if len(self._seen) > self._memory:
            del self._seen[next(iter(self._seen))]
        return ReplyId(name)


class _Block:
    """A block on its way."""

    __slots__ = (
        "call",
        "carry",
        "closed",
        "damaged",
        "data",
        "index",
        "initial",
        "key",
        "kind",
        "name",
        "parts",
        "sign",
    )

    def __init__(self, key: Any, kind: BlockKind, call: CallId, name: str, initial: str, data: Opaque | None) -> None:
        self.key = key
        self.kind: BlockKind = kind
        self.call = call
        self.name = name
        self.initial = initial
        self.index = -1
        self.parts: list[str] = []
        self.sign: list[str] = []
        self.carry = ""
        self.data = data
        self.closed = False
        self.damaged = False


def never(_: str) -> bool:
    """No call is known."""
    return False


class Assembly:
    """One reply on its way. Its chunks gather in `out`; `key` is whatever the protocol calls a block by;
    `model` is the one asked for, which counts where the server names none.

    Raises `ProviderError` (stream_broken) for what no sound stream does.
    """

    def __init__(self, *, known_call: Callable[[str], bool] = never, model: str = "") -> None:
        self._model = model
        self.out: list[Chunk] = []
        self.started = False
        self.ended = False
        self.calls = 0
        self.blocks = 0
        self._known_call = known_call
        self._reply = ReplyId("")
        self._next = 0
        self._current: _Block | None = None
        self._waiting: list[_Block] = []
        self._by_key: dict[Any, _Block | None] = {}
        self._held: _Block | None = None
        self._ids: set[str] = set()

    def take(self) -> list[Chunk]:
        """The chunks so far; they are not given again."""
        out = self.out
        self.out = []
        return out

    @property
    def open_keys(self) -> list[Any]:
        """The keys of the blocks that are not closed, in order."""
        return [key for key, block in self._by_key.items() if block is not None and not block.closed]

    def start(self, reply: ReplyId, model: str, usage: Usage = NO_USAGE) -> None:
        """The reply begins."""
        if self.started:
            raise broken("a second reply began inside the first")
        self.started = True
        self._reply = reply
        self.out.append(ReplyStarted(reply, mend_surrogates(model) or self._model, usage))

    def knows(self, key: Any) -> bool:
        """Whether a block of that key was opened or ignored."""
        return key in self._by_key

    def ignore(self, key: Any) -> None:
        """A block of a kind that we do not know: all that is said of it is dropped."""
        self._admit(key)
        self._by_key[key] = None

    def open(
        self,
        key: Any,
        kind: BlockKind,
        *,
        call: Any = "",
        name: str = "",
        initial: str = "",
        data: Opaque | None = None,
    ) -> None:
        """A block begins. `initial`: a call's input where it came with the opening; `data`: all of an opaque part."""
        self._admit(key)
        if data is not None:
            _sendable(data.data)
        call_id = self._call_id(call) if kind == "tool_use" else CallId("")
        block = _Block(key, kind, call_id, mend_surrogates(name) if name else "", initial, data)
        self.blocks += 1
        self._by_key[key] = block
        if self._current is None:
            self._begin(block)
        else:
            self._waiting.append(block)

    def delta(self, key: Any, kind: BlockKind, text: str) -> None:
        """More of an open block. The text holds no lone surrogates."""
        block = self._current
        if block is None or block.key != key:
            block = self._find(key)
            if block is None:
                return
        if block.kind != kind:
            raise broken(f"{kind} was said of a {block.kind} block")
        if block.carry:
            text = self._unragged(block, text)
        if not text:
            return
        block.parts.append(text)
        if block is self._current:
            if block.index < 0:
                self._announce(block)
            self.out.append(BlockDelta(block.index, text))

    def ragged_delta(self, key: Any, kind: BlockKind, text: str, *, damaged: bool = False) -> None:
        """Like `delta`, for text with halves of surrogate pairs, or in which bytes were replaced (`damaged`)."""
        block = self._find(key)
        if block is None:
            return
        block.damaged |= damaged
        text = self._unragged(block, text)
        carry = ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            # The other half may come with the next delta.
            text, carry = text[:-1], text[-1]
        mended = mend_surrogates(text)
        block.damaged |= mended.count("\ufffd") > text.count("\ufffd")
        self.delta(key, kind, mended)
        block.carry = carry

    def signature(self, key: Any, text: str) -> None:
        """What the provider wants back with a block of thinking."""
        block = self._find(key)
        if block is not None and text:
            _sendable(text)
            block.sign.append(text)

    def received(self, key: Any) -> str:
        """What came of a block so far."""
        block = self._by_key.get(key)
        return "".join(block.parts) if block is not None else ""

    def close(self, key: Any) -> None:
        """A block is complete."""
        block = self._find(key)
        if block is None:
            return
        if block.carry:
            block.damaged = True
            block.carry = ""
            self.delta(key, block.kind, "\ufffd")
        block.closed = True
        while self._current is not None and self._current.closed:
            self._finish(self._current)
            self._current = None
            if self._waiting:
                self._begin(self._waiting.pop(0))

    def settle(self) -> None:
        """Closes the current call if what came of it is a whole object already, so that the next block may begin."""
        block = self._current
        if block is not None and block.kind == "tool_use" and block.parts and block.parts[-1].rstrip().endswith("}"):
            text = "".join(block.parts)
            block.parts = [text]
            if parse_object(text) is not None:
                self.close(block.key)

    def end(self, stop: StopReason, usage: Usage) -> None:
        """The reply ended properly. All blocks have to be closed."""
        if not self.started:
            raise broken("it ended before it began")
        if self._current is not None or self._waiting:
            raise broken("it ended inside a block")
        self._release(cut=stop in CUT)
        self.ended = True
        self.out.append(ReplyEnded(mend_surrogates(stop), usage))

    def _admit(self, key: Any) -> None:
        if not self.started:
            raise broken("a block came before the reply began")
        if key in self._by_key:
            raise broken("a block was opened twice")

    def _find(self, key: Any) -> _Block | None:
        try:
            block = self._by_key[key]
        except KeyError:
            raise broken("something was said of a block that was not opened") from None
        if block is not None and block.closed:
            raise broken("something was said of a block that was closed already")
        return block

    def _unragged(self, block: _Block, text: str) -> str:
        carry, block.carry = block.carry, ""
        if text and "\udc00" <= text[0] <= "\udfff":
            return mend_surrogates(carry + text[0]) + text[1:]
        block.damaged |= bool(carry)
        return ("\ufffd" if carry else "") + text

    def _begin(self, block: _Block) -> None:
        self._release(cut=False)
        self._current = block
        if block.kind == "tool_use" or block.parts:
            self._announce(block)
        if block.parts:
            text = "".join(block.parts)
            block.parts = [text]
            self.out.append(BlockDelta(block.index, text))

    def _announce(self, block: _Block) -> None:
        block.index = self._next
        self._next += 1
        self.out.append(BlockStarted(block.index, block.kind, block.call, block.name))

    def _finish(self, block: _Block) -> None:
        text = "".join(block.parts)
        block.parts = []
        made: AssistantBlock
        if block.kind == "tool_use":
            self.calls += 1
            if not text.strip() and not block.initial:
                # No input, or an input that was cut before its first byte: what comes next tells.
                self._held = block
                return
            made = self._call(block, text)
        elif block.kind == "thinking":
            if not text and not block.sign:
                return
            made = Thinking(text, "".join(block.sign))
        elif block.kind == "opaque":
            if block.data is None:
                return
            made = block.data
        elif text:
            made = Text(text)
        else:
            return
        if block.index < 0:
            self._announce(block)
        self.out.append(BlockClosed(block.index, made))

    def _call(self, block: _Block, text: str) -> ToolUse:
        if not text.strip():
            text = block.initial
            self.out.append(BlockDelta(block.index, text))
        data = None if block.damaged else parse_object(text)
        if data is None:
            return ToolUse(block.call, block.name, {}, mend_surrogates(text) if _SURROGATE.search(text) else text)
        return ToolUse(block.call, block.name, data)

    def _release(self, *, cut: bool) -> None:
        block, self._held = self._held, None
        if block is not None:
            use = ToolUse(block.call, block.name, {}, "" if cut else None)
            self.out.append(BlockClosed(block.index, use))

    def _call_id(self, wire: Any) -> CallId:
        name = wire if isinstance(wire, str) and 0 < len(wire) <= 200 and wire.isprintable() else ""
        taken = not name or name in self._ids or self._known_call(name)
        while taken:
            seed = f"{self._reply}:{len(self._ids)}:{name}".encode("utf-8", "replace")
            name = "call_" + hashlib.blake2s(seed, digest_size=12).hexdigest()
            taken = name in self._ids or self._known_call(name)
        self._ids.add(name)
        return CallId(name)


def _sendable(value: Any) -> None:
    """What a provider wants back unchanged has to be something that can be written at all."""
    try:
        codec.encode(value)
    except (UnicodeEncodeError, OverflowError, RecursionError):
        raise broken("a part that is to be sent back cannot be written") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a key stands twice")
    return made


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError("a number is too big")
    return value


def _integer(text: str) -> int | float:
    # What 64 bits do not hold is read back from the transcript as a float: it is one from the start.
    if len(text) < 19:
        return int(text)
    value = int(text)
    return value if -(2**63) <= value < 2**64 else _finite(text)


def _too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(DEPTH_LIMIT):
        level = [
            child
            for node in level
            for child in (node.values() if isinstance(node, dict) else node)
            if isinstance(child, dict | list)
        ]
        if not level:
            return False
    return True


_strict = json.JSONDecoder(
    object_pairs_hook=_unique, parse_constant=_refuse, parse_float=_finite, parse_int=_integer, strict=True
)
