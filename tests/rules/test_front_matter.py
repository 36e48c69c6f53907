"""The heads of Markdown files."""

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tugline.rules.front_matter import read_front_matter


@pytest.mark.parametrize(
    ("head", "values"),
    [
        ("name: a\ndescription: what it does", {"name": "a", "description": "what it does"}),
        ("tools: [Read, Grep]", {"tools": ["Read", "Grep"]}),
        ("tools:\n  - Read\n  - Grep", {"tools": ["Read", "Grep"]}),
        ("", {}),
        ("# nothing\n", {}),
        # what is no YAML, and stands in many files
        (
            "name: reviewer\ndescription: Use it after a change. Example: <example>Context: x</example>\nmodel: opus",
            {
                "name": "reviewer",
                "description": "Use it after a change. Example: <example>Context: x</example>",
                "model": "opus",
            },
        ),
        (
            "description: it: goes\n  on here\ntools:\n- Read\n- Bash(git *)",
            {
                "description": "it: goes on here",
                "tools": ["Read", "Bash(git *)"],
            },
        ),
        (
            "description: a: b\nbackground: true\nmaxTurns: 12",
            {
                "description": "a: b",
                "background": True,
                "maxTurns": 12,
            },
        ),
    ],
)
def test_a_head_is_read(head: str, values: dict[str, Any]) -> None:
    found = read_front_matter(f"---\n{head}\n---\nThe body.\n")
    assert (found.values, found.body, found.problem) == (values, "The body.", "")


def test_a_file_without_a_head_is_all_body() -> None:
    assert read_front_matter("# Title\n---\nx").body == "# Title\n---\nx"


@pytest.mark.parametrize(
    ("text", "problem", "line"),
    [
        ("---\nname: a\n", "has no end", 1),
        ("---\n- a\n- b\n---\n", "no list of keys and values", 2),
        ("---\n{a: 1\n---\n", "no YAML", 2),
        ("---\nx: 1\n? [\n---\n", "no YAML", 3),
        ("---\n" + "a: " + "x" * 200_000 + "\n---\n", "more than 100000", 1),
        ("---\na: !!python/object:os.system x\nb\n---\n", "no YAML", 2),
    ],
)
def test_a_broken_head_is_said_with_its_line(text: str, problem: str, line: int) -> None:
    found = read_front_matter(text)
    assert problem in found.problem
    assert found.line >= line


@given(st.text(max_size=400))
def test_any_text_is_read_without_a_crash(text: str) -> None:
    read_front_matter(text)
    read_front_matter(f"---\n{text}\n---\nbody")


@given(
    st.dictionaries(
        st.from_regex(r"[a-z]{1,8}", fullmatch=True),
        st.one_of(st.text(max_size=30), st.booleans(), st.integers(), st.lists(st.text(max_size=8), max_size=4)),
        max_size=6,
    )
)
def test_what_yaml_wrote_is_read_back(values: dict[str, Any]) -> None:
    written = yaml.safe_dump(values, allow_unicode=False)
    assert read_front_matter(f"---\n{written}---\n").values == values


def test_a_head_whose_aliases_would_grow_without_end_is_plain_text() -> None:
    bomb = "a: &a [x, x]\n" + "".join(
        f"{name}: &{name} [*{old}, *{old}]\n" for old, name in zip("abcdefgh", "bcdefghi", strict=True)
    )
    assert read_front_matter(f"---\n{bomb}---\n").values["i"] == "&i [*h, *h]"
