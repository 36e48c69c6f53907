"""Options are refused with one line where they are wrong, and never dropped without a word."""

from pathlib import Path
from typing import Any

import pytest

import tugline
from tugline.options import make_options
from tugline.testing import ScriptedProvider, reply


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"modle": "x"}, "Did you mean model?"),
        ({"model": 3}, "model must be text"),
        ({"model": "\ud800"}, "model must be printable text"),
        ({"environ": 5}, "environ must be a mapping"),
        ({"max_turns": 0}, "max_turns must be a whole number of at least 1"),
        ({"max_turns": "3"}, "max_turns must be"),
        ({"max_turns": True}, "max_turns must be"),
        ({"max_budget_usd": -1.0}, "max_budget_usd must be a number above 0"),
        ({"thinking_tokens": 1.5}, "thinking_tokens must be"),
        ({"permission_mode": "acceptedits"}, "permission_mode must be one of default, acceptEdits"),
        ({"effort": "huge"}, "effort must be one of"),
        ({"setting_sources": ["usr"]}, "setting_sources must be one of user, project, local"),
        ({"allowed_tools": "Bash"}, "allowed_tools takes a list"),
        ({"add_dirs": "/tmp"}, "add_dirs takes a list"),
        ({"builtin_tools": [1]}, "takes a list of texts"),
        ({"tools": [len]}, "make it a tool with @tugline.tool"),
        ({"tools": len}, "tools takes a list"),
        ({"tools": [3]}, "tools must be tools"),
        ({"session_id": "../../escaped"}, "session_id must be"),
        ({"session_id": ""}, "session_id must be"),
        ({"provider": object()}, "provider must be a provider"),
        ({"cwd": 3}, "cwd must be a path"),
    ],
)
def test_a_wrong_option_is_one_line(given: dict[str, Any], says: str) -> None:
    with pytest.raises(tugline.UsageError) as caught:
        make_options(given)
    assert says in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("settings", [{"model": object()}, {"model": "\ud800"}])
async def test_settings_that_json_cannot_say_are_one_line(settings: dict[str, Any]) -> None:
    with pytest.raises(tugline.UsageError, match="what JSON can say"):
        async with tugline.Session(settings=settings):
            pass


def test_a_callback_that_is_none_is_refused() -> None:
    with pytest.raises(tugline.UsageError, match="permission must be a function"):
        tugline.Session(permission=True)  # type: ignore[arg-type]


def test_paths_and_lists_may_be_given_as_programs_have_them(tmp_path: Path) -> None:
    options = make_options({"cwd": tmp_path, "add_dirs": [tmp_path], "record": tmp_path / "r.yaml", "tools": ()})
    assert options.cwd == str(tmp_path)
    assert options.add_dirs == (str(tmp_path),)
    assert options.record == str(tmp_path / "r.yaml")


def test_the_mode_manual_is_the_default_mode() -> None:
    assert make_options({"permission_mode": "manual"}).permission_mode == "default"


async def test_a_session_id_that_is_taken_is_refused(tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "provider": ScriptedProvider([]),
        "model": "m",
        "cwd": tmp_path,
        "session_id": "mine",
        "environ": {"TUGLINE_HOME": str(tmp_path / "home")},
    }
    async with tugline.Session(**options):
        pass
    with pytest.raises(tugline.SessionError, match="that id already"):
        async with tugline.Session(**options):
            pass


async def test_our_folders_are_private_all_the_way(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with tugline.Session(
        provider=ScriptedProvider([]), model="m", cwd=tmp_path, environ={"TUGLINE_HOME": str(home)}
    ):
        pass
    for folder in (path for path in home.rglob("*") if path.is_dir()):
        assert folder.stat().st_mode & 0o077 == 0, folder


def library_session(tmp_path: Path, **options: Any) -> tugline.Session:
    environ = {"TUGLINE_HOME": str(tmp_path / "home")}
    given: dict[str, Any] = {"provider": ScriptedProvider([reply("ok")]), "model": "m", "cwd": tmp_path}
    return tugline.Session(**{**given, "environ": environ, **options})


@pytest.mark.parametrize("prompt", ["", "  \n", None, 3, ["text"], ()])
async def test_what_is_no_prompt_is_refused_at_once(tmp_path: Path, prompt: Any) -> None:
    async with library_session(tmp_path) as session:
        with pytest.raises(tugline.UsageError):
            await session.run(prompt)
        assert (await session.run("Hi")).text == "ok"


async def test_what_is_no_command_or_mode_is_refused_at_once(tmp_path: Path) -> None:
    async with library_session(tmp_path) as session:
        with pytest.raises(tugline.UsageError, match="commands"):
            session.send("hello")  # type: ignore[arg-type]
        with pytest.raises(tugline.UsageError, match="mode"):
            session.set_mode("nonsense")  # type: ignore[arg-type]


async def test_what_a_session_began_with_can_be_read(tmp_path: Path) -> None:
    async with library_session(tmp_path, settings={"modle": "x"}) as session:
        assert session.opening.model == "m"
        assert Path(session.opening.transcript).exists()
        assert "did you mean model" in session.notices[0]


def test_settings_may_say_manual_for_the_default_mode(tmp_path: Path) -> None:
    from tugline.config.load import load

    config = load(
        cwd=str(tmp_path),
        environ={"HOME": str(tmp_path)},
        settings='{"permissions": {"defaultMode": "manual"}}',
        managed=(),
    )
    assert (config.settings.permissions.default_mode, config.problems) == ("default", ())
