"""Completion scripts."""

import subprocess

import pytest

from tugline.cli.completion import _bash, _fish, _zsh
from tugline.cli.flags import FLAGS


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


@pytest.mark.parametrize("script", [_zsh(), _fish()])
def test_every_flag_is_known_to_the_other_shells(script: str) -> None:
    for flag in FLAGS:
        for name in flag.names:
            assert name in script or f"-l {name.lstrip('-')}" in script or f"-s {name.lstrip('-')}" in script
