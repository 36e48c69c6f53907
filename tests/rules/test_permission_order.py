"""The total order of decisions, for tools, paths, hosts and modes."""

from random import Random
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tugline.protocol.permissions import Verdict, VerdictAllow, VerdictAsk, VerdictDeny
from tugline.protocol.specs import (
    CommandSubject,
    DomainSubject,
    Footprint,
    Mode,
    NameSubject,
    PathSubject,
    Subject,
)
from tugline.rules.paths import lexical
from tugline.rules.permission import Policy, Query, decide, denied_tools, hides
from tugline.rules.rule import Kind, Rule, parse_rule

HOME, PROJECT = "/home/u", "/w/proj"
LINKS = {"/w/proj/link": "/outside", "/w/proj/inlink": "/w/proj/src", "/w/proj/gitlink": "/w/proj/.git"}


def resolve(path: str, cwd: str) -> tuple[str, str] | None:
    if "unresolvable" in path:
        return None
    name = lexical(path, cwd, HOME).name
    for link, target in LINKS.items():
        if name == link or name.startswith(link + "/"):
            return name, target + name[len(link) :]
    return name, name


def rules(kind: Kind, texts: tuple[str, ...]) -> tuple[Rule, ...]:
    return tuple(parse_rule(text, kind, "test") for text in texts)


def policy(
    mode: Mode = "default",
    *,
    allow: tuple[str, ...] = (),
    ask: tuple[str, ...] = (),
    deny: tuple[str, ...] = (),
    plan_file: str = "",
) -> Policy:
    return Policy(
        mode=mode,
        allow=rules("allow", allow),
        ask=rules("ask", ask),
        deny=rules("deny", deny),
        directories=(PROJECT, "/w/other"),
        cwd=PROJECT,
        home=HOME,
        project_root=PROJECT,
        readable=("/data/results",),
        plan_file=plan_file,
    )


def path_query(tool: str, path: str, hook: Literal["", "allow", "ask"] = "") -> Query:
    edits = tool in ("Edit", "Write", "NotebookEdit")
    subject = PathSubject(path, "edit" if edits else "read")
    return Query(tool, {}, Footprint.CHANGES if edits else Footprint.READS, (subject,), hook=hook)


def word(query: Query, by: Policy) -> str:
    return type(decide(query, by, resolve)).__name__.removeprefix("Verdict").lower()


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a.py", "allow"),
        ("/w/proj", "allow"),
        ("/w/other/x", "allow"),
        ("src/../a.py", "allow"),
        ("inlink/a", "allow"),
        ("/data/results/1.txt", "allow"),
        ("/etc/os-release", "allow"),
        ("/etc/passwd", "ask"),
        ("/w/proj-evil/x", "ask"),
        ("/w/projx", "ask"),
        ("/w", "ask"),
        ("../x", "ask"),
        ("link/x", "ask"),
        ("~/notes", "ask"),
        ("~/.ssh/id_rsa", "ask"),
        ("unresolvable", "ask"),
        ("x\x00y", "ask"),
    ],
)
def test_reading_passes_inside_the_allowed_directories_only(path: str, expected: str) -> None:
    for tool in ("Read", "Glob", "Grep", "my_reader"):
        assert word(path_query(tool, path), policy()) == expected
        assert word(path_query(tool, path), policy("plan")) == expected


def test_editing_is_asked_about_and_the_question_says_which_rule_would_do() -> None:
    assert decide(path_query("Write", "src/a.py"), policy(), resolve) == VerdictAsk(
        "no rule allows Write /w/proj/src/a.py", ("Edit(./src/a.py)",)
    )
    assert decide(path_query("Edit", "/etc/x"), policy(), resolve) == VerdictAsk(
        "no rule allows Edit /etc/x", ("Edit(//etc/x)",)
    )


def test_a_link_is_shown_with_its_target_and_needs_a_rule_for_both() -> None:
    verdict = decide(path_query("Edit", "link/x"), policy(), resolve)
    assert verdict == VerdictAsk(
        "no rule allows Edit /w/proj/link/x (a link to /outside/x)", ("Edit(./link/x)", "Edit(//outside/x)")
    )
    assert word(path_query("Edit", "link/x"), policy(allow=("Edit(./link/x)",))) == "ask"
    assert word(path_query("Edit", "link/x"), policy(allow=("Edit(//outside/x)",))) == "ask"
    assert word(path_query("Edit", "link/x"), policy(allow=("Edit(./link/x)", "Edit(//outside/x)"))) == "allow"


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("default", "ask"),
        ("acceptEdits", "allow"),
        ("plan", "deny"),
        ("auto", "ask"),
        ("dontAsk", "deny"),
        ("bypassPermissions", "allow"),
    ],
)
def test_each_mode_has_its_answer_to_an_edit_inside(mode: Mode, expected: str) -> None:
    assert word(path_query("Edit", "a.py"), policy(mode)) == expected
    outside = {"acceptEdits": "ask"}.get(mode, expected)
    assert word(path_query("Edit", "/elsewhere/a.py"), policy(mode)) == outside
    assert word(path_query("Write", "link/a.py"), policy(mode)) == outside


@pytest.mark.parametrize(
    "path",
    [
        ".git/config",
        ".GIT/config",
        "sub/.git/hooks/pre-commit",
        ".gitmodules",
        ".tugline/settings.json",
        ".claude/settings.json",
        ".mcp.json",
        ".husky/pre-commit",
        ".vscode/tasks.json",
        "gitlink/config",
        "~/.bashrc",
        "~/.ssh/authorized_keys",
        "~/.config/tugline/settings.json",
        "/etc/profile",
        "/etc/sudoers.d/x",
        ".envrc",
        "unresolvable",
    ],
)
def test_protected_places_are_asked_about_whatever_mode_and_rules_say(path: str) -> None:
    allow = ("Edit", "Write", "Edit(//**)")
    for mode in ("default", "acceptEdits", "bypassPermissions"):
        assert word(path_query("Write", path), policy(mode, allow=allow)) == "ask"
    assert word(path_query("Write", path, "allow"), policy()) == "ask"
    assert word(path_query("Write", path), policy("dontAsk", allow=allow)) == "deny"


def test_an_innocent_neighbour_of_a_protected_place_is_not_protected() -> None:
    for path in (".gitignore", ".github/workflows/x.yml", "git/config", "bashrc", ".env"):
        assert word(path_query("Write", path), policy("bypassPermissions")) == "allow"


def test_the_plan_is_the_one_file_that_plan_mode_writes() -> None:
    by = policy("plan", plan_file="/data/plan.md")
    assert word(path_query("Write", "/data/plan.md"), by) == "allow"
    assert word(path_query("Write", "/data/other.md"), by) == "deny"
    assert word(path_query("Write", "/data/plan.md"), policy("default", plan_file="/data/plan.md")) == "ask"


@pytest.mark.parametrize(
    ("rule", "tool", "path", "hits"),
    [
        ("Read(./secrets/**)", "Read", "secrets/a", True),
        ("Read(./secrets/**)", "Read", "secrets", True),
        ("Read(./secrets/**)", "Read", "Secrets/A", True),
        ("Read(./secrets/**)", "Grep", "secrets", True),
        ("Read(./secrets/**)", "Glob", "secrets/x", True),
        ("Read(./secrets/**)", "my_reader", "secrets/x", True),
        ("Read(./secrets/**)", "Read", "sub/secrets/a", False),
        ("Read(secrets/**)", "Read", "sub/secrets/a", True),
        ("Read(.env)", "Read", "sub/.env", True),
        ("Read(.env)", "Read", "/w/other/.env", True),
        ("Read(.env)", "Read", "sub/.envrc", False),
        ("Read(*.pem)", "Read", "a/b.pem", True),
        ("Read(//outside/**)", "Read", "link/x", True),
        ("Read(./link/**)", "Read", "link/x", True),
        ("Read(~/**)", "Read", "/home/u/x", True),
        ("Read(/src/**)", "Read", "src/x", True),
        ("Read", "Grep", "src", True),
        ("Read(*)", "Glob", "src", True),
        ("Edit(src/**)", "Write", "src/a", True),
        ("Edit(src/**)", "NotebookEdit", "src/a.ipynb", True),
        ("Edit(src/**)", "Read", "src/a", False),
        ("Edit", "Write", "a", True),
        ("Write", "Edit", "a", False),
        ("Grep", "Read", "a", False),
        ("Read(a\u0308)", "Read", "\u00e4", True),
    ],
)
def test_a_deny_rule_for_paths_hits_by_name_or_target(rule: str, tool: str, path: str, hits: bool) -> None:
    for mode in ("default", "bypassPermissions"):
        found = word(path_query(tool, path, "allow"), policy(mode, allow=("Read", "Edit"), deny=(rule,)))
        assert (found == "deny") == hits
    assert (word(path_query(tool, path), policy("bypassPermissions", ask=(rule,))) == "ask") == hits


@pytest.mark.parametrize(
    ("rule", "path", "allowed"),
    [
        ("Edit(src/**)", "src/a/b", True),
        ("Edit(src/**)", "sub/src/a", False),
        ("Edit(src/**)", "SRC/a", False),
        ("Edit(src/*.py)", "src/a.py", True),
        ("Edit(src/*.py)", "src/a.js", False),
        ("Edit(*.md)", "docs/a.md", True),
        ("Edit(/docs/)", "docs/a", True),
        ("Edit(//elsewhere/**)", "/elsewhere/x", True),
        ("Edit(~/notes/**)", "~/notes/x", True),
        ("Edit(~/notes/**)", "/home/u2/notes/x", False),
        ("Edit(./link/**)", "link/x", False),
        ("Edit(a?c)", "abc", True),
        ("Edit(a[b-d]c)", "acc", True),
        ("Edit(a[!b]c)", "abc", False),
        ("Edit(./a\\*c)", "abc", False),
        ("Edit(./a\\*c)", "a*c", True),
    ],
)
def test_an_allow_rule_for_paths_holds_where_it_is_anchored(rule: str, path: str, allowed: bool) -> None:
    assert (word(path_query("Edit", path), policy(allow=(rule,))) == "allow") == allowed


def test_searching_a_folder_that_holds_denied_files_is_asked_about_unless_they_are_left_out() -> None:
    by = policy(deny=("Read(./secrets/**)",))
    assert word(path_query("Grep", "."), by) == "ask"
    assert word(path_query("Grep", "src"), by) == "allow"
    subject = (PathSubject(".", "read"),)
    assert word(Query("Grep", {}, Footprint.READS, subject, filtered=True), by) == "allow"
    assert hides(by, "/w/proj/secrets/x") == by.deny[0]
    assert hides(by, "/w/proj/y", "/w/proj/secrets/x") == by.deny[0]
    assert hides(by, "/w/proj/src/x") is None


def domain(host: str, tool: str = "WebFetch") -> Query:
    return Query(tool, {}, Footprint.READS, (DomainSubject(host),))


@pytest.mark.parametrize(
    ("rule", "host", "allowed"),
    [
        ("WebFetch(domain:example.com)", "example.com", True),
        ("WebFetch(domain:example.com)", "EXAMPLE.com.", True),
        ("WebFetch(domain:example.com)", "a.example.com", False),
        ("WebFetch(domain:example.com)", "example.com.evil.org", False),
        ("WebFetch(domain:example.com)", "notexample.com", False),
        ("WebFetch(domain:*.example.com)", "a.b.example.com", True),
        ("WebFetch(domain:*.example.com)", "example.com", False),
        ("WebFetch(domain:*.example.com)", "evilexample.com", False),
        ("WebFetch(domain:*.example.com)", ".example.com", False),
        ("WebFetch(domain:example.com)", "example.com\x00.evil", False),
        ("WebFetch(domain:example.com)", "u@example.com", False),
        ("WebFetch(domain:bücher.de)", "xn--bcher-kva.de", True),
        ("WebFetch", "anything.org", True),
        ("WebFetch(domain:*)", "anything.org", True),
    ],
)
def test_hosts_match_by_whole_labels(rule: str, host: str, allowed: bool) -> None:
    assert (word(domain(host), policy(allow=(rule,))) == "allow") == allowed


def test_speaking_to_a_host_is_asked_about() -> None:
    assert decide(domain("example.com"), policy(), resolve) == VerdictAsk(
        "no rule allows WebFetch example.com", ("WebFetch(domain:example.com)",)
    )
    assert word(domain("example.com"), policy("plan")) == "ask"


def tool(name: str, footprint: Footprint, *subjects: Subject) -> Query:
    return Query(name, {}, footprint, subjects)


def test_a_tool_without_subjects_is_judged_by_its_footprint() -> None:
    for footprint, expected in ((Footprint.NOTHING, "allow"), (Footprint.READS, "allow"), (Footprint.CHANGES, "ask")):
        assert word(tool("my_tool", footprint), policy()) == expected
    assert word(tool("my_tool", Footprint.CHANGES), policy("plan")) == "deny"
    assert word(tool("my_tool", Footprint.CHANGES), policy("acceptEdits")) == "ask"
    assert word(tool("my_tool", Footprint.CHANGES), policy(allow=("my_tool",))) == "allow"
    verdict = decide(tool("my_tool", Footprint.CHANGES), policy(), resolve)
    assert verdict == VerdictAsk("no rule allows my_tool", ("my_tool",))


def test_a_tool_that_changes_is_not_let_through_by_the_path_that_it_reads() -> None:
    query = Query("my_tool", {}, Footprint.CHANGES, (PathSubject("a", "read"),))
    assert word(query, policy()) == "ask"
    assert word(query, policy(allow=("Read",))) == "ask"
    assert word(query, policy("plan")) == "deny"


@pytest.mark.parametrize(
    ("rule", "name", "hits"),
    [
        ("mcp__srv", "mcp__srv__a", True),
        ("mcp__srv", "mcp__srv2__a", False),
        ("mcp__srv__*", "mcp__srv__a", True),
        ("mcp__srv__a", "mcp__srv__a", True),
        ("mcp__srv__a", "mcp__srv__ab", False),
        ("mcp__srv__get_*", "mcp__srv__get_x", True),
        ("mcp__srv__get_*", "mcp__srv__set_x", False),
    ],
)
def test_rules_for_servers_cover_their_tools(rule: str, name: str, hits: bool) -> None:
    assert (word(tool(name, Footprint.CHANGES), policy(allow=(rule,))) == "allow") == hits
    assert (word(tool(name, Footprint.CHANGES), policy(deny=(rule,))) == "deny") == hits


def test_agents_and_skills_are_named_by_rules() -> None:
    agent = tool("Agent", Footprint.NOTHING, NameSubject("explore"))
    assert word(agent, policy()) == "allow"
    assert word(agent, policy(deny=("Agent(explore)",))) == "deny"
    assert word(agent, policy(deny=("Task(explore)",))) == "deny"
    assert word(agent, policy(deny=("Agent(other)",))) == "allow"
    assert word(agent, policy(ask=("Agent",))) == "ask"
    skill = tool("Skill", Footprint.CHANGES, NameSubject("pdf"))
    assert decide(skill, policy(), resolve) == VerdictAsk("no rule allows Skill pdf", ("Skill(pdf)",))
    assert word(skill, policy(allow=("Skill(p*)",))) == "allow"


def test_a_bare_deny_takes_the_tool_away() -> None:
    by = policy(deny=("WebFetch", "Edit(src/**)", "mcp__srv"))
    assert denied_tools(by, ("Read", "WebFetch", "Edit", "mcp__srv__x")) == ("WebFetch", "mcp__srv__x")
    assert denied_tools(policy(deny=("*",)), ("Read", "Bash")) == ("Read", "Bash")


def test_hooks_stand_between_ask_rules_and_the_mode() -> None:
    edit = path_query("Edit", "a")
    assert word(path_query("Edit", "a", "allow"), policy()) == "allow"
    assert word(path_query("Edit", "a", "allow"), policy(ask=("Edit",))) == "ask"
    assert word(path_query("Edit", "a", "allow"), policy(deny=("Edit",))) == "deny"
    assert word(path_query("Edit", "a", "allow"), policy("plan")) == "deny"
    assert word(path_query("Edit", "a", "ask"), policy("bypassPermissions", allow=("Edit",))) == "ask"
    assert word(path_query("Read", "a", "ask"), policy()) == "ask"
    assert word(edit, policy(allow=("Edit",))) == "allow"


def test_a_denial_says_which_rule_of_which_source_it_was() -> None:
    assert decide(path_query("Edit", "src/a"), policy(deny=("Edit(src/**)",)), resolve) == VerdictDeny(
        "denied by the rule Edit(src/**) (test)"
    )


_TEXTS = """
Read | Edit | Bash | Bash(ls:*) | Bash(rm *) | Bash(npm run test) | Read(./secrets/**) | Edit(src/**) | Edit(*.py)
| WebFetch | WebFetch(domain:a.b) | mcp__s | mcp__s__t | Agent(x) | my_tool | Write(src/a.py) | Read(//etc/**)
"""
_RULES = st.lists(st.sampled_from([text.strip() for text in _TEXTS.split("|")]), max_size=4, unique=True)
_LINES = [
    "ls",
    "rm x",
    "rm -rf /",
    "cat secrets/k",
    "echo x > src/a.py",
    "npm run test",
    "mkdir d",
    "$X",
    "x() { ls; }",
]
_TOOLS = ["Read", "Edit", "Write", "Grep", "Bash", "WebFetch", "Agent", "mcp__s__t", "my_tool", "Skill"]
_SUBJECTS: st.SearchStrategy[Subject] = st.one_of(
    st.builds(
        PathSubject,
        st.sampled_from(["a.py", "src/a.py", "secrets/k", "/etc/x", "link/x", ".git/x", "~/.ssh/k", "unresolvable"])
        | st.text(max_size=8),
        st.sampled_from(["read", "edit"]),
    ),
    st.builds(
        CommandSubject,
        st.sampled_from(
            [
                "ls",
                "rm x",
                "rm -rf /",
                "cat secrets/k",
                "echo x > src/a.py",
                "npm run test",
                "mkdir d",
                "$X",
                "x() { ls; }",
            ]
        )
        | st.text(max_size=20),
    ),
    st.builds(DomainSubject, st.sampled_from(["a.b", "c.d"]) | st.text(max_size=8)),
    st.builds(NameSubject, st.sampled_from(["x", "y"]) | st.text(max_size=8)),
)
_QUERIES = st.builds(
    Query,
    tool=st.sampled_from(
        ["Read", "Edit", "Write", "Grep", "Bash", "WebFetch", "Agent", "mcp__s__t", "my_tool", "Skill"]
    ),
    footprint=st.sampled_from(list(Footprint)),
    subjects=st.lists(_SUBJECTS, max_size=2).map(tuple),
    hook=st.sampled_from(["", "allow", "ask"]),
)


def judged(query: Query, mode: Mode, allow: list[str], ask: list[str], deny: list[str]) -> Verdict:
    return decide(query, policy(mode, allow=tuple(allow), ask=tuple(ask), deny=tuple(deny)), resolve)


@given(_QUERIES, _RULES, _RULES, _RULES)
def test_a_wider_mode_never_turns_allow_into_less(
    query: Query, allow: list[str], ask: list[str], deny: list[str]
) -> None:
    chain: tuple[Mode, ...] = ("plan", "default", "acceptEdits", "bypassPermissions")
    allowed = [isinstance(judged(query, mode, allow, ask, deny), VerdictAllow) for mode in chain]
    assert allowed == sorted(allowed)


@given(_QUERIES, _RULES, _RULES, _RULES)
def test_what_no_mode_skips_is_for_a_person_and_nothing_else_is(
    query: Query, allow: list[str], ask: list[str], deny: list[str]
) -> None:
    default, bypass = (judged(query, mode, allow, ask, deny) for mode in ("default", "bypassPermissions"))
    assert (isinstance(default, VerdictAsk) and default.person) == isinstance(bypass, VerdictAsk)
    assert judged(query, "auto", allow, ask, deny) == default, "the model is asked where a person would be"


@given(_QUERIES, _RULES, _RULES, _RULES, st.randoms())
def test_deny_wins_under_any_order_of_rules(
    query: Query, allow: list[str], ask: list[str], deny: list[str], random: Random
) -> None:
    one = judged(query, "default", allow, ask, deny)
    for rules_ in (allow, ask, deny):
        random.shuffle(rules_)
    other = judged(query, "default", allow, ask, deny)
    assert type(one) is type(other)
    # what deny rules alone deny, nothing lifts
    if isinstance(judged(query, "default", [], [], deny), VerdictDeny):
        assert isinstance(one, VerdictDeny)
        assert isinstance(judged(query, "bypassPermissions", allow, ask, deny), VerdictDeny)


@given(_QUERIES, _RULES, _RULES, _RULES, _RULES)
def test_a_further_deny_or_ask_rule_never_loosens(
    query: Query, allow: list[str], ask: list[str], deny: list[str], more: list[str]
) -> None:
    order = {VerdictAllow: 0, VerdictAsk: 1, VerdictDeny: 2}
    before = order[type(judged(query, "default", allow, ask, deny))]
    assert order[type(judged(query, "default", allow, ask, deny + more))] >= before
    assert order[type(judged(query, "default", allow, ask + more, deny))] >= before


@given(_QUERIES, _RULES)
def test_the_suggested_rules_allow_what_was_asked(query: Query, allow: list[str]) -> None:
    asked = judged(query, "default", allow, [], [])
    if isinstance(asked, VerdictAsk) and asked.suggestions:
        assert isinstance(judged(query, "default", [*allow, *asked.suggestions], [], []), VerdictAllow)
