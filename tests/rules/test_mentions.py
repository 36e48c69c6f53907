"""`@path` in prompts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tugline.rules.mentions import find_mentions


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("look at @src/app.py please", ("src/app.py",)),
        ("@README.md", ("README.md",)),
        ("(see @a.py, and @b.py.)", ("a.py,", "a.py", "b.py.)", "b.py")),
        ('@"with space.txt" and more', ("with space.txt",)),
        ("mail bob@example.com", ()),
        ("decorators: @", ()),
        ("@a @a", ("a",)),
        ("line\n@../up/file", ("../up/file",)),
    ],
)
def test_paths_are_found_where_a_person_means_one(text: str, expected: tuple[str, ...]) -> None:
    assert find_mentions(text) == expected


@given(st.text())
def test_any_text_can_be_looked_at(text: str) -> None:
    assert all(path and path in text for path in find_mentions(text))
