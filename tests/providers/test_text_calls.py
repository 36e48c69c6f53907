import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tugline.providers.text_calls import Asked, Said, TextCalls


def run(pieces: list[str], *, cut: bool = False) -> list[Said | Asked]:
    """Words and calls, neighbouring words joined."""
    calls = TextCalls(["Read", "Ls"])
    made: list[Said | Asked] = []
    for item in [part for piece in pieces for part in calls.feed(piece)] + calls.end(cut=cut):
        last = made[-1] if made else None
        if isinstance(item, Said) and isinstance(last, Said):
            made[-1] = Said(last.text + item.text)
        else:
            made.append(item)
    return made


READ = '{"name":"Read","arguments":{"a":1}}'
CASES: list[tuple[str, list[Any]]] = [
    ("just words", [Said("just words")]),
    ("a < b <tool", [Said("a < b <tool")]),
    (f"<tool_call>{READ}</tool_call>", [Asked("Read", '{"a":1}')]),
    (f"  \n<tool_call>\n{READ}\n</tool_call>\n", [Asked("Read", '{"a":1}')]),
    (
        f"one <tool_call>{READ}</tool_call>\n<tool_call>{READ}</tool_call> two ",
        [Said("one"), Asked("Read", '{"a":1}'), Asked("Read", '{"a":1}'), Said("two ")],
    ),
    (f"<tool_call>{READ}", [Asked("Read", '{"a":1}')]),
    (f"<tool_call>{READ[:20]}", [Said(f"<tool_call>{READ[:20]}")]),
    ('<tool_call>{"name":"Read","arg</tool_call>', [Asked("Read", '{"name":"Read","arg')]),
    ("<tool_call>nonsense</tool_call>", [Asked("", "nonsense")]),
    ('<tool_call>{"name":"Any","parameters":"{}"}</tool_call>', [Asked("Any", "{}")]),
    ('<tool_call>{"name":"Any"}</tool_call>', [Asked("Any", "{}")]),
    (READ, [Asked("Read", '{"a":1}')]),
    (f"```json\n{READ}\n```", [Asked("Read", '{"a":1}')]),
    (f"[{READ}, {READ}]", [Asked("Read", '{"a":1}'), Asked("Read", '{"a":1}')]),
    ('{"type":"function","function":{"name":"Ls","arguments":{}}}', [Asked("Ls", "{}")]),
    ('{"name":"Other","arguments":{}}', [Said('{"name":"Other","arguments":{}}')]),
    ('{"answer": 42}', [Said('{"answer": 42}')]),
    ("[1, 2]", [Said("[1, 2]")]),
    (f"{READ} and words", [Said(f"{READ} and words")]),
    ("", []),
    ("   ", [Said("   ")]),
]


@pytest.mark.parametrize(("text", "made"), CASES)
def test_words_and_calls_are_told_apart(text: str, made: list[Any]) -> None:
    assert run([text]) == made


@given(st.sampled_from(CASES), st.lists(st.integers(0, 200), max_size=8))
def test_any_split_gives_the_same(case: tuple[str, list[Any]], places: list[int]) -> None:
    text, made = case
    edges = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    assert run([text[a:b] for a, b in itertools.pairwise(edges)]) == made


@pytest.mark.parametrize("text", [READ, f"<tool_call>{READ}", "<tool_call>"])
def test_what_the_output_limit_cut_is_no_call(text: str) -> None:
    assert run([text], cut=True) == [Said(text)]


def test_words_are_passed_on_as_they_come() -> None:
    calls = TextCalls([])
    assert calls.feed("Hello") == [Said("Hello")]
    assert calls.feed(" wor") == [Said(" wor")]
    assert calls.feed("ld <tool_") == [Said("ld")]
    assert calls.feed("box") == [Said(" <tool_box")]
