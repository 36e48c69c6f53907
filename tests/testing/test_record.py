"""Recording a session and replaying it."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tugline.protocol.blocks import Text
from tugline.protocol.chunks import AttemptFailed, BlockClosed, ReplyEnded
from tugline.protocol.errors import ConfigError, Failure, ProviderError
from tugline.protocol.ids import MessageId
from tugline.protocol.messages import User
from tugline.protocol.script import Match, Pattern, SayCall, SayOpaque, SayText, SayThinking, Script, Step
from tugline.protocol.specs import ModelRequest
from tugline.protocol.usage import Usage
from tugline.providers.record import Recording
from tugline.testing import ScriptedProvider, call, cut, gate, load_script, reply, thinking


def ask(*words: str) -> ModelRequest:
    return ModelRequest("m", (User(MessageId("u"), tuple(Text(word) for word in words or ("hello",))),))


async def consume(provider: Any, request: ModelRequest | None = None) -> list[Any]:
    said = []
    async with provider.stream(request or ask()) as batches:
        async for batch in batches:
            said += [chunk.block for chunk in batch if isinstance(chunk, BlockClosed)]
    return said


words = st.text(max_size=40)
json_data = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(words, json_data, max_size=3)
ids = st.from_regex(r"\A[a-z]{1,6}\Z").filter(bool)
broken_json = words.filter(lambda raw: raw != "" and not raw.lstrip().startswith("{"))
parts = st.one_of(
    st.builds(SayText, words),
    st.builds(SayThinking, words, words),
    st.builds(SayOpaque, words, objects),
    st.builds(SayCall, words, objects, ids),
    st.builds(lambda tool, call_id, raw: SayCall(tool, id=call_id, raw=raw), words, ids, broken_json),
)
usages = st.builds(Usage, *[st.integers(0, 10**6)] * 4)


@st.composite
def steps(draw: st.DrawFn) -> Step:
    said = tuple(draw(st.lists(parts, max_size=4)))
    stop = draw(st.sampled_from([None, "max_tokens", "refusal"]))
    return Step(parts=said, stop=stop, usage=draw(usages), literal="{{" in str(said))


@pytest.mark.parametrize("suffix", ["yaml", "jsonl"])
@settings(max_examples=60, deadline=None)
@given(script=st.lists(steps(), max_size=3))
@example(
    script=[Step(parts=(SayText(words),), usage=Usage()) for words in ("\n", "a\nb\n\n", " a\nb", "a\n b \n", "...")]
)
def test_a_recorded_replay_is_the_script(
    script: list[Step], suffix: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = str(tmp_path_factory.mktemp("record") / f"s.{suffix}")

    async def session() -> None:
        recording = Recording(ScriptedProvider(script), path)
        for _ in script:
            await consume(recording)
        await recording.aclose()

    asyncio.run(session())
    if not script and suffix == "yaml":
        with pytest.raises(ConfigError, match="the script is empty"):
            load_script(path)
    else:
        assert load_script(path) == Script(tuple(script))


async def test_a_recording_reads_like_a_script_that_a_person_wrote(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    script = [
        reply(thinking("hm", signature="s"), "I read it.", call("Read", file_path="a.py"), usage=Usage(10, 3)),
        reply("Two\nlines.\n", usage=Usage(20, 4)),
    ]
    recording = Recording(ScriptedProvider(script), str(path))
    await consume(recording)
    await consume(recording)
    assert path.read_text() == (
        "- reply:\n"
        "  - thinking: hm\n"
        "    signature: s\n"
        "  - text: I read it.\n"
        "  - call:\n"
        "      tool: Read\n"
        "      id: call_1_1\n"
        "      input:\n"
        "        file_path: a.py\n"
        "  usage:\n"
        "    input: 10\n"
        "    output: 3\n"
        "- reply:\n"
        "  - text: |\n"
        "      Two\n"
        "      lines.\n"
        "  usage:\n"
        "    input: 20\n"
        "    output: 4\n"
    )
    assert path.stat().st_mode & 0o777 == 0o600
    await recording.aclose()


async def test_only_replies_that_ended_are_recorded(tmp_path: Path) -> None:
    path = str(tmp_path / "s.yaml")
    recording = Recording(ScriptedProvider([reply("cut", cut()), reply("whole", usage=Usage())]), path)
    with pytest.raises(ProviderError):
        await consume(recording)
    await consume(recording)
    await recording.aclose()
    assert load_script(path) == Script((Step(parts=(SayText("whole"),), usage=Usage()),))


async def test_what_a_failed_attempt_said_is_not_recorded(tmp_path: Path) -> None:
    class Retrying(ScriptedProvider):
        async def _batches(self, acts: Any, stream: bool) -> Any:
            yield [BlockClosed(0, Text("void")), AttemptFailed(Failure("overloaded", "busy"), 1, 8, 0.0)]
            yield [BlockClosed(0, Text("valid")), ReplyEnded("end_turn", Usage())]

    path = str(tmp_path / "s.yaml")
    recording = Recording(Retrying([reply("x")]), path)
    await consume(recording)
    await recording.aclose()
    assert load_script(path) == Script((Step(parts=(SayText("valid"),), usage=Usage()),))


async def test_conversations_side_by_side_are_replayed_each_with_its_own_replies(tmp_path: Path) -> None:
    path = str(tmp_path / "s.jsonl")
    script = [
        reply("child", usage=Usage(), when=Match(user="count the files")),
        reply("main 1", usage=Usage()),
        reply("main 2", usage=Usage()),
    ]
    recording = Recording(ScriptedProvider(script), path)
    child = ask("<system-reminder>today is Monday</system-reminder>", "count the files")
    main = ask("<system-reminder>today is Monday</system-reminder>", "use an agent")
    for request in (main, child, main):
        await consume(recording, request)
    await recording.aclose()
    replayed = ScriptedProvider(load_script(path))
    later = ask("<system-reminder>today is Friday</system-reminder>", "count the files")
    assert await consume(replayed, main) == [Text("main 1")]
    assert await consume(replayed, main) == [Text("main 2")]
    assert await consume(replayed, later) == [Text("child")]
    replayed.check()
    conditions = [step.when for step in load_script(path).steps]
    assert conditions == [None, Match(first=Pattern(equal="count the files")), None]


async def test_each_reply_is_in_the_file_as_soon_as_it_ended(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    scripted = ScriptedProvider([reply("one"), reply(gate("a"), "two")])
    recording = Recording(scripted, str(path))
    await consume(recording)
    task = asyncio.create_task(consume(recording))
    await scripted.reached("a")
    assert len(path.read_text().splitlines()) == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert scripted.running == 0
    await recording.aclose()
    assert scripted.closed


async def test_a_script_that_cannot_be_made_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot record to .*: No such file or directory"):
        Recording(ScriptedProvider([]), str(tmp_path / "none" / "s.yaml"))


async def test_a_full_disk_stops_the_recording_and_not_the_session() -> None:
    recording = Recording(ScriptedProvider([reply("one"), reply("two")]), "/dev/full")
    assert await consume(recording) == [Text("one")]
    assert await consume(recording) == [Text("two")]
    with pytest.raises(ConfigError, match="cannot record to /dev/full: No space left"):
        await recording.aclose()
