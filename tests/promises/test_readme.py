"""The README's examples run as they stand, against the scripted model."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tugline.testing import ModelServer, Step, call, reply

ROOT = Path(__file__).parents[2]
EXAMPLES = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)

SCRIPTS: list[tuple[str, list[Step], str]] = [
    (
        "weather",
        [reply("Let me look. ", call("weather", city="Oslo")), reply("It is sunny in Oslo, 21 degrees.")],
        "It is sunny in Oslo, 21 degrees. ($",
    ),
    (
        "query",
        [
            reply(call("Read", file_path="cart.py")),
            reply(call("Edit", file_path="cart.py", old_string="a - b", new_string="a + b")),
            reply("Fixed: it subtracted."),
        ],
        "\n> Read cart.py\n\n> Edit cart.py\nFixed: it subtracted.",
    ),
]


def test_every_example_has_a_script() -> None:
    assert len(EXAMPLES) == len(SCRIPTS)


@pytest.mark.parametrize(
    ("source", "script", "expected"),
    [(source, *rest) for source, (_, *rest) in zip(EXAMPLES, SCRIPTS, strict=False)],
    ids=[name for name, *_ in SCRIPTS],
)
async def test_the_example_runs_as_it_stands(source: str, script: list[Step], expected: str, tmp_path: Path) -> None:
    import anyio.to_thread

    (tmp_path / "cart.py").write_text("def total(a, b):\n    return a - b\n")
    async with ModelServer(script) as server:
        environ = {
            **os.environ,
            "ANTHROPIC_BASE_URL": server.url,
            "ANTHROPIC_API_KEY": "scripted",
            "TUGLINE_HOME": str(tmp_path / "home"),
        }

        def run() -> subprocess.CompletedProcess[str]:
            argv = [sys.executable, "-c", source]
            return subprocess.run(argv, capture_output=True, text=True, env=environ, cwd=tmp_path, timeout=60)

        done = await anyio.to_thread.run_sync(run)
    assert (done.returncode, done.stderr) == (0, "")
    assert expected in done.stdout
