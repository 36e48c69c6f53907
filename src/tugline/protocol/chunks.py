"""What a provider's stream says, in one language for all providers.

Order, per attempt: `ReplyStarted`, then for each block `BlockStarted`, any number of `BlockDelta`, `BlockClosed`,
blocks never nested; then `ReplyEnded`, which is said only if the provider ended the reply properly. `AttemptFailed`
may stand at any point instead: all that was said since the last `ReplyStarted` is void, and a new attempt follows
(or, if the wrapper gives up, `ProviderError` is raised). `ModelSwitched` stands between attempts.
"""

from typing import Literal

from msgspec import Struct

from tugline.protocol.blocks import AssistantBlock
from tugline.protocol.errors import Failure
from tugline.protocol.ids import CallId, ReplyId
from tugline.protocol.messages import StopReason
from tugline.protocol.usage import Usage

BlockKind = Literal["text", "thinking", "tool_use", "opaque"]


class ReplyStarted(Struct, frozen=True):
    """The provider has begun to answer."""

    reply: ReplyId
    model: str
    usage: Usage = Usage()


class BlockStarted(Struct, frozen=True):
    """A block opens. `call` and `name` are set for tool calls."""

    index: int
    kind: BlockKind
    call: CallId = CallId("")
    name: str = ""


class BlockDelta(Struct, frozen=True, gc=False):
    """More of the open block: text, thinking, or a piece of a call's JSON."""

    index: int
    text: str


class BlockClosed(Struct, frozen=True):
    """A block is complete."""

    index: int
    block: AssistantBlock


class ReplyEnded(Struct, frozen=True):
    """The reply ended properly. `usage` is the whole reply's."""

    stop: StopReason
    usage: Usage


class AttemptFailed(Struct, frozen=True):
    """An attempt failed, another follows after `delay` seconds; what it said is void."""

    failure: Failure
    attempt: int
    limit: int
    delay: float


class ModelSwitched(Struct, frozen=True):
    """From here on another model answers."""

    before: str
    after: str
    reason: str


Chunk = ReplyStarted | BlockStarted | BlockDelta | BlockClosed | ReplyEnded | AttemptFailed | ModelSwitched
