"""File name patterns, as bash expands them."""

import subprocess
from pathlib import Path

import pytest

from tugline.workspaces.expansion import LIMIT, expand


@pytest.mark.parametrize("pattern", ["*", "*.py", "?.py", "sub/*", "*/*.py", "none*", ".*", "**", "s*/?.py", "*.PY"])
def test_names_are_those_that_bash_puts_there(tmp_path: Path, pattern: str) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("a.py", "b.py", "long.py", ".hidden", "sub/c.py", "sub/d.txt", "with space.py"):
        (tmp_path / name).write_text("")
    script = f'printf "%s\\n" {pattern}'
    done = subprocess.run(["bash", "--norc", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    ours = expand(pattern, str(tmp_path))
    theirs = [name for name in done.stdout.splitlines() if name not in (".", "..")]
    assert sorted(name.rstrip("/") for name in ours or ()) == sorted(theirs)


@pytest.mark.parametrize("pattern", ["[ab].py", "\\*", "{a,b}*", "a\0*"])
def test_what_shells_read_differently_is_not_known(tmp_path: Path, pattern: str) -> None:
    assert expand(pattern, str(tmp_path)) is None


def test_too_many_names_are_not_known(tmp_path: Path) -> None:
    for n in range(LIMIT + 1):
        (tmp_path / str(n)).touch()
    assert expand("*", str(tmp_path)) is None
