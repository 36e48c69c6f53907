"""Completion scripts."""

import re
import subprocess

import pytest

from tugline.cli.completion import _SESSIONS, _bash, _fish, _zsh
from tugline.cli.flags import FLAGS
from tugline.cli.help import SESSIONS


def complete(*words: str) -> set[str]:
    """What bash offers after these words."""
    script = _bash() + 'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tugline; printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", script, "bash", *words], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return set(done.stdout.split())


def test_bash_offers_flags_commands_and_choices() -> None:
    assert complete("tugline", "de") == {"demo"}
    assert {"--model", "--max-turns"} <= complete("tugline", "--m")
    assert complete("tugline", "--output-format", "") == {"text", "json", "stream-json"}
    assert complete("tugline", "config", "s") == {"show", "schema"}
    assert complete("tugline", "sessions", "s") == {"show", "search"}


@pytest.mark.parametrize("script", [_zsh(), _fish()])
def test_every_flag_is_known_to_the_other_shells(script: str) -> None:
    for flag in FLAGS:
        for name in flag.names:
            assert name in script or f"-l {name.lstrip('-')}" in script or f"-s {name.lstrip('-')}" in script


def test_the_shells_know_what_the_help_of_sessions_names() -> None:
    for word in set(re.findall(r"--[a-z-]+", SESSIONS)) | set(re.findall(r"^tugline sessions (\w+)", SESSIONS, re.M)):
        assert word in _SESSIONS.split(), word
    assert all(_SESSIONS in script for script in (_bash(), _zsh(), _fish()))
