"""What the command imports: a start costs what its imports cost."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SHOW = """
import sys
from tugline.__main__ import main
code = main()
print(code, *sorted(sys.modules), file=sys.stderr)
"""
HEAVY = {
    "PIL", "pypdf", "markdownify", "bs4", "jsonschema", "textual", "rich", "argparse", "email",
    "http", "urllib.request", "importlib.metadata", "tugline.testing", "anthropic", "openai", "tree_sitter",
}  # fmt: skip


def modules(argv: list[str], tmp_path: Path, **env: str) -> tuple[int, set[str]]:
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TUGLINE_HOME": str(tmp_path / "state")} | env
    done = subprocess.run(
        [sys.executable, "-c", SHOW, *argv],
        env=environ, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True,
    )  # fmt: skip
    code, *names = done.stderr.splitlines()[-1].split()
    return int(code), set(names)


def bare() -> set[str]:
    """What Python itself imports here."""
    show = "import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("flag", ["--version", "--help"])
def test_version_and_help_import_next_to_nothing(flag: str, tmp_path: Path) -> None:
    code, names = modules([flag], tmp_path)
    assert code == 0
    added = names - bare()
    assert not added & (HEAVY | {"msgspec", "anyio", "asyncio", "json", "pathlib"})
    assert len(added) <= 40


def test_a_run_imports_nothing_heavy_before_its_first_request(tmp_path: Path) -> None:
    # the model cannot be reached, which is found out after everything was set up and the request was made
    env = {
        "ANTHROPIC_API_KEY": "k",
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:1",
        "TUGLINE_NETWORK_MAX_RETRIES": "0",
    }
    code, names = modules(["-p", "Go"], tmp_path, **env)
    assert code == 75
    assert not names & HEAVY
    assert len(names) < 490
