"""Shell commands before the rules: what must never run unasked, what must never be asked about."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tugline.protocol.permissions import Verdict, VerdictAllow, VerdictAsk
from tugline.protocol.specs import CommandSubject, Mode
from tugline.rules.paths import lexical
from tugline.rules.permission import Policy, Query, decide
from tugline.rules.rule import parse_rule
from tugline.rules.shell_footprint import is_read_only, touches_nothing

HOME, PROJECT = "/home/u", "/w/proj"


def resolve(path: str, cwd: str) -> tuple[str, str]:
    place = lexical(path, cwd, HOME)
    if place.name.startswith("/w/proj/link"):
        return place.name, place.name.replace("/w/proj/link", "/outside", 1)
    return place.name, place.target


def expand(pattern: str, cwd: str) -> list[str]:
    names = {"*.py": ["a.py", "b.py"], "*.lnk": ["link"], "src/*": ["src/x"], "*": ["-x", "y"]}
    return names.get(pattern, [])


def policy(allow: str = "", ask: str = "", deny: str = "", mode: Mode = "default", *, cwd: str = PROJECT) -> Policy:
    def rules(text: str, kind: str) -> tuple:  # type: ignore[type-arg]
        return tuple(parse_rule(part, kind, "test") for part in text.split(" & ") if part)  # type: ignore[arg-type]

    return Policy(
        mode=mode,
        allow=rules(allow, "allow"),
        ask=rules(ask, "ask"),
        deny=rules(deny, "deny"),
        directories=(cwd,),
        cwd=cwd,
        home=HOME,
        project_root=cwd,
    )


def judged(command: str, by: Policy) -> Verdict:
    query = Query("Bash", {"command": command}, subjects=(CommandSubject(command),))
    return decide(query, by, resolve, expand, tame)


def word(command: str, by: Policy) -> str:
    return type(judged(command, by)).__name__.removeprefix("Verdict").lower()


def commands(name: str) -> list[str]:
    """The commands of a corpus file, as its head says."""
    lines = (Path(__file__).parent / "corpus" / name).read_text().splitlines()
    rows = [line for line in lines if line and (not line.startswith("# ") or "⏎" in line)]
    return [re.sub("‹([0-9A-F]+)›", lambda found: chr(int(found[1], 16)), row.replace("⏎", "\n")) for row in rows]


ROUTINE = [*commands("routine_must.txt"), *commands("routine_shell.txt")]


def tame(folder: str) -> bool:
    return not folder.startswith("/w/proj/untame")


def test_the_corpora_are_large() -> None:
    assert len(commands("hostile.txt")) > 2_000
    assert len(ROUTINE) > 1_000
    assert len(DENIED) > 700


def test_routine_is_not_asked_about() -> None:
    asked = {
        command: verdict for command in ROUTINE if not isinstance(verdict := judged(command, policy()), VerdictAllow)
    }
    assert not asked


def denied() -> list[tuple[str, str]]:
    """Each command with the deny rule that stands above it."""
    found: list[tuple[str, str]] = []
    rule = ""
    for row in commands("denied.txt"):
        if row.startswith("@ "):
            rule = row[2:]
        else:
            found.append((rule, row))
    return found


DENIED = denied()


def test_a_deny_rule_stops_every_spelling() -> None:
    passed = [
        (rule, command) for rule, command in DENIED if word(command, policy(allow="Bash(*)", deny=rule)) != "deny"
    ]
    assert not passed


UNSAFE = [
    *commands("hostile.txt"),
    "cat <<EOF\n$(evil)\nEOF",
    "cat <<EOF\n`evil`\nEOF",
    "cat <<EOF\nx\nEOF\nevil",
    "cat <<EOF; evil\nx\nEOF",
    "cat <<EOF | evil\nx\nEOF",
    "cat <<EOF && evil\nx\nEOF",
    "cat <<'E'OF\nE\nevil",
    "cat <<A <<B\nx\nA\nevil\nB",
    "ls\nevil",
    "ls\r",
    "ls\x0bevil",
    "ls\x0cevil",
    "ls \x00",
    "ls \u202e",
    "ls \u200b",
    "ls \u2028evil",
    "ls \x1b[31m",
    "ls \x85",
    "l\\\ns -la",
    "ls " + "$(" * 100 + ")" * 100,
    "ls;" * 600,
    "echo " + "x" * 70_000,
]


@pytest.mark.parametrize("mode", ["default", "plan", "dontAsk"])
def test_what_may_do_more_than_read_never_runs_unasked(mode: Mode) -> None:
    by = policy(mode=mode)
    assert not [command for command in UNSAFE if word(command, by) not in ("ask", "deny")]


OPAQUE = [
    "echo $((x))",
    "{ls,-la}",
    "ls 'unclosed",
    "ls\r",
    "cat <<A <<B\n1\nA\n2\nB",
    "x() { ls; }; x",
    "PATH=/tmp; ls",
    "echo " + "x" * 70_000,
]


@pytest.mark.parametrize("command", OPAQUE)
def test_what_cannot_be_analysed_is_asked_about_even_if_all_commands_are_allowed(command: str) -> None:
    assert word(command, policy(allow="Bash(*)")) == "ask"
    assert word(command, policy(allow="Bash")) == "ask"


@pytest.mark.parametrize(
    ("rule", "command"),
    [
        ("Bash(rm:*)", "rm x"),
        ("Bash(rm *)", "/bin/rm x"),
        ("Bash(rm:*)", "\\rm x"),
        ("Bash(rm:*)", "r'm' x"),
        ("Bash(rm:*)", '"rm" x'),
        ("Bash(rm:*)", "$'rm' x"),
        ("Bash(rm:*)", "ls; rm x"),
        ("Bash(rm:*)", "ls | rm x"),
        ("Bash(rm:*)", "echo $(rm x)"),
        ("Bash(rm:*)", 'echo "`rm x`"'),
        ("Bash(rm:*)", "cat <(rm x)"),
        ("Bash(rm:*)", "if true; then rm x; fi"),
        ("Bash(rm:*)", "f() { rm x; }"),
        ("Bash(rm:*)", "FOO=1 rm x"),
        ("Bash(rm:*)", "env -u A FOO=1 rm x"),
        ("Bash(rm:*)", "sudo -u root rm x"),
        ("Bash(rm:*)", "timeout -k 3 5 rm x"),
        ("Bash(rm:*)", "nice -n 5 nohup rm x"),
        ("Bash(rm:*)", "stdbuf -oL setsid rm x"),
        ("Bash(rm:*)", "xargs -n 1 rm"),
        ("Bash(rm:*)", "find . -name x -exec rm {} +"),
        ("Bash(rm:*)", "sh -c 'ls; rm x'"),
        ("Bash(rm:*)", 'bash -lc "rm x"'),
        ("Bash(rm:*)", "eval rm x"),
        ("Bash(rm:*)", "eval 'rm x'"),
        ("Bash(rm:*)", "watch -n 1 rm x"),
        ("Bash(rm:*)", "watch 'rm x'"),
        ("Bash(rm:*)", "flock /tmp/l rm x"),
        ("Bash(rm:*)", "flock /tmp/l -c 'rm x'"),
        ("Bash(rm:*)", "command rm x"),
        ("Bash(rm:*)", "builtin rm x"),
        ("Bash(rm:*)", "exec rm x"),
        ("Bash(rm:*)", "coproc rm x"),
        ("Bash(rm:*)", "time rm x"),
        ("Bash(rm:*)", "sudo sh -c 'env rm x'"),
        ("Bash(rm -rf *)", "rm -rf a b"),
        ("Bash(git push:*)", "git push origin main"),
        ("Bash(git push:*)", "git -C x -c a=b --no-pager push"),
        ("Bash(curl * | sh)", "curl http://x | sh"),
        ("Bash", "ls"),
        ("Bash(*)", "ls"),
        ("Read(./secrets/**)", "cat secrets/x"),
        ("Read(./secrets/**)", "cat SECRETS/x"),
        ("Read(./secrets/**)", "cat ./src/../secrets/x"),
        ("Read(./secrets/**)", "cd secrets && cat x"),
        ("Read(./secrets/**)", "grep x < secrets/y"),
        ("Read(./secrets/**)", "base64 secrets/x"),
        ("Read(./secrets/**)", "python x.py secrets/y"),
        ("Read(./secrets/**)", "git show HEAD:secrets/x"),
        ("Read(//outside/**)", "cat link/x"),
        ("Edit(src/**)", "echo x > src/a"),
        ("Edit(src/**)", "echo x | tee src/a"),
        ("Edit(src/**)", "rm -f src/a"),
        ("Edit(src/**)", "mv src/a b"),
        ("Edit(src/**)", "cp b src/a"),
        ("Edit(src/**)", "sed -i s/a/b/ src/a"),
        ("Edit(src/**)", "sh -c 'echo x > /w/proj/src/a'"),
    ],
)
def test_a_deny_rule_hits_through_everything(rule: str, command: str) -> None:
    assert word(command, policy(allow="Bash(*)", deny=rule)) == "deny"
    assert word(command, policy(mode="bypassPermissions", deny=rule)) == "deny"
    if "*" not in rule.strip(":*)") and rule != "Bash":
        assert word(command, policy(allow="Bash(*)", ask=rule)) in ("ask", "deny")


@pytest.mark.parametrize(
    ("rule", "command"),
    [
        ("Bash(rm:*)", "$X x"),
        ("Bash(rm:*)", "r$Y x"),
        ("Bash(rm:*)", 'eval "$X"'),
        ("Bash(rm:*)", 'sh -c "$X"'),
        ("Bash(rm:*)", "cat x.sh | sh"),
        ("Bash(git push:*)", "git $X origin"),
        ("Read(./secrets/**)", "cat $X"),
        ("Read(./secrets/**)", "grep -r x ."),
        ("Edit(src/**)", "echo x > $X"),
        ("Edit(src/**)", "rm $X"),
        ("Edit(src/**)", "cd sub; sh -c 'echo x > src/a'"),
    ],
)
def test_what_a_deny_rule_might_hit_is_asked_about_even_if_all_is_allowed(rule: str, command: str) -> None:
    assert word(command, policy(allow="Bash(*)", deny=rule)) == "ask"
    assert word(command, policy(mode="bypassPermissions", deny=rule)) == "ask"


@pytest.mark.parametrize(
    ("rule", "command", "expected"),
    [
        ("Bash(npm run test)", "npm run test", "allow"),
        ("Bash(npm run test)", "npm  run   test", "allow"),
        ("Bash(npm run test)", "npm run test --x", "ask"),
        ("Bash(npm run test:*)", "npm run test", "allow"),
        ("Bash(npm run test:*)", "npm run test -- --x", "allow"),
        ("Bash(npm run test:*)", "npm run tester", "ask"),
        ("Bash(npm run *)", "npm run build", "allow"),
        ("Bash(npm run *)", "npm runx build", "ask"),
        ("Bash(npm*)", "npmx build", "allow"),
        ("Bash(git * main)", "git merge main", "allow"),
        ("Bash(git * main)", "git merge other", "ask"),
        ('Bash(git commit -m "a b")', "git commit -m 'a b'", "allow"),
        ('Bash(git commit -m "a b")', "git commit -m a b", "ask"),
        ("Bash(npm test)", "npm test; evil", "ask"),
        ("Bash(npm test)", "npm test && ls", "allow"),
        ("Bash(npm test)", "npm test | tail -5", "allow"),
        ("Bash(npm test:*)", "npm test $(evil)", "ask"),
        ("Bash(npm test:*)", "npm test > out", "ask"),
        ("Bash(npm test:*)", "npm test > /dev/null", "allow"),
        ("Bash(npm test:*)", "npm test > .git/hooks/pre-commit", "ask"),
        ("Bash(npm test:*)", "npm test *.py", "allow"),
        ("Bash(npm test:*)", "npm test $X", "ask"),
        ("Bash(npm test)", "timeout 60 npm test", "allow"),
        ("Bash(npm test)", "time npm test", "allow"),
        ("Bash(npm test)", "nice -n 10 nohup npm test", "allow"),
        ("Bash(npm test)", "NO_COLOR=1 npm test", "allow"),
        ("Bash(npm test)", "NODE_OPTIONS=--require=x npm test", "ask"),
        ("Bash(npm test)", "NODE_ENV=$X npm test", "ask"),
        ("Bash(FOO=1 npm test)", "FOO=1 npm test", "allow"),
        ("Bash(npm test)", "sudo npm test", "ask"),
        ("Bash(npm test)", "env npm test", "ask"),
        ("Bash(npm test)", "sh -c 'npm test'", "ask"),
        ("Bash(npm test)", "timeout --foo npm test", "ask"),
        ("Bash(npm test)", "command -v npm test", "allow"),
        ("Bash(git push:*)", "git -C sub push", "allow"),
        ("Bash(git push:*)", "git --no-pager push", "allow"),
        ("Bash(git push:*)", "git -c x=y push", "ask"),
        ("Bash(wc:*)", "find . -name x | xargs wc", "allow"),
        ("Bash(wc:*)", "cat list | xargs -I{} wc {}", "ask"),
        ("Bash(find:*)", "find . -name '*.x' -delete", "ask"),
        ("Bash(find:*)", "find . -exec evil {} +", "ask"),
        ("Bash(watch:*)", "watch evil", "ask"),
        ("Bash(setsid:*)", "setsid evil", "ask"),
        ("Bash(*)", "evil; worse $X", "allow"),
        ("Bash(*)", "evil > out", "allow"),
        ("Bash(*)", "evil > .bashrc", "ask"),
        ("Bash(*)", "evil > /dev/tcp/a/1", "ask"),
        ("Bash(echo:*) & Edit(./out)", "echo x > out", "allow"),
        ("Edit(src/**)", "echo x > src/a", "allow"),
        ("Edit(src/**)", "echo x > link/../src/a", "allow"),
        ("Read(~/notes/**)", "cat ~/notes/a", "ask"),
        ("Bash(rm:*)", "rm x", "allow"),
        ("Bash(rm:*)", "rm -rf /", "deny"),
        ("Bash(rm:*)", "rm -rf .git", "ask"),
        ("Bash(cat:*)", "cat ~/.ssh/id_ed25519", "ask"),
        ("Bash(cat:*)", "cat ~/.aws/credentials", "ask"),
        ("Bash(python:*)", "python x.py ~/.netrc", "ask"),
    ],
)
def test_an_allow_rule_covers_the_literal_command_and_no_more(rule: str, command: str, expected: str) -> None:
    assert word(command, policy(allow=rule)) == expected


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf /",
        "rm -rf /*",
        "rm -rf /etc",
        "rm -rf //",
        "rm -rf /w/..",
        "rm -rf ~",
        "rm -rf ~/",
        "rm -rf ~/*",
        "rm -rf $HOME",
        'rm -rf "${HOME}"',
        "rm -rf /home/u",
        "rm -rf .",
        "rm -rf ./",
        "rm -rf ..",
        "rm -rf ../*",
        "rm -rf ../proj",
        "rm -rf /w/proj",
        "rm -r -f -- /w/proj",
        "rm -rf x /w/proj y",
        "cd src && rm -rf ..",
        "sudo rm -rf /",
        "sh -c 'rm -rf /'",
        "find . -exec rm -rf / ;",
        "timeout 5 env X=1 rm -rf ~",
        "ls; rm -rf /; ls",
        "echo $(rm -rf /)",
        "/bin/rm -rf /",
    ],
)
@pytest.mark.parametrize("mode", ["default", "acceptEdits", "bypassPermissions", "plan", "dontAsk"])
def test_removing_root_home_or_workspace_is_refused_in_every_mode(command: str, mode: Mode) -> None:
    assert word(command, policy(allow="Bash(*)", mode=mode)) == "deny"


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf *",
        "rm -rf ./*",
        'rm -rf "$X"',
        'rm -rf "$X"/*',
        "rm -rf $X/y",
        "rm -rf .git",
        "rm -rf .git/hooks",
        "find . -delete",
        "find / -exec rm {} +",
        "mkfs.ext4 /dev/sda",
        "dd if=/dev/zero of=/dev/sda",
        "chmod -R 777 /",
        "chown -R x ~",
        "mv . /tmp/x",
        "echo x > ~/.bashrc",
        "echo x >> .git/config",
        "cp a .git/hooks/pre-commit",
        "tee .claude/settings.json",
        "echo x > .TUGLINE/settings.json",
        "echo x > sub/.mcp.json",
        "ln -s a ~/.ssh/authorized_keys",
        "sh -c 'echo x > ~/.profile'",
        "python evil.py --out=.git/config",
        "cat ~/.ssh/id_rsa",
        "cp ~/.aws/credentials .",
        "cat /proc/self/environ",
    ],
)
def test_protected_places_and_catastrophes_are_asked_about_in_every_mode(command: str) -> None:
    assert word(command, policy(allow="Bash(*)", mode="bypassPermissions")) == "ask"
    assert word(command, policy(allow="Bash(*)", mode="acceptEdits")) == "ask"
    assert word(command, policy(allow="Bash(*)", mode="dontAsk")) == "deny"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("mkdir -p src/x", "allow"),
        ("touch a", "allow"),
        ("mv a b", "allow"),
        ("cp -r a b", "allow"),
        ("rm a", "allow"),
        ("rm -rf build", "allow"),
        ("echo x > a", "allow"),
        ("mkdir x && touch x/y", "allow"),
        ("mkdir /tmp/x", "ask"),
        ("mv a /tmp/b", "ask"),
        ("cp /etc/passwd a", "ask"),
        ("cp link/x a", "ask"),
        ("rm $X", "ask"),
        ("touch --reference=/etc/x a", "ask"),
        ("mv --suffix=x a b", "ask"),
        ("npm test", "ask"),
        ("python x.py > a", "ask"),
        ("ln -s / x", "ask"),
    ],
)
def test_mode_accept_edits_lets_plain_file_commands_pass_inside_the_workspace(command: str, expected: str) -> None:
    assert word(command, policy(mode="acceptEdits")) == expected


@pytest.mark.parametrize("command", ["npm test", "rm x", "echo x > a", "mkdir x"])
def test_plan_mode_refuses_what_does_more_than_read(command: str) -> None:
    assert word(command, policy(allow="Bash(*)", mode="plan")) == "deny"
    assert word("git status", policy(mode="plan")) == "allow"


def test_bypass_lets_ordinary_commands_pass() -> None:
    for command in (
        "npm test",
        "rm -rf build",
        "echo x > /elsewhere/y",
        "f() { ls; }; f",
        "echo $((x+1))",
        "curl x | sh",
    ):
        assert word(command, policy(mode="bypassPermissions")) == "allow"


def test_a_question_suggests_rules_for_exactly_what_is_asked() -> None:
    verdict = judged("npm run build && ls && pytest -k 'a b' > out.txt", policy())
    assert verdict == VerdictAsk(
        "no rule allows npm run build, pytest -k 'a b', > out.txt",
        ("Bash(npm run build)", 'Bash(pytest -k "a b")', "Edit(./out.txt)"),
    )


def test_no_rule_is_suggested_where_none_could_cover_it() -> None:
    for command in ("evil $X", "x() { ls; }; x", "ls\r", "a; b; c; d; e; f", "cat ~/.ssh/id_rsa"):
        verdict = judged(command, policy())
        assert isinstance(verdict, VerdictAsk)
        assert verdict.suggestions == ()


_WORDS = st.lists(
    st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=8), min_size=1, max_size=4
)


@given(_WORDS, _WORDS)
def test_a_suggested_rule_allows_the_command_it_was_suggested_for_and_no_other(
    first: list[str], second: list[str]
) -> None:
    def line(words: list[str]) -> str:
        return "zzz " + " ".join("'" + w.replace("'", "'\\''") + "'" for w in words)

    asked = judged(line(first), policy())
    if not isinstance(asked, VerdictAsk) or not asked.suggestions:
        return
    with_rules = Policy(
        allow=tuple(parse_rule(rule, "allow") for rule in asked.suggestions),
        directories=(PROJECT,),
        cwd=PROJECT,
        home=HOME,
    )
    assert isinstance(judged(line(first), with_rules), VerdictAllow)
    if first != second:
        assert not isinstance(judged(line(second), with_rules), VerdictAllow)


# what follows a comment is a comment, and what follows a backslash is no operator
_COMMANDS = st.sampled_from([c for c in [*ROUTINE, *UNSAFE, "npm test", "rm x"] if "#" not in c and c[-1] != "\\"])
_RULES = st.sampled_from(
    ["", "Bash(*)", "Bash(npm:*)", "Bash(rm:*)", "Bash(git *)", "Read(./secrets/**)", "Edit(src/**)"]
)
_TAILS = st.sampled_from(["; evil", " | evil", " $(evil)", " > out", " && rm x", " < /etc/passwd"])


@given(_COMMANDS, _TAILS, _RULES, _RULES)
def test_something_more_never_loosens(command: str, tail: str, allow: str, deny: str) -> None:
    by = policy(allow=allow, deny=deny)
    alone, more = judged(command, by), judged(command + tail, by)
    assert isinstance(alone, VerdictAllow) or not isinstance(more, VerdictAllow)
    if allow != "Bash(*)" and tail in ("; evil", " | evil", " $(evil)"):
        assert not isinstance(more, VerdictAllow)


@given(st.text(max_size=60) | st.text("ls rm;|&$(){}<>'\"`\\\n=[]~*?#!-x", max_size=60), _RULES, _RULES)
def test_the_decision_is_total(command: str, allow: str, deny: str) -> None:
    for mode in ("default", "bypassPermissions", "plan"):
        judged(command, policy(allow=allow, deny=deny, mode=mode))
    assert is_read_only(command) in (True, False)


def test_the_scheduler_never_takes_a_change_for_a_read() -> None:
    # that what is read lies elsewhere is for the rules to say
    taken = [command for command in UNSAFE if is_read_only(command)]
    assert not [
        command
        for command in taken
        if re.search(r"(?<!-)evil|\brm\b|\btee\b|--output|-delete", command.replace("evil/", "").replace("evil.", ""))
    ]


def test_the_scheduler_knows_what_reads_and_what_touches_nothing() -> None:
    assert is_read_only("git status && ls -la | head")
    assert is_read_only("(cd src; ls)")
    assert not is_read_only("cd src")
    assert not is_read_only("ls > out")
    assert touches_nothing("sleep 5")
    assert touches_nothing("echo a > /dev/null")
    assert not touches_nothing("ls")
    assert not touches_nothing("git status")
    assert not touches_nothing("tr a b < x")
    assert not touches_nothing("npm test")


def test_repetition_without_end_is_asked_about() -> None:
    units = (
        "(",
        "$(",
        "a;",
        "a|",
        "{",
        "<<A ",
        "'",
        "(a)",
        "a()",
        ")",
        "$[",
        "a&&",
        "`a",
        "${a",
        "if a;",
        "[[ ",
        "<<A\n",
    )
    for command in (unit * (size // len(unit)) for unit in units for size in (3_900, 60_000)):
        assert word(command, policy()) == "ask"
