"""What the manual says of sessions: its commands run as they stand, and it names all there is."""

import re
import subprocess
from pathlib import Path

import anyio.to_thread
import manual
import pytest
from command import TUGLINE
from shelf import Shelf

from tugline.cli.help import SESSIONS
from tugline.cli.sessions.command import _COMMANDS
from tugline.testing import ModelServer, reply

HOW_TO = manual.page("how-to/keep-your-sessions.md")
COMMAND_LINE = manual.page("reference/command-line.md")


def lines() -> list[str]:
    """The commands of the page, a line each."""
    return [line for block in manual.blocks(HOW_TO, "sh") for line in block.splitlines() if line.strip()]


async def test_the_commands_of_the_page_run_as_they_stand(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    await shelf.talk(("What does the cart total?", "It subtracts."))
    async with ModelServer([reply("They pass."), reply("They pass.")], lenient=True) as server:
        environ = {
            **shelf.environ,
            "PATH": f"{Path(TUGLINE).parent}:{shelf.environ['PATH']}",
            "ANTHROPIC_BASE_URL": server.url,
            "ANTHROPIC_API_KEY": "k",
        }

        def run() -> "subprocess.CompletedProcess[str]":
            script = "set -e\n" + "\n".join(line for line in lines() if "-r ID" not in line)
            return subprocess.run(
                ["bash", "-c", script], cwd=shelf.work, env=environ, capture_output=True, text=True, timeout=60,
                stdin=subprocess.DEVNULL,
            )  # fmt: skip

        done = await anyio.to_thread.run_sync(run)
    assert (done.returncode, done.stderr) == (0, "")
    assert "It subtracts." in done.stdout
    assert (shelf.work / "cart.html").exists()
    assert (shelf.work / "AGENTS.md").read_text() == "- Prices are in cents\n"
    assert [one.title for one in shelf.sessions.summaries()] == ["The cart subtracts"]


def test_every_command_and_flag_is_in_the_help_and_in_the_reference() -> None:
    section = manual.sections(COMMAND_LINE, 2)["tugline sessions"]
    commands, flags = manual.tables(section)
    named = [name.split()[0] for row in commands for name in manual.codes(row[0])]
    assert sorted(named) == sorted([*_COMMANDS, "gc"])
    assert {*re.findall(r"^tugline sessions (\w+)", SESSIONS, re.M)} == set(named)
    known = {word for row in flags for word in re.findall(r"--[a-z-]+", row[0])}
    assert known | {"--output"} == set(re.findall(r"--[a-z]+(?:-[a-z]+)*", SESSIONS))


@pytest.mark.parametrize("page", [COMMAND_LINE])
async def test_every_slash_command_is_in_the_reference(page: str, tmp_path: Path) -> None:
    (table,) = manual.tables(manual.sections(page, 2)["Slash commands"])
    named = {name.split()[0] for row in table for name in manual.codes(row[0])}
    async with Shelf(tmp_path).session() as session:
        known = {f"/{command.name}" for command in session.inside.commands.all()}
    assert named - {"#TEXT"} == known
