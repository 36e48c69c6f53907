"""The format `stream-json`: a pure fold from events to lines, in the order that the protocol asks for.

Of a reply nothing but partial messages is shown before it has ended properly; the results of its calls wait for its
line. Every call that was shown gets its result shown, whatever happens.
"""

from msgspec import structs

from tugline.cli.headless import partial
from tugline.cli.headless.ending import Cards, Failed, is_api_error, result_of, result_of_failure
from tugline.cli.headless.printer import Uuids
from tugline.cli.headless.shapes import Json, block_shape, line, result_shape, usage_shape
from tugline.protocol.blocks import ToolResult, ToolUse
from tugline.protocol.codec import encode
from tugline.protocol.events import (
    BlockBegan,
    BlockFinished,
    CompactionFinished,
    CompactionStarted,
    Event,
    HookFinished,
    HookStarted,
    InputDelta,
    ModeChanged,
    ReplyBegan,
    ReplyFinished,
    ResultAdded,
    RetryWaiting,
    SessionStarted,
    TextDelta,
    ThinkingDelta,
    Tombstone,
    TurnFinished,
    TurnStarted,
)
from tugline.protocol.ids import CallId
from tugline.protocol.messages import Assistant
from tugline.protocol.usage import Usage
from tugline.rules.failures import error_word

_HOOK_OUTCOMES = {
    "success": "success", "blocking": "error", "error": "error", "timeout": "error", "cancelled": "cancelled",
}  # fmt: skip
UNANSWERED = "The run ended before this call had a result."


class StreamJson:
    """Turns events into lines. `level` is the level of the protocol, `version` our own."""

    def __init__(
        self,
        session: str,
        uuids: Uuids,
        cards: Cards,
        *,
        level: str,
        version: str,
        partial_messages: bool = False,
        hook_events: bool = False,
    ) -> None:
        self.session = session
        self._uuids = uuids
        self._cards = cards
        self._level = level
        self._version = version
        self._partial = partial_messages
        self._hook_events = hook_events
        self._opening: SessionStarted | None = None
        self._open_reply = False
        self._held: list[ToolResult] = []
        self._unanswered: list[CallId] = []
        self._open_blocks: set[int] = set()
        self._prefixes: dict[tuple[type, int], bytes] = {}
        self._over = False

    def take(self, event: Event, out: bytearray) -> None:
        """Hear an event; the lines that it completes are appended to `out`."""
        if event.origin.depth or self._over:
            return
        if isinstance(event, TextDelta | InputDelta | ThinkingDelta):
            if self._partial:
                self._delta(event, out)
            return
        self.session = event.origin.session  # a branch has another one
        match event:
            case SessionStarted() | ModeChanged():
                self._know(event)
            case TurnStarted():
                self._init(out)
            case ReplyBegan() | BlockBegan() | BlockFinished():
                self._follow(event, out)
            case ReplyFinished(message=message):
                self._reply(event, message, out)
            case Tombstone():
                self._void(event, out)
            case ResultAdded(result=result):
                if self._open_reply:
                    self._held.append(result)
                else:
                    self._result(result, out)
            case CompactionStarted() | CompactionFinished() | RetryWaiting() | HookStarted() | HookFinished():
                self._aside(event, out)
            case TurnFinished():
                self._finish(event, out)
            case _:
                pass

    def fail(self, failed: Failed, out: bytearray) -> None:
        """The run ends without a turn's end: close what is open, then the result line."""
        if not self._over:
            self._answer_open_calls(out)
            self._over = True
            out += line(result_of_failure(failed, self.session, self._uuids.text()))

    # -- whole messages

    def _message(self, kind: str, uuid: str = "", **fields: object) -> Json:
        return {"type": kind, "uuid": uuid or self._uuids.text(), "session_id": self.session, **fields}

    def _init(self, out: bytearray) -> None:
        opening = self._opening
        if opening is None:
            return
        message = self._message("system", subtype="init")
        message |= {
            "cwd": opening.cwd,
            "tools": opening.tools,
            "mcp_servers": [],
            "model": opening.model,
            "permissionMode": opening.mode,
            "slash_commands": [],
            "agents": [],
            "skills": [],
            "plugins": [],
            "apiKeySource": opening.key_source,
            "claude_code_version": self._level,
            "tugline_version": self._version,
            "output_style": "default",
        }
        out += line(message)

    def _aside(
        self,
        event: CompactionStarted | CompactionFinished | RetryWaiting | HookStarted | HookFinished,
        out: bytearray,
    ) -> None:
        match event:
            case CompactionStarted():
                out += line(self._message("system", subtype="status", status="compacting"))
            case CompactionFinished():
                self._compacted(event, out)
            case RetryWaiting():
                self._retry(event, out)
            case HookStarted() | HookFinished():
                if self._hook_events:
                    self._hook(event, out)

    def _compacted(self, event: CompactionFinished, out: bytearray) -> None:
        if event.how == "summary":
            out += line(self._message("system", subtype="status", status=None))
        if event.boundary and not event.failure and event.how != "undo":
            trigger = "manual" if event.trigger == "manual" else "auto"
            data = {"trigger": trigger, "pre_tokens": event.tokens_before, "post_tokens": event.tokens_after}
            out += line(self._message("system", subtype="compact_boundary", compact_metadata=data))

    def _reply(self, event: ReplyFinished, message: Assistant, out: bytearray) -> None:
        if self._partial:
            self._close_blocks(out)
            for ending in partial.message_end(event):
                self._stream_event(ending, out)
        content = [shape for block in message.content if (shape := block_shape(block)) is not None]
        if content:
            self._assistant(message.id, message.reply or message.id, message, content, out)
        self._unanswered.extend(block.id for block in message.content if isinstance(block, ToolUse))
        self._open_reply = False
        for result in self._held:
            self._result(result, out)
        self._held.clear()

    def _assistant(self, uuid: str, name: str, message: Assistant, content: list[Json], out: bytearray) -> None:
        body = {
            "id": name,
            "type": "message",
            "role": "assistant",
            "model": message.model,
            "content": content,
            "stop_reason": None if message.stop == "interrupted" else message.stop,
            "stop_sequence": None,
            "usage": usage_shape(message.usage),
        }
        out += line(self._message("assistant", uuid, parent_tool_use_id=None, message=body))

    def _result(self, result: ToolResult, out: bytearray) -> None:
        if result.tool_use_id in self._unanswered:
            self._unanswered.remove(result.tool_use_id)
        body = {"role": "user", "content": [result_shape(result)]}
        out += line(self._message("user", parent_tool_use_id=None, message=body))

    def _void(self, event: Tombstone, out: bytearray) -> None:
        if self._partial and self._open_reply:
            message = self._message("system", subtype="tombstone", message_id=event.reply, reason=event.reason)
            out += line(message)
        self._open_reply = False
        self._held.clear()
        self._open_blocks.clear()

    def _retry(self, event: RetryWaiting, out: bytearray) -> None:
        message = self._message(
            "system",
            subtype="api_retry",
            attempt=event.attempt,
            max_retries=event.limit - 1,  # the limit counts the first request too
            retry_delay_ms=round(event.delay * 1_000),
            error_status=event.failure.status,
            error=error_word(event.failure),
        )
        out += line(message)

    def _know(self, event: SessionStarted | ModeChanged) -> None:
        if isinstance(event, SessionStarted):
            self._opening = event
        elif self._opening is not None:
            self._opening = structs.replace(self._opening, mode=event.mode)

    def _hook(self, event: HookStarted | HookFinished, out: bytearray) -> None:
        about = {"hook_id": event.hook, "hook_name": event.name, "hook_event": event.event}
        if isinstance(event, HookStarted):
            out += line(self._message("system", subtype="hook_started", **about))
            return
        message = self._message("system", subtype="hook_response", **about)
        message |= {"output": event.stdout + event.stderr, "stdout": event.stdout, "stderr": event.stderr}
        message |= {"exit_code": event.exit_code, "outcome": _HOOK_OUTCOMES[event.outcome]}
        out += line(message)

    def _finish(self, event: TurnFinished, out: bytearray) -> None:
        self._answer_open_calls(out)
        result = result_of(event, self.session, self._uuids.text(), self._cards)
        if is_api_error(event):
            self._show_failure(event, result["result"], out)
        self._over = True
        out += line(result)

    def _show_failure(self, event: TurnFinished, text: str, out: bytearray) -> None:
        """A message of our own making, so that hosts that show messages show why there is no answer."""
        uuid = self._uuids.text()
        body = {
            "id": f"msg_{uuid}",
            "type": "message",
            "role": "assistant",
            "model": "<synthetic>",
            "content": [{"type": "text", "text": text}],
            "stop_reason": "stop_sequence",
            "stop_sequence": "",
            "usage": usage_shape(Usage()),
        }
        message = self._message("assistant", uuid, parent_tool_use_id=None, message=body)
        message["error"] = error_word(event.failure)
        out += line(message)

    def _answer_open_calls(self, out: bytearray) -> None:
        for call in tuple(self._unanswered):
            self._result(ToolResult(call, UNANSWERED, True), out)

    # -- partial messages

    def _delta(self, event: TextDelta | InputDelta | ThinkingDelta, out: bytearray) -> None:
        kind = type(event)
        prefix = self._prefixes.get((kind, event.index))
        if prefix is None:
            prefix = partial.delta_prefix(encode(self.session), kind, event.index)
            self._prefixes[kind, event.index] = prefix
        text = event.text
        if len(text) > partial.DELTA_LIMIT:
            for start in range(0, len(text), partial.DELTA_LIMIT):
                piece = partial.delta_text(text[start : start + partial.DELTA_LIMIT])
                out += b'%s%s}},"uuid":"%s"}\n' % (prefix, piece, self._uuids.next())
            return
        out += b'%s%s}},"uuid":"%s"}\n' % (prefix, partial.delta_text(text), self._uuids.next())

    def _stream_event(self, event: Json, out: bytearray) -> None:
        out += line(self._message("stream_event", parent_tool_use_id=None, event=event))

    def _follow(self, event: ReplyBegan | BlockBegan | BlockFinished, out: bytearray) -> None:
        if isinstance(event, ReplyBegan):
            self._open_reply = True
            self._held.clear()
            self._open_blocks.clear()
        if not self._partial:
            return
        match event:
            case ReplyBegan():
                self._stream_event(partial.message_start(event), out)
            case BlockBegan():
                self._close_blocks(out)
                shape = partial.block_start(event)
                if shape is not None:
                    self._open_blocks.add(event.index)
                    self._stream_event(shape, out)
            case BlockFinished():
                self._open_blocks.discard(event.index)
                for shape in partial.block_end(event):
                    self._stream_event(shape, out)

    def _close_blocks(self, out: bytearray) -> None:
        """Blocks that were dropped because nothing stood in them have no end of their own."""
        for index in sorted(self._open_blocks):
            self._stream_event(partial.block_stop(index), out)
        self._open_blocks.clear()
