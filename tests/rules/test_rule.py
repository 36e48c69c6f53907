"""Permission rules as people write them."""

import warnings

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pathspec import GitIgnoreSpec

from tugline.rules.patterns import PatternError, compiled, parse_path_pattern
from tugline.rules.rule import Kind, RuleError, exact_command_spec, parse_rule, split_rules


@pytest.mark.parametrize(
    ("text", "tool", "spec"),
    [
        ("Read", "Read", None),
        ("Read()", "Read", None),
        ("Read(*)", "Read", None),
        (" Bash(npm run test) ", "Bash", "npm run test"),
        ("Bash(npm run test:*)", "Bash", "npm run test:*"),
        ("Bash(echo (a))", "Bash", "echo (a)"),
        ("Read(./a (1).txt)", "Read", "./a (1).txt"),
        ("WebFetch(domain:Example.COM)", "WebFetch", "domain:example.com"),
        ("WebFetch(domain:*.example.com)", "WebFetch", "domain:*.example.com"),
        ("WebFetch(domain:127.0.0.1)", "WebFetch", "domain:127.0.0.1"),
        ("Task(explore)", "Agent", "explore"),
        ("Skill(pdf *)", "Skill", "pdf *"),
        ("mcp__srv", "mcp__srv", None),
        ("mcp__my-srv__tool", "mcp__my-srv__tool", None),
        ("mcp__srv__*", "mcp__srv__*", None),
    ],
)
def test_a_rule_is_read(text: str, tool: str, spec: str | None) -> None:
    rule = parse_rule(text, "allow", "settings.json")
    assert (rule.tool, rule.spec, rule.text, rule.source) == (tool, spec, text.strip(), "settings.json")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "deny"),
        ("  ", "deny"),
        ("(x)", "deny"),
        ("Bash(", "deny"),
        ("Bash(x", "deny"),
        ("Bash x)", "deny"),
        ("Bash(x) y", "deny"),
        ("Ba sh", "deny"),
        ("Bash(:*)", "deny"),
        ("1Bash", "deny"),
        ("Read(!x)", "deny"),
        ("Read(#x)", "deny"),
        ("Read(a/../b)", "deny"),
        ("Read([)", "deny"),
        ("Read([z-a])", "deny"),
        ("Read([[:alpha:]])", "deny"),
        ("Read(a\\)", "deny"),
        ("Read(~root/x)", "deny"),
        ("WebFetch(example.com)", "deny"),
        ("WebFetch(domain:)", "deny"),
        ("WebFetch(domain:a/b)", "deny"),
        ("WebFetch(domain:u@a.b)", "deny"),
        ("WebFetch(domain:a..b)", "deny"),
        ("mcp__srv__tool(x)", "deny"),
        ("*", "allow"),
        ("mcp__*", "allow"),
        ("mcp__*__tool", "allow"),
        ("Re*", "allow"),
        ("Re*(x)", "deny"),
        ("Bash(a\x00b)", "deny"),
    ],
)
def test_a_rule_that_cannot_be_read_names_itself_and_its_source(text: str, kind: Kind) -> None:
    with pytest.raises(RuleError) as caught:
        parse_rule(text, kind, "/home/u/settings.json")
    assert repr(text) in str(caught.value)
    assert "/home/u/settings.json" in str(caught.value)


@given(st.text(max_size=30) | st.text("Bash(Read)*:/~[]!\\ ", max_size=20))
def test_any_text_is_a_rule_or_a_clear_error(text: str) -> None:
    for kind in ("allow", "ask", "deny"):
        try:
            rule = parse_rule(text, kind)
        except RuleError:
            continue
        assert parse_rule(rule.text, kind) == rule


@given(st.lists(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1), min_size=1, max_size=4))
def test_an_exact_rule_can_be_written_for_any_words(words: list[str]) -> None:
    spec = exact_command_spec(words)
    assume(spec.strip() not in ("", "*"))
    assert parse_rule(f"Bash({spec})", "allow").spec == spec


def test_rules_of_flags_are_parted_outside_of_parentheses() -> None:
    assert split_rules("Read,Edit(a b), Bash(git log, x) WebFetch") == [
        "Read",
        "Edit(a b)",
        "Bash(git log, x)",
        "WebFetch",
    ]
    assert split_rules("") == []
    assert split_rules("Bash(a,b") == ["Bash(a,b"]
    assert split_rules("Bash(a b),Read x", ",") == ["Bash(a b)", "Read x"]


_SEGMENT = st.text("ab*?", min_size=1, max_size=3).filter(lambda s: "**" not in s) | st.sampled_from(
    ["**", "[ab]", "[!a]", "[a-b]x", "\\*", "a\\?", ".x"]
)
_NAMES = st.lists(
    st.text("ab*x.", min_size=1, max_size=3).filter(lambda n: n not in (".", "..")), min_size=1, max_size=4
)


@given(st.lists(_SEGMENT, min_size=1, max_size=4), st.booleans(), _NAMES)
def test_patterns_agree_with_an_independent_reading_of_gitignore(
    parts: list[str], rooted: bool, names: list[str]
) -> None:
    """Where git's own pattern matches a path, so does ours; `x/**` matches `x` itself here, as rules need it."""
    body, path = "/".join(parts), "/".join(names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = GitIgnoreSpec.from_lines([("/" if rooted else "") + body]).match_file(path)
    ours = parse_path_pattern(("./" if rooted else "") + body, deep=False)
    found = compiled(ours.regex).match(path) is not None
    if parts[-1] == "**" and len(parts) > 1:
        assert found or not theirs
    else:
        assert found == bool(theirs)


@given(st.text("ab/*?[]!\\~.-^", max_size=12))
def test_a_pattern_is_read_or_refused(text: str) -> None:
    try:
        pattern = parse_path_pattern(text, deep=True)
    except PatternError:
        return
    compiled(pattern.regex).match("a/b")
    compiled(pattern.folded).match("a/b")
