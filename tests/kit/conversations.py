"""Conversations to encode: short ways to write messages, and random ones."""

from typing import Any

from hypothesis import strategies as st

from tugline.protocol.blocks import Document, Image, Opaque, Text, Thinking, ToolResult, ToolUse
from tugline.protocol.ids import CallId, MessageId
from tugline.protocol.messages import Assistant, Message, User
from tugline.protocol.specs import ModelRequest, ToolSpec

READ = ToolSpec("Read", "Reads a file.", {"type": "object", "properties": {"file_path": {"type": "string"}}})
LS = ToolSpec("Ls", "Lists.", {"type": "object"})
PNG = Image("image/png", "aGk=")
PDF = Document("application/pdf", "aGk=", "a.pdf", 3)


def user(name: str, *content: Any) -> User:
    """A message of the user; strings are text."""
    return User(MessageId(name), tuple(Text(part) if isinstance(part, str) else part for part in content))


def assistant(name: str, *content: Any, model: str = "") -> Assistant:
    """A reply; strings are text."""
    made = tuple(Text(part) if isinstance(part, str) else part for part in content)
    return Assistant(MessageId(name), made, model=model)


def call(name: str, tool: str = "Read", malformed: str | None = None, **data: Any) -> ToolUse:
    """A call."""
    return ToolUse(CallId(name), tool, data, malformed)


def result(name: str, content: Any = "ok", *, is_error: bool = False) -> ToolResult:
    """What came of a call."""
    return ToolResult(CallId(name), content, is_error)


def request(*messages: Message, model: str = "claude-sonnet-4-5", **options: Any) -> ModelRequest:
    """A request with these messages."""
    return ModelRequest(model=model, messages=messages, **options)


words = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
user_blocks = words.map(Text) | st.sampled_from([PNG, PDF])
assistant_blocks = (
    words.map(Text)
    | st.builds(Thinking, words, st.sampled_from(["", "sig"]))
    | st.sampled_from([Opaque("anthropic", {"type": "redacted_thinking", "data": "x"}), Opaque("openai", {"id": "r"})])
)


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    """A conversation as the loop keeps it: results follow their calls at once, in one message or several."""
    made: list[Message] = [user("m0", "go")]

    def number() -> str:
        return f"m{len(made)}"

    for _ in range(draw(st.integers(1, 8))):
        step = draw(st.sampled_from(["user", "reply", "calls", "calls"]))
        if step == "user":
            made.append(user(number(), *draw(st.lists(user_blocks, max_size=2))))
        elif step == "reply":
            made.append(assistant(number(), *draw(st.lists(assistant_blocks, max_size=3))))
        else:
            ids = [f"c{len(made)}_{n}" for n in range(draw(st.integers(1, 3)))]
            said = draw(st.lists(assistant_blocks, max_size=2))
            made.append(assistant(number(), *said, *(call(one, file_path=draw(words)) for one in ids)))
            content = st.one_of(words, st.lists(user_blocks, max_size=2).map(tuple))
            results = [result(one, draw(content), is_error=draw(st.booleans())) for one in ids]
            split = draw(st.integers(0, len(results)))
            for part in (results[:split], results[split:]):
                if part:
                    made.append(user(number(), *part))
    return made
