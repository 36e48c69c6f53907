"""What is asked inwards: imperative, data only."""

from typing import Literal

from msgspec import Struct

from tugline.protocol import permissions
from tugline.protocol.blocks import Document, Image, Text
from tugline.protocol.ids import MessageId, QuestionId, TaskId
from tugline.protocol.specs import Mode

RewindWhat = Literal["conversation", "files", "both"]
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


class AddDirectory(Struct, frozen=True, tag_field="type", tag="add_directory"):
    """Let this folder count as the working folder, for the rest of the session."""

    path: str


class SetModel(Struct, frozen=True, tag_field="type", tag="set_model"):
    """Use this model from the next request on."""

    model: str


class Rename(Struct, frozen=True, tag_field="type", tag="rename"):
    """Give the session a name."""

    title: str


class Rewind(Struct, frozen=True, tag_field="type", tag="rewind", omit_defaults=True):
    """Go back to before the person's words with that id, once no turn runs: the conversation, the files that the
    agent changed since, or both. `force`: also files that somebody else has changed too."""

    prompt: MessageId
    what: RewindWhat = "conversation"
    force: bool = False


class Clear(Struct, frozen=True, tag_field="type", tag="clear"):
    """Begin the conversation anew, once no turn runs."""


class Compact(Struct, frozen=True, tag_field="type", tag="compact", omit_defaults=True):
    """Put a summary in place of the conversation, once no turn runs; `words` say what it is to keep."""

    words: str = ""


class Snip(Struct, frozen=True, tag_field="type", tag="snip"):
    """Cut the oldest part of the conversation, without a summary, once no turn runs."""


class Uncompact(Struct, frozen=True, tag_field="type", tag="uncompact"):
    """Bring back the history before the last summary or cut, once no turn runs."""


Command = (
    Prompt
    | Steer
    | Interrupt
    | Background
    | StopTask
    | Reply
    | SetMode
    | AddDirectory
    | SetModel
    | Rename
    | Rewind
    | Clear
    | Compact
    | Snip
    | Uncompact
)
