"""Descriptions: of a request, of a tool, of a model, of what a call touches and what it changes."""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, Literal

from msgspec import Struct

from tugline.protocol.blocks import Document, Image, Text
from tugline.protocol.instructions import Instruction
from tugline.protocol.messages import Message

Mode = Literal["default", "acceptEdits", "plan", "auto", "dontAsk", "bypassPermissions"]
Purpose = str
"""What a request is for: `main`, an agent's type, `compaction`, `title`, `classifier`, `web_fetch`, …"""
Effort = Literal["low", "medium", "high", "xhigh", "max"]


class ToolSpec(Struct, frozen=True):
    """A tool as the model sees it. `input_schema` is JSON Schema with nothing behind `$ref`."""

    name: str
    description: str
    input_schema: dict[str, Any]


class Section(Struct, frozen=True):
    """A part of the system prompt, by name."""

    name: str
    text: str


class ModelRequest(Struct, frozen=True, eq=False):
    """One request. The order of its parts is the order on the wire: what varies stands after what does not.

    `messages` may hold neighbours of one role: the adapter joins them. `tail` is put after the last message of this
    request only (reminders), is never part of the history, and carries no cache marker.
    """

    model: str
    messages: Sequence[Message]
    system: tuple[str, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    purpose: Purpose = "main"
    max_output_tokens: int | None = None
    thinking_tokens: int = 0
    effort: Effort | None = None
    stream: bool = True
    tail: str = ""
    session: str = ""
    agent: str = ""
    step: str = ""


class Price(Struct, frozen=True):
    """USD per million tokens; the cache's as multiples of the input price."""

    input: float = 0.0
    output: float = 0.0
    cache_write: float = 1.25
    cache_read: float = 0.1


class ModelCard(Struct, frozen=True, kw_only=True):
    """What is known of a model. The defaults are safe for an unknown one.

    `adaptive_thinking`: it takes no budget for thinking, it decides itself. `efforts`: the efforts it can be asked for.
    """

    name: str
    provider: str = ""
    window: int = 128_000
    output_limit: int = 8_192
    output_ceiling: int = 0
    price: Price = Price()
    images: bool = True
    documents: bool = False
    thinking: bool = False
    adaptive_thinking: bool = False
    efforts: tuple[Effort, ...] = ()
    tools: bool = True
    text_calls: bool = False
    known: bool = True


class Footprint(IntEnum):
    """What a call touches. Ordered: more is stricter."""

    NOTHING = 0
    READS = 1
    CHANGES = 2


class PathSubject(Struct, frozen=True, tag="path"):
    """A file or folder that the call reads or edits. `path` as given; the gate resolves it before rules see it."""

    path: str
    access: Literal["read", "edit"] = "read"


class CommandSubject(Struct, frozen=True, tag="command", omit_defaults=True):
    """A shell command. `outside`: it runs outside of the sandbox, because the settings exclude it or because the model
    asks for it."""

    command: str
    outside: Literal["", "excluded", "asked"] = ""


class DomainSubject(Struct, frozen=True, tag="domain"):
    """A host that the call speaks to."""

    host: str


class NameSubject(Struct, frozen=True, tag="name"):
    """Something that rules name: an agent type, a skill, a server."""

    name: str


Subject = PathSubject | CommandSubject | DomainSubject | NameSubject


class FileSeen(Struct, frozen=True):
    """What an agent knows of a file: how it was when read or written, and whether it saw all of it."""

    mtime_ns: int
    size: int
    digest: str
    whole: bool = True
    view: str = ""


class FileStep(Struct, frozen=True, omit_defaults=True):
    """What a rewind does with a file. `conflict`: somebody else changed it, or something stands in the way, and it is
    left alone; `lost`: it cannot be put back. `why` says more of these two."""

    path: str
    do: Literal["restore", "delete", "recreate", "conflict", "lost"]
    why: str = ""


class Todo(Struct, frozen=True):
    """One entry of the agent's own list."""

    content: str
    status: Literal["pending", "in_progress", "completed"]
    active_form: str = ""


class AgentState(Struct, frozen=True):
    """What calls see and change, through changes only. Replaced whole; a call keeps the one it started with."""

    cwd: str
    files: Mapping[str, FileSeen] = {}
    todos: tuple[Todo, ...] = ()
    loaded_tools: frozenset[str] = frozenset()
    told: frozenset[str] = frozenset()
    """The files of instructions that stand in the conversation."""


class Surroundings(Struct, frozen=True, kw_only=True):
    """Where an agent works, as it was when the session began."""

    cwd: str
    platform: str
    date: str
    directories: tuple[str, ...] = ()
    git_branch: str = ""
    git_status: str = ""


class Cwd(Struct, frozen=True, tag="cwd"):
    """The shell's working directory moved."""

    path: str


class Seen(Struct, frozen=True, tag="seen"):
    """A file was read or written: this is how the agent knows it now. `None`: no longer known."""

    path: str
    file: FileSeen | None


class Todos(Struct, frozen=True, tag="todos"):
    """The list of todos is this now."""

    todos: tuple[Todo, ...]


class ToolsLoaded(Struct, frozen=True, tag="tools_loaded"):
    """Deferred tools whose schemas the next request carries."""

    names: tuple[str, ...]


class Reminder(Struct, frozen=True, tag="reminder"):
    """Words for the model that go into the inbox."""

    text: str


class Instructed(Struct, frozen=True, tag="instructed"):
    """Files of instructions that hold for what the call touched. The model is told of each once."""

    instructions: tuple[Instruction, ...]


Change = Cwd | Seen | Todos | ToolsLoaded | Reminder | Instructed


class Display(Struct, frozen=True, omit_defaults=True):
    """What a person sees of a result: one line, and more on demand. `detail_kind` says how to draw it."""

    line: str
    detail: str = ""
    detail_kind: Literal["text", "diff", "markdown"] = "text"


Content = str | tuple[Text | Image | Document, ...]


class Result(Struct, frozen=True):
    """What came of a call: for the model, for the person, and what it changes."""

    for_model: Content
    for_person: Display | None = None
    is_error: bool = False
    changes: tuple[Change, ...] = ()


class Progress(Struct, frozen=True, omit_defaults=True):
    """A sign of life of a running call."""

    text: str = ""
    elapsed: float = 0.0
    lines: int = 0
    bytes: int = 0
