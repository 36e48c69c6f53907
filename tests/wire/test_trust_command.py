"""`tugline trust`: shows what would count, asks, and No is the answer unless somebody says yes."""

import json
import os
import pty
from collections.abc import Awaitable, Callable

import pytest
from command import TUGLINE, Desk, assert_clean

from tugline.testing import ModelServer, call, reply

pytest_plugins = ["wire_desk"]

Serve = Callable[..., Awaitable[ModelServer]]


def lay(desk: Desk, **more: object) -> None:
    (desk.cwd / ".git").mkdir(exist_ok=True)
    (desk.cwd / ".tugline").mkdir(exist_ok=True)
    data = {"env": {"COLOUR": "r\x1b[31med"}, "permissions": {"allow": ["Bash(touch made)"]}, **more}
    (desk.cwd / ".tugline/settings.json").write_text(json.dumps(data))


async def test_from_a_clone_to_a_trusted_folder_and_back(desk: Desk, serve: Serve) -> None:
    lay(desk)
    touch = [reply(call("Bash", command="touch made")), reply("Done.")]
    await serve(touch * 3)
    assert "1 call was not permitted" in (await desk.run("-p", "Go")).err
    yes = await desk.run("trust", "--yes")
    assert yes.code == 0
    assert yes.out.splitlines()[1:4] == [
        "+ .tugline/settings.json: env.COLOUR",
        "    r\\x1b[31med",
        "+ .tugline/settings.json: permissions.allow Bash(touch made)",
    ]
    assert (await desk.run("-p", "Go")).err == ""
    assert (desk.cwd / "made").exists()
    listed = await desk.run("trust", "--list")
    assert listed.out.startswith(f"{desk.cwd}  since ")
    assert "nothing in it has changed since" in (await desk.run("trust")).out
    lay(desk, model="other")
    changed = await desk.run("-p", "Go", "--model", "m")
    assert changed.err == (
        "tugline: New or changed since this folder was trusted, so not in force: model. "
        "See and approve it: tugline trust --diff\n"
    )
    difference = await desk.run("trust", "--diff")
    assert difference.out.splitlines() == ["+ .tugline/settings.json: model", "    other"]
    assert (await desk.run("trust", "--remove")).code == 0
    assert (await desk.run("trust", "--list")).out == "No folder is trusted.\n"
    assert_clean(await desk.run("trust", "--remove"), lines=1)


async def test_a_changed_item_is_shown_with_the_difference(desk: Desk) -> None:
    lay(desk, hooks={"Stop": [{"hooks": [{"type": "command", "command": "one", "args": ["two", "three"]}]}]})
    await desk.run("trust", "--yes")
    lay(desk, hooks={"Stop": [{"hooks": [{"type": "command", "command": "one", "args": ["2", "three"]}]}]})
    out = (await desk.run("trust", "--diff")).out
    assert '-    "two",' in out
    assert '+    "2",' in out


async def test_a_folder_below_or_elsewhere_can_be_named(desk: Desk) -> None:
    lay(desk)
    (desk.cwd / "sub").mkdir()
    assert f"{desk.cwd} is trusted" in (await desk.run("trust", "--yes", "sub")).out
    assert (await desk.run("trust", "--remove", "sub")).code == 0
    (desk.folder / "gone").mkdir()
    await desk.run("trust", "--yes", "../gone")
    (desk.folder / "gone").rmdir()
    assert (await desk.run("trust", "--remove", "../gone")).code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--yse"], "has no flag --yse"),
        (["a", "b"], "takes one folder"),
        (["--list", "--diff"], "takes one folder"),
        (["--list", "."], "takes no folder"),
        (["no/such"], "is not a folder"),
        (["--yes", "--remove"], "takes one folder"),
    ],
)
async def test_wrong_words_are_one_line(desk: Desk, words: list[str], said: str) -> None:
    ended = await desk.run("trust", *words)
    assert ended.code == 2
    assert_clean(ended, lines=1)
    assert said in ended.err


async def test_a_damaged_store_is_one_line(desk: Desk) -> None:
    lay(desk)
    await desk.run("trust", "--yes")
    (desk.folder / "state/config/trust.json").write_text("{")
    for words in (["trust", "--list"], ["trust", "--yes"]):
        ended = await desk.run(*words)
        assert ended.code == 1
        assert_clean(ended)


@pytest.mark.parametrize(
    ("typed", "code"), [("\n", 1), ("n\n", 1), ("\x04", 1), ("yep\n", 1), ("y\n", 0), ("YES\n", 0)]
)
@pytest.mark.filterwarnings("ignore:This process")
def test_at_a_terminal_the_answer_is_no_unless_it_is_yes(desk: Desk, typed: str, code: int) -> None:
    lay(desk)
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(desk.cwd)
        os.execve(TUGLINE, [TUGLINE, "trust"], desk.environ)
    seen = b""
    while b"[y/N]" not in seen:
        seen += os.read(terminal, 1024)
    os.write(terminal, typed.encode())
    while True:
        try:
            more = os.read(terminal, 1024)
        except OSError:
            break
        if not more:
            break
        seen += more
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == code
    os.close(terminal)
    assert b"\x1b" not in seen
    assert (desk.folder / "state/config/trust.json").exists() == (code == 0)
