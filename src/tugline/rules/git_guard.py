"""What makes git run nothing that a folder names in its own settings: while we look at it, and, in a folder that is not
trusted, in the commands of the model."""

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

_LOOKING: tuple[tuple[str, str], ...] = (
    ("core.fsmonitor", ""),
    ("core.hooksPath", "/dev/null"),
    ("core.pager", "cat"),
    ("core.sshCommand", "false"),
    ("diff.external", ""),
    ("protocol.allow", "never"),
    ("protocol.ext.allow", "never"),
)
_LOOKING_ENVIRONMENT = {"GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1"}
_WORKING: tuple[tuple[str, str], ...] = (("core.fsmonitor", ""), ("core.hooksPath", "/dev/null"))

LIMIT = 1_000
"""Settings that are looked at; a repository with more is left alone."""

_RUNS = re.compile(
    r"core\.(?:fsmonitor|hookspath|pager|sshcommand|gitproxy|editor|askpass|alternaterefscommand)"
    r"|filter\..*\.(?:clean|smudge|process|required)|diff\.external|diff\..*\.(?:textconv|command)|merge\..*\.driver"
    r"|credential\.(?:.*\.)?helper|gpg\.(?:.*\.)?program|gpg\.ssh\.defaultkeycommand|pager\..*|alias\..*"
    r"|interactive\.difffilter|sequence\.editor|trailer\..*\.(?:command|cmd)|uploadpack\.packobjectshook"
    r"|remote\..*\.(?:vcs|uploadpack|receivepack|proxy)|protocol\..*"
    r"|(?:difftool|mergetool|browser|man|guitool)\..*\.(?:cmd|path)|submodule\..*\.update|http\.(?:.*\.)?proxy",
    re.IGNORECASE | re.DOTALL,
)
"""Settings that run a program, or send what goes to one place to another."""


class GitSetting(Struct, frozen=True):
    """A setting as git lists it; `scope` is `system`, `global`, `local`, `worktree` or `command`."""

    scope: str
    name: str
    value: str


def read_settings(listed: str) -> list[GitSetting]:
    """What `git config --list --show-scope -z` says."""
    parts = listed.split("\0")
    found: list[GitSetting] = []
    for scope, entry in zip(parts[::2], parts[1::2], strict=False):
        name, _, value = entry.partition("\n")
        found.append(GitSetting(scope, name, value))
    return found


def looking(settings: Iterable[GitSetting] = ()) -> dict[str, str]:
    """The environment in which git starts nothing and reaches nothing at all."""
    blanked = [(name, _neutral(name)) for name in _running(settings)]
    fixed = {name.lower() for name, _ in _LOOKING}
    pairs = [*_LOOKING, *(pair for pair in blanked if pair[0].lower() not in fixed)]
    return {**_LOOKING_ENVIRONMENT, **_environment(pairs)}


def working(settings: Sequence[GitSetting] = ()) -> dict[str, str]:
    """The environment in which git starts what the user has set up, and nothing that the folder has."""
    users = {one.name: one.value for one in settings if one.scope in ("system", "global")}
    folders = [one for one in settings if one.scope not in ("system", "global")]
    fixed = {name.lower() for name, _ in _WORKING}
    pairs = [(name, users.get(name, _neutral(name))) for name in _running(folders) if name.lower() not in fixed]
    return _environment([*_WORKING, *pairs])


def _running(settings: Iterable[GitSetting]) -> list[str]:
    return list(dict.fromkeys(one.name for one in settings if _RUNS.fullmatch(one.name)))


_NEUTRAL = {
    "core.sshcommand": "ssh",
    "core.hookspath": "/dev/null",
    "core.pager": "cat",
    "core.alternaterefscommand": "true",
}
_NEUTRAL_ENDS = {
    ".required": "false",
    ".uploadpack": "git-upload-pack",
    ".receivepack": "git-receive-pack",
    ".update": "checkout",
    ".program": "gpg",
    ".allow": "user",
}


def _neutral(name: str) -> str:
    """What git does where nobody has set it; empty switches most of them off."""
    lower = name.lower()
    return _NEUTRAL.get(lower) or next((value for end, value in _NEUTRAL_ENDS.items() if lower.endswith(end)), "")


def _environment(pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    found = {"GIT_CONFIG_COUNT": str(len(pairs))}
    for number, (name, value) in enumerate(pairs):
        found[f"GIT_CONFIG_KEY_{number}"], found[f"GIT_CONFIG_VALUE_{number}"] = name, value
    return found
