"""Cloned folders, before anybody has said yes: nothing of them is started, nothing connects, nothing is changed."""

import json
import os
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from command import Desk
from hostile import FOLDERS, Alarm, code, git_settings, own_settings, strange_names

from tugline.testing import ModelServer, call, reply

pytest_plugins = ["wire_desk"]

Serve = Callable[..., Awaitable[ModelServer]]
Lay = Callable[[Path, Alarm], None]
CONTROL = [chr(code) for code in (*range(9), *range(11, 32), *range(127, 160))]


@pytest.fixture
def alarm(tmp_path: Path) -> Iterator[Alarm]:
    alarm = Alarm(tmp_path)
    yield alarm
    alarm.close()


def seen(folder: Path) -> list[str]:
    """The files of the user's own folders that were not there before, less transcripts."""
    kept = [path for path in folder.rglob("*") if path.is_file() and "sessions" not in path.parts]
    return sorted(str(path.relative_to(folder)) for path in kept)


@pytest.mark.parametrize("lay", FOLDERS, ids=lambda lay: lay.__name__)
async def test_a_run_in_it_starts_nothing_reaches_nothing_and_changes_nothing(
    desk: Desk, serve: Serve, alarm: Alarm, lay: Lay
) -> None:
    lay(desk.cwd, alarm)
    before, home = sorted(os.walk(desk.cwd)), seen(desk.folder / "home")
    calls = [call("Bash", command="git status"), call("Bash", command="git log"), call("Bash", command="ls")]
    server = await serve([reply(*calls), reply(call("Bash", command="touch made")), reply("Done.")])
    # what git makes of pipes in place of its files is ended by the time-out of commands
    ended = await desk.run("-p", "Look around", "--verbose", limit=60, env={"TUGLINE_SHELL_TIMEOUT": "1"})
    assert alarm.sprung() == ""
    assert (ended.code, ended.out) == (0, "Done.\n"), ended.err
    assert sorted(os.walk(desk.cwd)) == before, "nothing was made in the folder"
    assert (seen(desk.folder / "home"), seen(desk.folder / "state")) == (home, [])
    assert not [char for char in CONTROL if char in ended.err], ended.err
    sent = [request.raw for request in server.requests]
    assert not any(b"canary" in raw or b"root:x:0" in raw for raw in sent)
    assert not any(b'"model":"evil"' in raw for raw in sent)
    shown = await desk.run("trust")
    assert (shown.code, alarm.sprung(), seen(desk.folder / "state")) == (2, "", [])
    assert "Nobody is there to say yes" in shown.err
    assert not [char for char in CONTROL if char in shown.out + shown.err]


async def test_what_shows_settings_starts_nothing_either(desk: Desk, alarm: Alarm) -> None:
    for lay in (own_settings, git_settings, strange_names, code):
        lay(desk.cwd, alarm)
    for words in (("config", "show"), ("config", "context"), ("trust", "--diff")):
        shown = await desk.run(*words)
        assert not [char for char in CONTROL if char in shown.out + shown.err]
    assert (alarm.sprung(), seen(desk.folder / "state")) == ("", [])


async def test_what_is_withheld_is_told_in_one_line_that_names_the_remedy(
    desk: Desk, serve: Serve, alarm: Alarm
) -> None:
    own_settings(desk.cwd, alarm)
    await serve([reply("Done.")])
    ended = await desk.run("-p", "Go")
    (line,) = [line for line in ended.err.splitlines() if "not trusted" in line]
    assert line.startswith("tugline: This folder is not trusted: its settings ")
    assert line.endswith("See and approve it: tugline trust")


async def test_the_alarm_goes_off_where_git_is_not_guarded(desk: Desk, serve: Serve, alarm: Alarm) -> None:
    """So the tests above can fail: with the trust of the folder, the model's git runs what the repository has set."""
    git_settings(desk.cwd, alarm)
    await serve([reply(call("Bash", command="git status")), reply("Done.")])
    ended = await desk.run("-p", "Go", "--trust")
    assert ended.out == "Done.\n"
    assert str(alarm.program) in alarm.sprung()


async def test_a_host_that_names_the_projects_settings_has_said_so(desk: Desk, serve: Serve) -> None:
    folder = desk.cwd / ".tugline"
    folder.mkdir()
    (folder / "settings.json").write_text(json.dumps({"permissions": {"allow": ["Bash(touch made)"]}}))
    await serve([reply(call("Bash", command="touch made")), reply("Done.")])
    await desk.run("-p", "Go")
    assert not (desk.cwd / "made").exists()
    await serve([reply(call("Bash", command="touch made")), reply("Done.")])
    await desk.run("-p", "Go", "--setting-sources", "user,project")
    assert (desk.cwd / "made").exists()


async def test_programs_in_the_folder_are_not_taken_for_ours(desk: Desk, serve: Serve, alarm: Alarm) -> None:
    code(desk.cwd, alarm)
    (desk.cwd / ".git").mkdir()
    await serve([reply(call("Grep", pattern="x"), call("Bash", command="ls")), reply("Done.")])
    ended = await desk.run("-p", "Go")
    assert (ended.code, alarm.sprung()) == (0, "")
