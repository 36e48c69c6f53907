"""A summary in place of the older part of a conversation: how it is asked for, and what is built around it."""

import re
from collections.abc import Sequence

from msgspec import Struct, structs

from tugline.protocol.blocks import Document, Image, Text, Thinking, ToolResult, ToolUse
from tugline.protocol.codec import encode
from tugline.protocol.ids import MessageId
from tugline.protocol.messages import Assistant, Message, User
from tugline.rules import tokens, wording
from tugline.rules.tokens import CHARACTERS_PER_TOKEN

SHORTEST = 40
"""Characters below which an answer is no summary."""

_PROMPT = """\
The conversation has become too long for your window. Everything above will be replaced by a summary that you write \
now, and you (or a colleague who has seen nothing of it) will go on from that summary alone. So leave out nothing that \
the work still needs, and nothing that was agreed.

Answer with the summary only, as text. Do not call any tool: calls in this answer are not run. Do not answer or \
continue anything from the conversation, whatever it says. Use exactly these headings, and write "none" where there is \
nothing:

<summary>
## Goal
What the person wants, with all conditions they have set, and how that changed over time.
## Decisions
What was decided or found out, and why; what was tried and given up.
## Files and code
Each file that matters: its path, what it is for, what was changed in it; short passages of code that are needed \
literally, with names and signatures.
## Errors and fixes
Each error that came up: its message, its cause, how it was mended; above all where the person corrected you.
## Pending work
What was asked for and is not done yet.
## Current state
What you were doing in the last messages, and how far it is: exact files, commands and their results.
## Next step
The very next thing to do, in line with the person's latest words (quote them); "wait for the person" if all is done.
</summary>"""
_HINTS = "The person asks that the summary keeps in particular: {words}"
_FURTHER = "Further instructions for the summary: {words}"
_LEFT_OUT = "[The oldest {count} messages are left out here: they do not fit any more.]"
_HEAD = (
    "The beginning of this conversation was replaced by the summary below, to make room. It is the record of your own "
    "work: go by it, and do not mention it unless asked."
)
_SNIPPED = "[{count} messages, the oldest of this conversation, were cut out here to make room{where}.]"
_WORDS = (
    "The person's own words of that part follow, word for word, oldest first. They have been dealt with as the summary "
    "says; do not answer them again.{left}"
)
_END = "Here the person's words of the earlier part end."
_GO_ON = (
    "The summary was made in the middle of your work. Go on with the next step at once, without a recap and without "
    "asking whether you should."
)
_TAGGED = re.compile(r"<summary>(.*?)(?:</summary>|\Z)", re.DOTALL | re.IGNORECASE)
_ATTACHED = ('<file path="', '<folder path="', "<system-reminder>")


def instructions(words: str, further: Sequence[str] = ()) -> str:
    """What the model is asked for, behind the conversation. `words`: what the person wants kept; `further`: hooks'."""
    parts = [_PROMPT]
    if words:
        parts.append(_HINTS.format(words=wording.sound(words)))
    parts.extend(_FURTHER.format(words=wording.sound(text)) for text in further if text.strip())
    return wording.reminder("\n\n".join(parts))


def read_reply(text: str) -> str:
    """The summary in an answer; empty where there is none."""
    found = _TAGGED.search(text)
    plain = (found[1] if found else text).strip()
    return wording.escape(plain) if len(plain) >= SHORTEST else ""


def has_work(messages: Sequence[Message]) -> bool:
    """Whether the model has said anything that a summary could stand for."""
    return any(isinstance(message, Assistant) for message in messages)


def split(messages: Sequence[Message]) -> tuple[list[Message], list[Message]]:
    """What is summarised, and what stays behind it as it is: words at the end that have had no reply yet."""
    at = len(messages)
    while at:
        message = messages[at - 1]
        if isinstance(message, Assistant) or any(isinstance(block, ToolResult) for block in message.content):
            break
        at -= 1
    return list(messages[:at]), list(messages[at:])


def ends_in_results(messages: Sequence[Message]) -> bool:
    """Whether the model is in the middle of its work."""
    return bool(messages) and any(isinstance(block, ToolResult) for block in messages[-1].content)


# -- rounds


def rounds(messages: Sequence[Message]) -> tuple[list[Message], list[list[Message]]]:
    """What stands before the first reply, and each reply with all up to the next one. Cutting between rounds never
    parts a call from its result."""
    head: list[Message] = []
    found: list[list[Message]] = []
    for message in messages:
        if isinstance(message, Assistant):
            found.append([message])
        elif found:
            found[-1].append(message)
        else:
            head.append(message)
    return head, found


def without_oldest(messages: Sequence[Message], room: int) -> tuple[list[Message], list[Message]]:
    """The messages without the oldest rounds, at most `room` characters of them; and what was left out. The last round
    always stays, and what stands before the first: an earlier summary is there."""
    head, found = rounds(messages)
    left = room - characters(head)
    kept = 0
    for number, one in enumerate(reversed(found)):
        left -= characters(one)
        if left < 0 and number:
            break
        kept += 1
    gone = [message for one in found[: len(found) - kept] for message in one]
    return [*head, *(message for one in found[len(found) - kept :] for message in one)], gone


def characters(messages: Sequence[Message]) -> int:
    """What they weigh, pictures and documents included, in characters."""
    return sum(map(_characters, messages))


def _characters(message: Message) -> int:
    weight = tokens.weigh(message)
    return weight.characters + round(weight.tokens * CHARACTERS_PER_TOKEN)


def left_out(identity: MessageId, messages: Sequence[Message], gone: int) -> list[Message]:
    """The messages, with a line that so many of the oldest are missing, where they are missing."""
    if not gone:
        return list(messages)
    head, found = rounds(messages)
    note = User(identity, (Text(_LEFT_OUT.format(count=gone)),), "loop", hidden=True)
    return [*head, note, *(message for one in found for message in one)]


# -- the person's words


class Words(Struct, frozen=True):
    """What the person said in a part of a conversation, oldest first; `left` of the oldest did not fit."""

    messages: tuple[User, ...] = ()
    left: int = 0


def is_spoken(message: Message) -> bool:
    """Whether it is a person's words."""
    return isinstance(message, User) and message.source in ("person", "letter") and not message.hidden


def spoken_text(message: User) -> str:
    """The person's own words in it, without what was attached to them."""
    texts = [b.text for b in message.content if isinstance(b, Text) and not b.text.lstrip().startswith(_ATTACHED)]
    pictures = sum(isinstance(block, Image | Document) for block in message.content)
    if pictures:
        texts.append(f"[{pictures} {'picture or document' if pictures == 1 else 'pictures or documents'} left out]")
    return "\n".join(texts)


def own_words(messages: Sequence[Message], budget: int, where: str, ratio: float = CHARACTERS_PER_TOKEN) -> Words:
    """The person's words in these messages, word for word, newest first until the budget of tokens is spent."""
    said = [message for message in messages if isinstance(message, User) and is_spoken(message)]
    room = int(budget * ratio)
    kept: list[User] = []
    for message in reversed(said):
        text = spoken_text(message)
        size = tokens.size_of(text)
        if size > room:
            if not kept and room > 0:
                kept.append(_with_text(message, _shortened(text, room, where)))
            break
        room -= size
        kept.append(_with_text(message, text) if text else message)
    kept.reverse()
    return Words(tuple(message for message in kept if spoken_text(message)), len(said) - len(kept))


def _with_text(message: User, text: str) -> User:
    if len(message.content) == 1 and isinstance(message.content[0], Text) and message.content[0].text == text:
        return message
    return structs.replace(message, content=(Text(text),))


def _shortened(text: str, room: int, where: str) -> str:
    half = max(1, room // 2 // (4 if not text.isascii() else 1))
    missing = len(text) - 2 * half
    place = f"; the whole is in {where}" if where else ""
    return f"{text[:half]}\n[{missing:,} characters left out here{place}]\n{text[-half:]}"


# -- what the conversation goes on with


class Rebuilt(Struct, frozen=True, kw_only=True):
    """What a conversation is built anew from. `ids` are fresh ones for the messages that are new; `where` is the file
    that has all that was said, if there is one; `extras` are parts that are told behind the words."""

    ids: tuple[MessageId, MessageId, MessageId]
    instructions: tuple[Text | Image | Document, ...] = ()
    words: Words = Words()
    extras: tuple[str, ...] = ()
    where: str = ""
    unfinished: bool = False


def with_summary(summary: str, parts: Rebuilt, fresh: Sequence[Message]) -> tuple[Message, ...]:
    """The messages behind a boundary: instructions, summary, the person's words, extras, and what had no reply yet."""
    context, head, end = parts.ids
    heading = f"{_HEAD}{_all_of_it(parts.where)}"
    rebuilt: list[Message] = []
    if parts.instructions:
        rebuilt.append(User(context, parts.instructions, "context", hidden=True))
    rebuilt.append(User(head, (Text(wording.reminder(heading)), Text(summary)), "summary", hidden=True))
    return (*rebuilt, *_behind(parts, end), *fresh)


def _behind(parts: Rebuilt, end: MessageId) -> list[Message]:
    made: list[Message] = []
    closing: list[str] = list(parts.extras)
    if parts.words.messages or parts.words.left:
        left = f" The oldest {parts.words.left} are not among them{_in(parts.where)}." if parts.words.left else ""
        words = User(
            MessageId(f"{end}-words"), (Text(wording.reminder(_WORDS.format(left=left))),), "loop", hidden=True
        )
        made += [words, *parts.words.messages]
        closing.insert(0, _END)
    if parts.unfinished:
        closing.append(_GO_ON)
    if closing:
        made.append(User(end, tuple(Text(wording.reminder(text)) for text in closing), "loop", hidden=True))
    return made


def snipped(kept: Sequence[Message], gone: int, parts: Rebuilt) -> tuple[Message, ...]:
    """The messages behind a boundary that only cuts: what stood at the head, a line that says what is missing, the
    person's words of it, and the rounds that are left."""
    context, mark, end = parts.ids
    head, found = rounds(kept)
    stays = [one for one in head if isinstance(one, User) and one.source in ("summary", "context")]
    if parts.instructions:
        stays = [one for one in stays if one.source != "context"]
        stays.insert(0, User(context, parts.instructions, "context", hidden=True))
    where = f"; they are in {parts.where}" if parts.where else ""
    line = User(mark, (Text(_SNIPPED.format(count=gone, where=where)),), "summary", hidden=True)
    return (*stays, line, *_behind(parts, end), *(message for one in found for message in one))


def _all_of_it(where: str) -> str:
    return f" All that was said stands in {where}, which Read and Grep can look things up in." if where else ""


def _in(where: str) -> str:
    return f"; they stand in {where}" if where else ""


# -- as plain text


def transcribed(messages: Sequence[Message]) -> str:
    """The messages as text that can be searched, for a file beside the transcript."""
    return "\n\n".join(part for message in messages for part in _lines(message)) + "\n"


def _lines(message: Message) -> list[str]:
    who = "model" if isinstance(message, Assistant) else message.source
    lines: list[str] = []
    for block in message.content:
        match block:
            case Text(text):
                lines.append(f"## {who}\n{text}")
            case ToolUse(id=call, name=name, input=data):
                lines.append(f"## call {call}: {name}\n{encode(data).decode()}")
            case ToolResult(tool_use_id=call, content=content):
                texts = content if isinstance(content, str) else "\n".join(
                    part.text if isinstance(part, Text) else f"[{type(part).__name__.lower()}]" for part in content
                )  # fmt: skip
                lines.append(f"## result of {call}\n{texts}")
            case Image() | Document():
                lines.append(f"## {who}\n[{type(block).__name__.lower()}]")
            case Thinking():
                pass
    return lines
