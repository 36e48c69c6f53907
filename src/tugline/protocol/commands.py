"""What is asked inwards: imperative, data only."""

from msgspec import Struct

from tugline.protocol import permissions
from tugline.protocol.blocks import Document, Image, Text
from tugline.protocol.ids import MessageId, QuestionId, TaskId
from tugline.protocol.specs import Mode

PromptContent = tuple[Text | Image | Document, ...]


class Prompt(Struct, frozen=True, tag_field="type", tag="prompt", omit_defaults=True):
    """Begin a turn with this, or queue it behind the running one."""

    content: PromptContent
    id: MessageId = MessageId("")


class Steer(Struct, frozen=True, tag_field="type", tag="steer"):
    """Tell the running turn this before its next request; begins a turn where none runs."""

    content: PromptContent


class Interrupt(Struct, frozen=True, tag_field="type", tag="interrupt"):
    """End the running turn; the conversation stays valid and goes on."""


class Background(Struct, frozen=True, tag_field="type", tag="background", omit_defaults=True):
    """Stop waiting for what runs in the foreground: that task, or all. The work goes on where it is."""

    task: TaskId | None = None


class StopTask(Struct, frozen=True, tag_field="type", tag="stop_task"):
    """End a task; the model is told."""

    task: TaskId


class Reply(Struct, frozen=True, tag_field="type", tag="answer"):
    """Answer a question."""

    question: QuestionId
    answer: permissions.Answer


class SetMode(Struct, frozen=True, tag_field="type", tag="set_mode"):
    """Change the permission mode, also for the running turn."""

    mode: Mode


class SetModel(Struct, frozen=True, tag_field="type", tag="set_model"):
    """Use this model from the next request on."""

    model: str


class Rename(Struct, frozen=True, tag_field="type", tag="rename"):
    """Give the session a name."""

    title: str


class Rewind(Struct, frozen=True, tag_field="type", tag="rewind"):
    """Go on from before the person's words with that id, once no turn runs."""

    prompt: MessageId


class Clear(Struct, frozen=True, tag_field="type", tag="clear"):
    """Begin the conversation anew, once no turn runs."""


Command = Prompt | Steer | Interrupt | Background | StopTask | Reply | SetMode | SetModel | Rename | Rewind | Clear
