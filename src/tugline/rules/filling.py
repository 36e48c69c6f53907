"""What fills the context: a table of its parts and their sizes."""

from collections.abc import Sequence

from msgspec import Struct

from tugline.protocol.blocks import Document, Image, Text, Thinking, ToolResult, ToolUse
from tugline.protocol.codec import encode
from tugline.protocol.messages import Assistant, Message, User
from tugline.protocol.specs import ModelCard, Section, ToolSpec
from tugline.rules import tokens
from tugline.rules.outline import is_fold, is_stub
from tugline.rules.tokens import Gauge, Weight

BAR = 30
_KINDS = {
    "person": "your words",
    "letter": "letters",
    "loop": "words of the loop",
    "context": "instruction files",
    "summary": "summaries",
}


class Part(Struct, frozen=True):
    """A part of the context. `group` is `system`, `tools` or `conversation`."""

    group: str
    name: str
    tokens: int
    count: int = 1


class Filling(Struct, frozen=True):
    """How full the window is, and with what. `used` is what the provider would count, the parts are shares of it. At
    `limit` requests are refused; at `threshold` the conversation is summarised (0: not by itself)."""

    model: str
    window: int
    used: int
    limit: int
    parts: tuple[Part, ...]
    threshold: int = 0

    @property
    def share(self) -> float:
        """Used of what may be used before a request is refused."""
        return min(1.0, self.used / self.limit) if self.limit else 1.0


def filling(
    system: Sequence[Section], tools: Sequence[ToolSpec], messages: Sequence[Message], gauge: Gauge, card: ModelCard
) -> Filling:
    """What fills the context now. Sizes are estimates whose sum is brought to what the gauge says."""
    weights: dict[tuple[str, str], tuple[Weight, int]] = {}

    def put(group: str, name: str, weight: Weight) -> None:
        former, count = weights.get((group, name), (Weight(), 0))
        weights[group, name] = (tokens.total([former, weight]), count + 1)

    for section in system:
        put("system", section.name, Weight(len(section.text)))
    for tool in tools:
        put("tools", tool.name, Weight(len(tool.description) + len(encode(tool.input_schema))))
    names: dict[str, str] = {}
    for message in messages:
        for block in message.content:
            if isinstance(block, ToolUse):
                names[block.id] = block.name
            put("conversation", _kind(message, block, names), tokens.weigh_block(block))
    used = gauge.tokens()
    estimates = {key: weight.tokens + weight.characters / gauge.ratio for key, (weight, _) in weights.items()}
    whole = sum(estimates.values()) or 1.0
    parts = [
        Part(group, name, round(size * used / whole), weights[group, name][1])
        for (group, name), size in estimates.items()
    ]
    return Filling(card.name, card.window, used, tokens.blocking_limit(card), tuple(parts))


def _kind(message: Message, block: object, names: dict[str, str]) -> str:
    match block:
        case ToolResult() if is_stub(block):
            return "old results, trimmed"
        case ToolResult(tool_use_id=call):
            return f"results of {names.get(call, 'tools')}"
        case Image():
            return "pictures"
        case Document():
            return "documents"
        case ToolUse():
            return "calls"
        case Thinking():
            return "thinking"
        case Text() if is_fold(message):
            return "finished work, folded"
        case Text() if isinstance(message, User):
            return _KINDS.get(message.source, message.source)
    return "answers" if isinstance(message, Assistant) else "other"


def rendered(found: Filling) -> str:
    """As text for a person."""
    full = round(found.share * BAR)
    lines = [
        f"{found.model}: {found.used:,} of {found.window:,} tokens ({found.used / max(1, found.window):.0%})",
        f"[{'#' * full}{'.' * (BAR - full)}] requests are refused at {found.limit:,}",
        f"summarised at {found.threshold:,}" if found.threshold else "not summarised by itself: compaction.auto is off",
    ]
    for group, title in (("system", "System prompt"), ("tools", "Tools"), ("conversation", "Conversation")):
        parts = sorted((part for part in found.parts if part.group == group), key=lambda part: -part.tokens)
        if not parts:
            continue
        lines += ["", f"{title}: {sum(part.tokens for part in parts):,}"]
        width = max(len(part.name) for part in parts)
        for part in parts:
            times = f"  ({part.count})" if part.count > 1 else ""
            lines.append(f"  {part.name:<{width}}  {part.tokens:>9,}{times}")
    return "\n".join(lines)
