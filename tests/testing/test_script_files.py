"""Scripts in files: what they can say, and how their errors read."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tugline.protocol.errors import ConfigError
from tugline.protocol.script import (
    Cut,
    ErrorEvent,
    Garbage,
    Gate,
    HttpError,
    Lane,
    Match,
    Pattern,
    Pause,
    Pings,
    SayCall,
    SayOpaque,
    SayText,
    SayThinking,
    Script,
    Step,
)
from tugline.protocol.usage import Usage
from tugline.testing import load_script, parse_script

EVERYTHING = """
chunk: 12
steps:
  - hello
  - text: one
    chunk: 3
  - thinking: hm
    text: two
    calls: [{tool: Read, input: {file_path: x, when: 2024-01-01}}, Now]
    stop: tool_use
    usage: {input: 7, cache_read: 2}
  - when: please
    expect:
      tools: Read
      without: [Bash]
      results: [one, {is: two}]
      result: {regexp: "^t.o$"}
      is_error: false
      stream: true
    repeat: forever
    reply:
      - first
      - {text: second, chunk: 0, unclosed: true}
      - {thinking: deep, signature: s}
      - call: {tool: Bash, raw: '{"com', id: c1}
      - opaque: {provider: anthropic, data: {type: redacted_thinking, data: x}}
      - pause: 0.5
      - gate: g
      - ping: 2
      - garbage: "<html>"
      - error_event: {type: api_error}
      - cut: drop
  - error: 529
  - error: {status: 429, message: slow, type: t, retry_after: 3, headers: {x-a: b}, body: raw}
    repeat: 2
  - text: last
    pause: 1
    pace: 0.01
    gate: start
    cut: {how: hang, events: 4}
    split: 7
    content_type: text/html
    literal: true
    model: other
lanes:
  left:
    match: {first: go left, purpose: main}
    steps: [a]
    each: true
"""

EXPECTED = Script(
    (
        Step(parts=(SayText("hello"),)),
        Step(parts=(SayText("one"),), chunk=3),
        Step(
            parts=(
                SayThinking("hm"),
                SayText("two"),
                SayCall("Read", {"file_path": "x", "when": "2024-01-01"}),
                SayCall("Now"),
            ),
            stop="tool_use",
            usage=Usage(input=7, cache_read=2),
        ),
        Step(
            when=Match(user="please"),
            expect=Match(
                tools=("Read",),
                without=("Bash",),
                results=("one", Pattern(equal="two")),
                result=Pattern(regexp="^t.o$"),
                is_error=False,
                stream=True,
            ),
            repeat=None,
            parts=(
                SayText("first"),
                SayText("second", 0, True),
                SayThinking("deep", "s"),
                SayCall("Bash", id="c1", raw='{"com'),
                SayOpaque("anthropic", {"type": "redacted_thinking", "data": "x"}),
                Pause(0.5),
                Gate("g"),
                Pings(2),
                Garbage("<html>"),
                ErrorEvent("api_error", "Overloaded"),
                Cut("drop"),
            ),
        ),
        Step(error=HttpError(529)),
        Step(error=HttpError(429, "slow", "t", 3.0, {"x-a": "b"}, "raw"), repeat=2),
        Step(
            parts=(Gate("start"), SayText("last")),
            pause=1.0,
            pace=0.01,
            cut=Cut("hang", events=4),
            split=7,
            content_type="text/html",
            literal=True,
            model="other",
        ),
    ),
    {"left": Lane(match=Match(first="go left", purpose="main"), steps=(Step(parts=(SayText("a"),)),), each=True)},
    12,
)


def test_a_script_can_say_all_that_there_is() -> None:
    assert parse_script(EVERYTHING) == EXPECTED


def test_the_kinds_of_file_say_the_same(tmp_path: Path) -> None:
    steps = [{"text": "a\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16")}, {"call": "Now"}]
    (tmp_path / "a.json").write_text(json.dumps(steps))
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps(step) for step in steps) + "\n\n")
    (tmp_path / "a.yaml").write_text("- text: a😀\n- call: Now\n")
    (tmp_path / "a.py").write_text(
        "from tugline.testing import Script, call, reply\nscript = Script([reply('a😀'), reply(call('Now'))])\n"
    )
    (tmp_path / "b.py").write_text("from tugline.testing import *\nscript = [reply('a😀'), reply(call('Now'))]\n")
    said = [load_script(str(path)) for path in sorted(tmp_path.iterdir())]
    steps_said = [list(script.steps) for script in said]
    assert steps_said == [[Step(parts=(SayText("a😀"),)), Step(parts=(SayCall("Now"),))]] * 5


BAD: list[tuple[str, str]] = [
    ("", "1:1: the script is empty"),
    ("# nothing\n", "1:1: the script is empty"),
    ("just words", "1:1: a script must be a mapping, not a string"),
    ("- text: a\n  txet: b\n", "2:3: step 1, txet: a step has no key 'txet'; did you mean 'text'?"),
    ("- txt: hi\n", "a step has no key 'txt'; did you mean 'text'?"),
    ("stepps: []\n", "1:1: stepps: a script has no key 'stepps'; did you mean 'steps'?"),
    ("- text: 5\n", "1:9: step 1, text: must be a string, not a number (put it in quotes)"),
    ("- text: yes\n", "must be a string, not true or false"),
    ("- text: [\n", "2:1: "),
    ("- a: b\n c: d\n", "2:2: "),
    ("\t- x", "1:1: "),
    ("- text: a\n  text: b\n", "2:3: the key 'text' stands twice"),
    ("- {}\n", "1:3: step 1: a step needs a 'reply'"),
    ("- repeat: 2\n", "a step needs a 'reply'"),
    ("- [a]\n", "a step must be a mapping, not a list"),
    ("-\n", "a step must be a mapping, not nothing"),
    ("- reply: [{text: a, call: {tool: x}}]\n", "exactly one of"),
    ("- reply: [{chunk: 3}]\n", "this one has 0"),
    ("- reply: [{pause: 1, chunk: 3}]\n", "'chunk' does not go with 'pause'"),
    ("- reply: a\n  text: b\n", "2:3: step 1, text: 'text' belongs into the list under 'reply'"),
    ("- error: 529\n  text: b\n", "either an error or a reply"),
    ("- error: 200\n", "from 300 on"),
    ("- error: 999\n", "300 to 599"),
    ("- error: {message: x}\n", "needs 'status'"),
    ("- error: {status: 500, headers: {a: 'x\n\n    y'}}\n", "a header is one line"),
    ("- call: {input: {}}\n", "a call needs 'tool'"),
    ("- call: {tool: x, input: [1]}\n", "must be a mapping, not a list"),
    ("- call: {tool: x, input: {}, raw: ''}\n", "either 'input' or 'raw'"),
    ("- call: {tool: x, inptu: {}}\n", "did you mean 'input'?"),
    ("- text: a\n  repeat: 0\n", "2:11: step 1, repeat: must be a whole number from 1 on, not 0"),
    ("- text: a\n  repeat: always\n", 'whole number from 1 on, not "always"'),
    ("- text: a\n  pause: -1\n", "number of seconds"),
    ("- text: a\n  pause: .nan\n", "number of seconds"),
    ("- text: a\n  usage: {tokens: 1}\n", "usage has no key 'tokens'"),
    ("- text: a\n  when: {user: {regexp: '('}}\n", "no regular expression"),
    ("- text: a\n  when: {user: {}}\n", "needs 'regexp' or 'is'"),
    ("- text: a\n  when: {users: x}\n", "did you mean 'user'?"),
    ("- text: a\n  cut: {how: end}\n", "needs 'events' or 'bytes'"),
    ("- text: a\n  cut: {how: never, bytes: 1}\n", "must be one of end, close, drop, hang"),
    ("- text: a\n  literal: 1\n", "must be true or false"),
    ("lanes: {a: {steps: []}}\n", "a lane needs 'match'"),
    ("lanes: {a b: {}}\n", "a lane's name"),
    ("lanes: {1: {}}\n", "a key must be a string"),
    ("steps: &a [*a]\n", "1:8: contains itself"),
    ("- &a\n  call: {tool: x, input: *a}\n", "1:3: contains itself"),
    ("- *a\n", "1:3: found undefined alias"),
    ("- text: !!int x\n", "not what its tag says"),
    ("- text: !!bool x\n", "not what its tag says"),
    ("- chunk: " + "9" * 5000, "not what its tag says"),
    ("? {a: b}\n: c\n", "found unhashable key"),
    ("- text: !!python/object:os.system x\n", "could not determine a constructor"),
    ("- " + "[" * 200 + "]" * 200, "nested too deeply"),
    ("a\0b", "1:1: "),
    ("--- a\n--- b\n", "2:1: "),
]


@pytest.mark.parametrize(("words", "reason"), BAD)
def test_an_error_names_file_line_and_column(words: str, reason: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_script(words, "demo.yaml")
    said = str(raised.value)
    assert said.startswith("demo.yaml:")
    assert reason in said
    assert "\n" not in said


def test_aliases_that_grow_without_measure_are_refused() -> None:
    lines = ["a: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(ConfigError, match="too large with its aliases written out"):
        parse_script("\n".join(lines))


@pytest.mark.parametrize(
    ("name", "words", "reason"),
    [
        ("a.json", "[{]", "a.json:1:3: Expecting property name"),
        ("a.json", '[{"text": "a", "text": "b"}]', "stands twice"),
        ("a.json", '[\n  {"text": "a"},\n  {"txt": "b"}\n]', "a.json:3:4: step 2, txt"),
        ("a.json", "[" * 100_000, "nested too deeply"),
        ("a.jsonl", '{"text": "a"}\n\n{"text": "a", "chunk": -1}', "a.jsonl:3:24: step 2, chunk"),
        ("a.jsonl", '{"text": "a"}\n{"text": ', "a.jsonl:2:10: "),
    ],
)
def test_errors_in_json_name_their_place_too(name: str, words: str, reason: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_script(words, name)
    assert reason in str(raised.value)


def test_files_that_cannot_be_read_are_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "binary.yaml").write_bytes(b"- text: \xff\n")
    (tmp_path / "none.py").write_text("x = 1\n")
    (tmp_path / "broken.py").write_text("x = 1\nraise KeyError('k')\n")
    (tmp_path / "syntax.py").write_text("x = (\n")
    expected = {
        "missing.yaml": "no such file",
        "missing.py": "No such file",
        "binary.yaml": "not UTF-8 at byte 8",
        "none.py": "needs a variable `script`",
        "broken.py": "broken.py:2: KeyError: 'k'",
        "syntax.py": "syntax.py:1:5: '(' was never closed",
    }
    for name, reason in expected.items():
        with pytest.raises(ConfigError) as raised:
            load_script(str(tmp_path / name))
        assert reason in str(raised.value)
    with pytest.raises(ConfigError, match="not a file"):
        load_script(str(tmp_path))


@given(st.text(max_size=200))
def test_any_text_is_a_script_or_a_clear_error(words: str) -> None:
    for name in ("a.yaml", "a.json", "a.jsonl"):
        check(words, name)


_KEYS = ["steps", "reply", "text", "call", "tool", "input", "when", "user", "error", "status", "lanes", "cut", "usage"]
_plain: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_KEYS) | st.text(max_size=3), inner),
    max_leaves=12,
)


@given(_plain)
def test_any_data_is_a_script_or_a_clear_error(data: Any) -> None:
    check(json.dumps(data), "a.json")


def check(words: str, name: str) -> None:
    said = None
    try:
        script = parse_script(words, name)
    except ConfigError as error:
        said = str(error)
    assert said.startswith(f"{name}:") if said else isinstance(script, Script)
