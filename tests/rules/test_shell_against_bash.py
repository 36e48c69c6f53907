"""What the analysis says of a command, held against what bash makes of it.

Bash runs with nothing to find on its path and a handler that writes down each command it would have run.
"""

import os
import random
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tugline.rules.shell import analyse
from tugline.rules.shell_parts import Member

BASH = "/bin/bash"
HANDLER = r"""command_not_found_handle() { local IFS=$'\x1f'; printf '%s\x1f\x1e' "$*" >&9; }; eval "$1" """

SHAPES = [
    *("a", "b", "c", "aa", "-x", "~/q", "~", "'", " ", " ", " ", '"', "\\", "\n", ";", "&", "|", "&&", "||", "(", ")"),
    *("{ ", "}", " ; ", "$(", ")", "`", "<(", "#", " # ", "<<E\n", "\nE\n", "<<'E'\n", "<<-E\n", "\tE\n", "<<<"),
    *("> f", " 2>&1 ", "if ", "then ", "else ", "fi", "for i in ", "do ", "done", "while ", "case ", "esac", " in "),
    *("! ", "time ", "{a,b}", "*", "?", "[a]", "$i", "${i}", "$'", '$"', "\\\n", "=", "i=", "i=b ", "!", "%", "^", "$"),
    *("$$", "#a", "a#", "\t", "E", "'E'", "[[ ", "]]", "[ ", " ]", " == ", "-n ", "function ", "a()", "until ", "é"),
]
QUOTES = [
    *(
        "a",
        "b ",
        "c",
        " ",
        " ",
        '"',
        '"',
        "'",
        "\\",
        '"$i"',
        "${i:-",
        "${i}",
        "}",
        "$(a ",
        "$(",
        ")",
        "`",
        "`a`",
        "\\`",
    ),
    *(
        "\\`",
        '\\"',
        "\\$",
        "<<<",
        "> f",
        ">>g",
        "&>h ",
        ">| ",
        "<(a)",
        "<(",
        "$'",
        "\\'",
        "\n",
        ";",
        "&&",
        "|",
        "$",
        "$((1+2))",
        "$((",
    ),
    *(
        "))",
        "{a,b}",
        "{",
        "a{",
        "}b",
        "~",
        "=~",
        ":~",
        "x=",
        "${#i}",
        "${i%a}",
        "${i/",
        "[",
        "]",
        "*",
        "\\*",
        "~/x",
        "((",
        "))",
        "<<E\n",
    ),
    *("\nE\n", "E", "<<\\E\n", "<<'E'\n", "$i", "é", "\t", "!", "#", " #", "\\\n"),
]
VALUES = [
    *(
        "x=a; ",
        "x=b; ",
        "y=$x; ",
        "x=$y; ",
        "x='a b'; ",
        "x=; ",
        "x+=c; ",
        "$x ",
        '"$x" ',
        "c$x ",
        "${x}d ",
        '"$y"e ',
        "$y ",
    ),
    *(
        "for x in a b; do ",
        "for x in $y c; do ",
        "for y in {1..3}; do ",
        "done; ",
        "if a; then ",
        "else ",
        "fi; ",
        "(",
        ") ",
    ),
    *(
        "{ ",
        "; } ",
        "&& ",
        "|| ",
        "| ",
        "& ",
        "; ",
        "a ",
        "b ",
        "{a,b} ",
        "c{a,b}d ",
        "{a,b}{c,d} ",
        "$(a) ",
        "read x; ",
    ),
    *(
        "unset x; ",
        "! ",
        "x=b ",
        "y=c c $y; ",
        "while a; do ",
        "case a in a) ",
        ";; esac; ",
        "x=a && ",
        "x=b || ",
        "f() { ",
    ),
    *(
        "export x=d; ",
        "cd .; ",
        "\n",
        "a <<< $x ",
        "IFS= ",
        "local x=e; ",
        "eval x=f; ",
        "printf -v x g; ",
        "declare y=h; ",
    ),
]
KNOWN = [
    "{a,b}\tE\ntime %\n}",
    "[a]",
    "[ a ]b",
    "a$$ b",
    "a -x$",
    "sort --compress-program=x$",
    "a\n\\\nb",
    "éi=b c",
    "!a b",
    "!'E' b",
    "$ # a",
    "a 2>&1b c",
    "==  2>&1 c",
    "> f$$$-xa b",
    "c}\\$",
    "b {<<<[\\a",
    "> f case }\t{ x",
    'a$"b$$"',
    "a\\\nb",
    "cat <<'E'OF\nE\nb\nEOF",
    "a {x}>f b",
    "a ]\\ ]#b c",
    "a -x<<'E'\nb\nE\n",
    '"\\\n $\\\\" && b',
    'a "$$i" "\\$i" "\\\\$i" "$$"',
    "x=a; x+=c; ${x}d",
    "x=a && x+=c; $x",
]


def commands_run(command: str, folder: Path) -> list[tuple[str, ...]]:
    """The commands that bash would have started, each with its words. Files that it makes are in `folder`."""
    reading, writing = os.pipe()
    try:
        done = subprocess.Popen(
            [BASH, "--noprofile", "--norc", "-c", HANDLER, "bash", command],
            cwd=folder,
            env={"PATH": "/nonexistent", "HOME": "/hh"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=lambda: os.dup2(writing, 9),
            close_fds=False,
            start_new_session=True,
        )
    finally:
        os.close(writing)
    with os.fdopen(reading, "rb") as file:
        data = file.read()
    done.wait(timeout=10)
    return [tuple(part.split("\x1f")[:-1]) for part in data.decode("utf-8", "replace").split("\x1e")[:-1]]


def matches(expected: Sequence[str | None], words: Sequence[str]) -> bool:
    """Whether the words are those expected, `None` standing for any number of any words."""
    if not expected:
        return not words
    if expected[0] is None:
        return any(matches(expected[1:], words[skipped:]) for skipped in range(len(words) + 1))
    return bool(words) and expected[0] == words[0] and matches(expected[1:], words[1:])


def foretold(member: Member, words: Sequence[str]) -> bool:
    """Whether the member is this command, if need be behind `time`, `!` and assignments."""
    known: list[str | None] = [
        "/hh" + word.text[1:] if word.home and word.text is not None else word.text for word in member.words
    ]
    while True:
        if matches(known, words):
            return True
        first = known[0] if known else None
        if first not in ("time", "coproc", "!", "-p") and not re.match(r"[A-Za-z_]\w*=", first or ""):
            return False
        known = known[1:]


def check(command: str, folder: Path) -> bool:
    analysis = analyse(command)
    if analysis.opaque:
        return False
    for words in commands_run(command, folder):
        assert any(foretold(member, words) for member in analysis.members), (command, words, analysis.members)
    for made in folder.iterdir():
        targets = [redirect.target for redirect in analysis.redirects if redirect.edit]
        assert any(target.text in (None, made.name) for target in targets), (command, made.name, targets)
        made.unlink()
    return True


pytestmark = pytest.mark.skipif(not os.access(BASH, os.X_OK), reason="there is no bash here")


@pytest.mark.parametrize("command", KNOWN)
def test_forms_that_parsers_read_differently_are_read_as_bash_does_or_not_at_all(command: str, tmp_path: Path) -> None:
    check(command, tmp_path)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("pieces", [SHAPES, QUOTES, VALUES], ids=["shapes", "quotes", "values"])
def test_bash_runs_nothing_that_the_analysis_did_not_foretell(pieces: list[str], seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    judged = 0
    for _ in range(400):
        command = "".join(chance.choice(pieces) for _ in range(chance.randint(1, 12)))
        # a loop that never ends proves nothing
        if "while" not in command and "until" not in command:
            judged += check(command, tmp_path)
    assert judged > 20
