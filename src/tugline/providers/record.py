"""Saving a real session as a script: a provider around a provider, whose replies can be replayed."""

import os
import re
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import IO, Any

from tugline.ports import Provider
from tugline.protocol import codec
from tugline.protocol.blocks import AssistantBlock, Opaque, Text, Thinking, ToolUse
from tugline.protocol.chunks import AttemptFailed, BlockClosed, Chunk, ReplyEnded, ReplyStarted
from tugline.protocol.errors import ConfigError
from tugline.protocol.messages import User
from tugline.protocol.specs import ModelCard, ModelRequest
from tugline.protocol.usage import Usage


class Recording:
    """Passes everything through and appends each reply that ended to a script, one step at a time.

    `.jsonl` and `.json` give JSON Lines, other suffixes YAML. Replies of other conversations than the first carry a
    condition on their first words, so that agents that ran side by side are replayed each with its own. What is
    written are replies only: no key, no header, no request.

    A script that can no longer be written (`problem`) does not stop the session; `aclose` then raises `ConfigError`.
    """

    problem: str | None = None

    def __init__(self, inner: Provider, path: str) -> None:
        self._inner = inner
        self._path = path
        self._lines = path.endswith((".jsonl", ".json"))
        self._conversation: str | None = None
        try:
            # a fresh file, readable by its owner only: replies may quote anything
            self._file: IO[bytes] = open(path, "wb", buffering=0, opener=_private)  # noqa: SIM115
        except OSError as error:
            raise ConfigError(f"cannot record to {path}: {error.strerror}") from None

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[Sequence[Chunk]]]:
        """The inner provider's answer, recorded as it passes."""
        words = first_words(request)
        if self._conversation is None:
            self._conversation = words
        async with self._inner.stream(request) as batches:
            recorded = self._recorded(batches, None if words == self._conversation else words)
            try:
                yield recorded
            finally:
                await recorded.aclose()

    def card(self, model: str) -> ModelCard:
        """What the inner provider knows of the model."""
        return self._inner.card(model)

    async def aclose(self) -> None:
        """Close the script and the inner provider."""
        self._file.close()
        await self._inner.aclose()
        if self.problem is not None:
            raise ConfigError(self.problem)

    async def _recorded(
        self, batches: AsyncIterator[Sequence[Chunk]], words: str | None
    ) -> AsyncGenerator[Sequence[Chunk], None]:
        blocks: list[AssistantBlock] = []
        async for batch in batches:
            for chunk in batch:
                if isinstance(chunk, ReplyStarted | AttemptFailed):
                    blocks = []
                elif isinstance(chunk, BlockClosed):
                    blocks.append(chunk.block)
                elif isinstance(chunk, ReplyEnded):
                    self._write(step(blocks, chunk, words))
            yield batch

    def _write(self, data: dict[str, Any]) -> None:
        if self.problem is not None:
            return
        lines = codec.encode(data) + b"\n" if self._lines else _yaml(data)
        try:
            written = self._file.write(lines)
        except OSError as error:
            self.problem = f"cannot record to {self._path}: {error.strerror}; the script lacks the last replies"
        else:
            if written != len(lines):
                self.problem = f"cannot record to {self._path}: no space left; the script lacks the last replies"


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _is_block(text: str) -> bool:
    # a block with empty lines at its end closes the whole document ("..."), and nothing could be appended
    return "\n" in text.strip("\n") and not text[0].isspace() and not text.endswith("\n\n")


def _yaml(data: dict[str, Any]) -> bytes:
    import yaml  # noqa: PLC0415  imported here: start-up cost

    class Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
        def ignore_aliases(self, data: Any) -> bool:
            return True

    def represent(dumper: Any, text: str) -> Any:
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if _is_block(text) else None)

    Dumper.add_representer(str, represent)
    said: str = yaml.dump([data], Dumper=Dumper, allow_unicode=True, sort_keys=False, width=110)
    return said.encode()


_REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>", re.DOTALL)


def without_reminders(text: str) -> str:
    """The words of a person, without what the harness added in reminders."""
    return _REMINDER.sub("", text).strip() if "<system-reminder>" in text else text.strip()


def first_words(request: ModelRequest) -> str:
    """The person's words that began this conversation, without reminders: what tells conversations apart.

    The test kit finds the conversation of a request by the same words, in all protocols.
    """
    texts: list[str] = []
    for message in request.messages:
        if not isinstance(message, User):
            break
        texts += [block.text for block in message.content if isinstance(block, Text)]
    return without_reminders("\n".join(texts))


def step(blocks: Sequence[AssistantBlock], ended: ReplyEnded, words: str | None = None) -> dict[str, Any]:
    """A reply as a step of a script, in plain data."""
    made: dict[str, Any] = {}
    if words is not None:
        made["when"] = {"first": {"is": words}}
    made["reply"] = [_part(block) for block in blocks]
    usual = "tool_use" if any(isinstance(block, ToolUse) for block in blocks) else "end_turn"
    if ended.stop != usual:
        made["stop"] = ended.stop
    made["usage"] = {name: count for name in Usage.__struct_fields__ if (count := getattr(ended.usage, name))}
    if "{{" in str(made["reply"]):
        made["literal"] = True
    return made


def _part(block: AssistantBlock) -> dict[str, Any]:
    match block:
        case Text(text=text):
            return {"text": text}
        case Thinking(thinking=thinking, signature=signature):
            return {"thinking": thinking, "signature": signature}
        case ToolUse(id=call, name=name, malformed=None):
            return {"call": {"tool": name, "id": call, "input": block.input}}
        case ToolUse(id=call, name=name, malformed=raw):
            return {"call": {"tool": name, "id": call, "raw": raw}}
        case Opaque(provider=provider, data=data):
            return {"opaque": {"provider": provider, "data": data}}
