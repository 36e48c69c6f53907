"""What stands in a file of instructions: comments, imports, the head of a rule."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tugline.rules.instruction_text import IMPORTS_LIMIT, find_imports, looks_like_path, read_head, without_comments

PIECES = [
    "@a.md",
    "`",
    "``",
    "```",
    "```\n",
    "~~~\n",
    "<!--",
    "-->",
    "\n",
    "\n\n",
    " ",
    "    ",
    "> ",
    "words",
    "\\",
    "---\n",
]
texts = st.lists(st.sampled_from(PIECES), max_size=30).map("".join)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("a\n<!-- gone -->\nb", "a\nb"),
        ("a\n<!-- gone\n\n@x.md\n--> b\nc", "a\nb\nc"),
        ("<!-- one --> <!-- two -->\nrest", "rest"),
        ("   <!-- indented -->\nrest", "rest"),
        ("    <!-- code -->\nrest", "    <!-- code -->\nrest"),
        ("inline <!-- stays --> here", "inline <!-- stays --> here"),
        ("```\n<!-- stays -->\n```\n<!-- gone -->", "```\n<!-- stays -->\n```"),
        ("<!-- never closed\nrest", "<!-- never closed\nrest"),
        ("<!-- closed --> <!-- open\nrest", "<!-- open\nrest"),
        ("<!-- ```\n-->\n@x.md", "@x.md"),
    ],
)
def test_comments_that_begin_a_line_are_left_out(text: str, left: str) -> None:
    assert without_comments(text) == left


@given(texts)
def test_a_text_without_closed_comments_is_left_as_it_is(text: str) -> None:
    assert without_comments(text.replace("-->", "")) == text.replace("-->", "")
    once = without_comments(text)
    assert len(once) <= len(text)


@given(texts)
def test_nothing_inside_a_fence_is_a_comment_or_an_import(text: str) -> None:
    inside = text.replace("`", "").replace("~~~", "")
    fenced = f"````\n{inside}\n````"
    assert without_comments(fenced) == fenced
    assert find_imports(fenced) == ()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see @docs/a.md", [("docs/a.md",)]),
        ("@a.md, (@b.md) and **@c.md**", [("a.md,", "a.md"), ("b.md)", "b.md"), ("c.md**", "c.md")]),
        ("@README.", [("README.", "README")]),
        ("@~/notes.md @/etc/x.md @../up.md", [("~/notes.md",), ("/etc/x.md",), ("../up.md",)]),
        ('@"with space.md" and @other\\ one.md', [("with space.md",), ("other one.md",)]),
        ("@guide.md#setup", [("guide.md#setup", "guide.md")]),
        ("me@example.org and a@b.md", []),
        ("`@a.md` and ``x ` @b.md`` but @c.md", [("c.md",)]),
        ("` @a.md", [("a.md",)]),
        ("\\` @a.md `", [("a.md",)]),
        ("`code\n@a.md`\n\n@b.md", [("b.md",)]),
        ("```\n@a.md\n```\n@b.md\n~~~ python\n@c.md", [("b.md",)]),
        ("```\n@a.md\n~~~\n@b.md\n```` \n@c.md", [("c.md",)]),
        ("- list\n\n      ```\n      @a.md\n      ```\n  @b.md", [("b.md",)]),
        ("> ```\n> @a.md\n> ```\n> @b.md", [("b.md",)]),
        ("``` not a fence ``` @a.md", [("a.md",)]),
        ("@ and @. and @/ and @~", []),
        ("@a.md @a.md", [("a.md",)]),
        ("@\0.md", []),
    ],
)
def test_imports_are_found_outside_of_code(text: str, found: list[tuple[str, ...]]) -> None:
    assert list(find_imports(text)) == found


@given(st.text(max_size=200) | texts)
def test_any_text_can_be_read(text: str) -> None:
    for readings in find_imports(text):
        assert all(reading and "\0" not in reading for reading in readings)
    head = read_head(text)
    assert text.endswith(head.body)
    without_comments(text)


HOSTILE = [
    "`" * 200_000,
    " ".join("`" * n for n in range(1, 600)),
    "<!---->" * 50_000,
    "<!--" * 100_000,
    "<!--\n" * 100_000 + "-->",
    "> " * 200_000 + "```",
    "@" * 300_000,
    "\\ " * 200_000,
    "@\\ " * 100_000,
    "---\npaths: [" + "{" * 300_000,
    "---\npaths:\n" + "- a\n" * 100_000,
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.timeout(20)
def test_a_hostile_text_takes_no_longer_than_its_length(text: str) -> None:
    assert len(find_imports(without_comments(text))) <= IMPORTS_LIMIT
    read_head(text)


@pytest.mark.parametrize(
    ("head", "globs"),
    [
        ("paths: src/**/*.ts", ("src/**/*.ts",)),
        ("paths: **/*.ts", ("**/*.ts",)),
        ("paths: '*.{ts,tsx}', \"b c\"  # a comment", ("*.{ts,tsx}", "b c")),
        ("paths: {src,lib}/**/*.ts, tests/**", ("{src,lib}/**/*.ts", "tests/**")),
        ("paths: [a/**, '*.{b,c}', d]", ("a/**", "*.{b,c}", "d")),
        ("paths: [\n  a,\n  b\n]", ("a", "b")),
        ('paths:\n  - a/**\n  - "*.{b,c}"\n\n  # word\n  - d\nother: x', ("a/**", "*.{b,c}", "d")),
        ("paths:\n- a\n- b", ("a", "b")),
        ("description: no paths\nname: x", ()),
        ("paths:", ()),
        ("paths: []", ()),
        ("paths: [a", None),
        ("paths: |\n  a", None),
        ("paths: src/[ab].ts, x", ("src/[ab].ts", "x")),
    ],
)
def test_the_globs_of_a_rule_are_read_as_people_write_them(head: str, globs: tuple[str, ...] | None) -> None:
    found = read_head(f"---\n{head}\n---\nthe rule\n")
    assert found.body == "the rule\n"
    if globs is None:
        assert found.problem
    else:
        assert (found.globs, found.problem) == (globs, "")


def test_a_text_without_a_head_is_all_body() -> None:
    assert read_head("rule").body == "rule"
    assert read_head("--- \nno end").problem


def test_names_of_people_and_packages_are_not_taken_for_files() -> None:
    assert not any(looks_like_path(name) for name in ("anna", "scope/package", "param", "anna.smith"))
    assert all(looks_like_path(name) for name in ("./a", "../b", "~/c", "/d", "docs/e.md", "NOTES.TXT"))
