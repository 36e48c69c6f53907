"""A session to be read: turn by turn, as lines for a terminal or a pipe."""

from collections.abc import Iterator

from tugline.cli.ansi import Palette
from tugline.protocol.blocks import Text, Thinking, ToolResult, ToolUse
from tugline.protocol.codec import encode, to_plain
from tugline.protocol.messages import Assistant, User
from tugline.protocol.records import AnyRecord, Compacted, Finished, Said
from tugline.protocol.sessions import Passage, SessionSummary
from tugline.rules.telling import block_text, call_line, content_text, moment, results_of, size
from tugline.rules.terminal import clean, clean_json, clean_line, clip

RESULT_LINES = 4
"""Lines of a result that are shown; `--full` shows all."""


def heading(summary: SessionSummary, palette: Palette) -> str:
    """What is known of the session as a whole."""
    cost = f"${summary.cost_usd:.4f}" if summary.cost_usd else ""
    facts = [moment(summary.started), summary.cwd, summary.branch, size(summary.size), cost]
    facts += ["archived" if summary.archived else "", "in use" if summary.busy else ""]
    title = f"  {clean_line(summary.title, 200)}" if summary.title else ""
    about = " · ".join(clean_line(fact, 200) for fact in facts if fact)
    return f"{palette.paint(summary.session, 'bold')}{title}\n{palette.paint(about, 'dim')}\n"


class Teller:
    """Turns passages into lines. `full`: whole results, thinking, what the engine told the model, and what a rewind
    took out."""

    def __init__(self, palette: Palette, width: int, *, full: bool) -> None:
        self._palette = palette
        self._width = width
        self._full = full

    def tell(self, passage: Passage) -> str:
        """The lines of a passage; none for one that is not shown."""
        if passage.aside and not self._full:
            return ""
        return "".join(self._parts(passage))

    def _parts(self, passage: Passage) -> Iterator[str]:
        aside = " (taken back)" if passage.aside else ""
        match passage.said:
            case Compacted() as boundary:
                line = f"compacted: about {boundary.tokens_before:,} tokens to {boundary.tokens_after:,}"
                yield f"\n{self._dim(f'── {line}{aside} · #{passage.n}')}\n"
                if self._full:
                    yield "".join(self._words(message.content) for message in boundary.messages)
            case Assistant(content=content):
                for block in content:
                    yield self._reply(block)
            case User(source="person") as said:
                yield f"\n{self._dim(f'── {passage.turn} · {moment(passage.time)} · #{passage.n}{aside}')}\n"
                yield f"{self._palette.paint('>', 'cyan', 'bold')} {self._words(said.content)}"
            case User(source="results") as said:
                for result in results_of(said.content):
                    yield self._result(result)
            case User(hidden=False, source="letter") as said:
                yield f"{self._palette.paint('>', 'cyan', 'bold')} {self._words(said.content)}"
            case User() as said if self._full:
                yield f"{self._dim(f'[{said.source}] #{passage.n}')}\n{self._words(said.content)}"
            case _:
                return

    def _words(self, content: tuple[object, ...]) -> str:
        texts = [block_text(block) for block in content if not isinstance(block, ToolResult)]  # type: ignore[arg-type]
        text = clean("\n".join(texts)).strip()
        return f"{text}\n" if text else ""

    def _reply(self, block: object) -> str:
        match block:
            case Text(text=text) if text.strip():
                return f"\n{clean(text).strip()}\n"
            case Thinking(thinking=text) if self._full and text.strip():
                return f"{self._dim(clean(text).strip())}\n"
            case ToolUse() as use:
                return self._call(use)
            case _:
                return ""

    def _call(self, use: ToolUse) -> str:
        line = clean_line(call_line(use), max(20, self._width - 4))
        name, _, rest = line.partition(" ")
        id_ = f"  {self._dim(clean_line(use.id, 80))}" if self._full else ""
        shown = f"{self._palette.paint(self._palette.dot, 'cyan')} {self._palette.paint(name, 'bold')} {rest}"
        return f"{shown.rstrip()}{id_}\n{self._indented(_input(use)) if self._full else ''}"

    def _result(self, result: ToolResult) -> str:
        text = content_text(result.content)
        colours = ("red",) if result.is_error else ("dim",)
        if self._full:
            return self._indented(text, *colours)
        lines = [line for line in clean(text).split("\n") if line.strip()]
        shown = [clip(line.expandtabs(4), max(20, self._width - 4)) for line in lines[:RESULT_LINES]]
        if len(lines) > RESULT_LINES:
            more = f"… {len(lines) - RESULT_LINES} more lines: --call {clean_line(result.tool_use_id, 80)}"
            shown.append(more)
        return "".join(f"    {self._palette.paint(line, *colours)}\n" for line in shown)

    def _indented(self, text: str, *colours: str) -> str:
        lines = clean(text).rstrip("\n").split("\n")
        return "".join(f"    {self._palette.paint(line, *colours)}\n" for line in lines)

    def _dim(self, text: str) -> str:
        return self._palette.paint(text, "dim")


def _input(use: ToolUse) -> str:
    return use.malformed if use.malformed is not None else encode(use.input).decode()


def call_of(records: Iterator[tuple[int, AnyRecord]], call: str) -> tuple[ToolUse | None, ToolResult | None]:
    """A call and its whole result, as they were, whatever the model is shown of them by now."""
    use: ToolUse | None = None
    result: ToolResult | None = None
    for _, record in records:
        match record:
            case Said(message=Assistant(content=content)):
                use = next((b for b in content if isinstance(b, ToolUse) and b.id == call), use)
            case Said(message=User(content=content)):
                result = next((b for b in results_of(content) if b.tool_use_id == call), result)
            case Finished(result=found) if found.tool_use_id == call:
                result = result or found
            case _:
                continue
        if use is not None and result is not None and isinstance(record, Said):
            break
    return use, result


def told_call(use: ToolUse | None, result: ToolResult | None, palette: Palette) -> str:
    """A call with its input and its whole result."""
    parts = []
    if use is not None:
        name = f"{palette.paint(palette.dot, 'cyan')} {palette.paint(clean_line(use.name, 80), 'bold')}"
        parts.append(f"{name}\n{clean(_input(use))}\n")
    if result is not None:
        parts.append(f"{clean(content_text(result.content)).rstrip()}\n")
    else:
        parts.append(palette.paint("(no result)", "dim") + "\n")
    return "".join(parts)


def told_record(record: AnyRecord) -> str:
    """A record as JSON that can be read."""
    import json  # noqa: PLC0415  imported here: start-up cost

    return clean_json(json.dumps(to_plain(record), indent=2, ensure_ascii=False)) + "\n"
