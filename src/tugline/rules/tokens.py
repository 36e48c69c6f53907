"""How large a conversation is, without asking anybody: what the provider last reported, plus an estimate of what
came after it."""

from msgspec import Struct

from tugline.protocol.blocks import Block, Document, Image, Text, Thinking, ToolResult, ToolUse
from tugline.protocol.codec import encode
from tugline.protocol.messages import Message
from tugline.protocol.specs import ModelCard
from tugline.protocol.usage import Usage

IMAGE_TOKENS = 1_334
PAGE_TOKENS = 2_000
MESSAGE_TOKENS = 4
CHARACTERS_PER_TOKEN = 4.0
MORE_FOR_DIGITS = 2
MORE_FOR_BYTES = 1.5
"""What a digit, and each byte of a character after its first, weighs more than a letter; from the recorded sessions of
the tests."""
OUTPUT_RESERVE = 20_000
"""The most that is kept free of the window for the reply."""
MARGIN = 3_000
"""What an estimate may be off by before a request is refused."""


class Weight(Struct, frozen=True):
    """What a part of a conversation weighs: characters to be converted, and tokens that are known."""

    characters: int = 0
    tokens: int = 0


def size_of(text: str) -> int:
    """The characters of a text, where those that take more tokens than letters do count for more: digits, and what has
    several bytes. So one ratio serves prose, code, logs and other scripts alike."""
    data = text.encode("utf-8", "surrogatepass")
    digits = len(data) - len(data.translate(None, b"0123456789"))
    return len(text) + MORE_FOR_DIGITS * digits + int(MORE_FOR_BYTES * (len(data) - len(text)))


def weigh_block(block: Block) -> Weight:
    """The weight of one block."""
    match block:
        case Text(text):
            return Weight(size_of(text))
        case Thinking(thinking, signature):
            return Weight(size_of(thinking) + len(signature) // 4)
        case ToolUse():
            return Weight(len(block.name) + size_of(encode(block.input).decode()))
        case ToolResult(_, content):
            if isinstance(content, str):
                return Weight(size_of(content))
            return total([weigh_block(part) for part in content])
        case Image():
            return Weight(0, IMAGE_TOKENS)
        case Document():
            return Weight(0, PAGE_TOKENS * block.pages)
    return Weight(len(encode(block.data)))


def weigh(message: Message) -> Weight:
    """The weight of a message; asked once for each."""
    parts = total([weigh_block(block) for block in message.content])
    return Weight(parts.characters, parts.tokens + MESSAGE_TOKENS)


def total(weights: list[Weight]) -> Weight:
    """The sum."""
    return Weight(sum(w.characters for w in weights), sum(w.tokens for w in weights))


class Gauge(Struct, frozen=True):
    """The size of a context. `sent` is what the last counted request and its reply weighed, `since` what came after;
    `ratio` (characters per token) is learned from each reported usage."""

    reported: int = 0
    since: Weight = Weight()
    sent: Weight = Weight()
    ratio: float = CHARACTERS_PER_TOKEN

    def tokens(self) -> int:
        """The estimate."""
        return self.reported + self.since.tokens + round(self.since.characters / self.ratio)


def add(gauge: Gauge, weight: Weight) -> Gauge:
    """The gauge after something joined the conversation."""
    since = Weight(gauge.since.characters + weight.characters, gauge.since.tokens + weight.tokens)
    return Gauge(gauge.reported, since, gauge.sent, gauge.ratio)


def report(gauge: Gauge, usage: Usage) -> Gauge:
    """The gauge after the provider counted all that is in it, its reply included."""
    counted = usage.input + usage.cache_read + usage.cache_write + usage.output
    if counted <= 0:
        return gauge
    sent = Weight(
        gauge.sent.characters + gauge.since.characters,
        gauge.sent.tokens + gauge.since.tokens,
    )
    worded = counted - sent.tokens
    ratio = gauge.ratio
    if sent.characters >= 400 and worded > 0:
        ratio = min(12.0, max(1.0, sent.characters / worded))
    return Gauge(counted, Weight(), sent, ratio)


def reserve(card: ModelCard) -> int:
    """What is kept free of the window for the reply."""
    return min(card.output_limit, OUTPUT_RESERVE, card.window // 4)


def blocking_limit(card: ModelCard) -> int:
    """Above this a request is not sent at all."""
    if card.window <= 16_000:
        return max(500, card.window * 3 // 4)
    return max(1_000, card.window - reserve(card) - MARGIN)
