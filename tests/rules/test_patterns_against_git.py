"""Path rules held against git itself: what `git check-ignore` says of a pattern and a path."""

import shutil
import subprocess
from pathlib import Path
from random import Random

import pytest

from tugline.rules.patterns import PatternError, compiled, parse_path_pattern

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git here")

PIECES = ["a", "b", "ab", "*", "?", "a*", "*b", "**", "[ab]", "[!a]", "\\*", ".x", "a?b", "*.py"]
NAMES = ["a", "b", "ab", "aab", "x", ".x", "*", "a.py", "acb"]


def test_patterns_mean_what_they_mean_to_git(tmp_path: Path) -> None:
    chance = Random(7)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    paths = sorted({"/".join(chance.choices(NAMES, k=chance.randint(1, 4))) for _ in range(120)})
    compared = 0
    for _ in range(150):
        parts = chance.choices(PIECES, k=chance.randint(1, 3))
        body, rooted = "/".join(parts), chance.random() < 0.4
        try:
            ours = parse_path_pattern(("./" if rooted else "") + body, deep=False)
        except PatternError:
            continue
        (tmp_path / ".gitignore").write_text(("/" if rooted else "") + body + "\n")
        done = subprocess.run(
            ["git", "-C", str(tmp_path), "check-ignore", "--no-index", "-z", "--stdin"],
            input="\0".join(paths).encode(),
            capture_output=True,
        )
        theirs = {path for path in done.stdout.decode().split("\0") if path}
        found = {path for path in paths if compiled(ours.regex).match(path)}
        if parts[-1] == "**":
            # `x/**` covers `x` itself here, as rules need it
            assert found >= theirs, (body, rooted)
        else:
            assert found == theirs, (body, rooted)
        compared += 1
    assert compared > 100
