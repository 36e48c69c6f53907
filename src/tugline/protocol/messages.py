"""Messages: what a conversation consists of. Each carries the id of its record in the transcript."""

from typing import Literal

from msgspec import Struct

from tugline.protocol.blocks import AssistantBlock, UserBlock
from tugline.protocol.ids import MessageId
from tugline.protocol.usage import Usage

Source = Literal["person", "results", "letter", "loop", "context", "summary"]
"""Who says it: a person, the results of calls, a letter from beside, the loop itself, what stands in instruction files,
a summary in place of an older part."""

StopReason = str
"""`end_turn`, `tool_use`, `max_tokens`, `stop_sequence`, `refusal`, `pause_turn`, `context_exceeded`, or the
provider's own word where it is none of these."""


class User(Struct, frozen=True, tag_field="role", tag="user", omit_defaults=True):
    """What the model is told: a prompt, the results of calls, a letter, a word of the loop itself, or (`context`)
    what files of instructions say."""

    id: MessageId
    content: tuple[UserBlock, ...]
    source: Source = "person"
    hidden: bool = False


class Assistant(Struct, frozen=True, tag_field="role", tag="assistant", omit_defaults=True):
    """One whole reply of the model. Only a reply that ended properly becomes one."""

    id: MessageId
    content: tuple[AssistantBlock, ...]
    model: str = ""
    stop: StopReason = "end_turn"
    usage: Usage = Usage()
    reply: str = ""


Message = User | Assistant
