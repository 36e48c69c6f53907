"""What a shell command is made of, once it is taken apart: simple commands, redirections, folders, variables."""

import re

from msgspec import Struct

from tugline.rules.names import names
from tugline.rules.shell_words import Output, Word

Folders = tuple[str, ...] | None
"""Where a command may run, relative to where the whole starts; `None`: anywhere."""


class Member(Struct, frozen=True):
    """One simple command: the variables set for it, its words, and the folders that it may run in.

    `inner`: it is text that another member hands to a shell; it counts for deny and ask rules only.
    """

    words: tuple[Word, ...]
    env: tuple[tuple[str, Word], ...] = ()
    folders: Folders = ("",)
    raw: str = ""
    inner: bool = False
    piped: Output | None = None
    """What is known of the lines that it gets through a pipe."""

    @property
    def name(self) -> str | None:
        """The first word, where it is known."""
        return self.words[0].text if self.words else ""


class Redirect(Struct, frozen=True):
    """A redirection to or from a file."""

    target: Word
    edit: bool
    folders: Folders


class Analysis(Struct, frozen=True):
    """What is known of a command. `opaque` and `shadow` say why it must be asked about; empty where it need not."""

    command: str
    members: tuple[Member, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    opaque: str = ""
    shadow: str = ""
    moves: bool = False
    """It changes the working directory that later calls start in."""
    texts: tuple[str, ...] = ()
    """What here-documents and here-strings hold."""
    assigned: tuple[str, ...] = ()
    """Known texts that variables get."""
    hidden: tuple[str, ...] = ()
    """Readings of a command that does not parse, for deny rules."""


SHADOW_NAMES = names(
    "PATH IFS ENV BASH_ENV PS4 PROMPT_COMMAND SHELLOPTS BASHOPTS CDPATH GLOBIGNORE EXECIGNORE FIGNORE HOME PWD "
    "OLDPWD POSIXLY_CORRECT BASH_CMDS BASH_ALIASES HISTFILE TMPDIR SHELL BASH_XTRACEFD BASH_LOADABLES_PATH"
)
HARMLESS_ENV = names(
    "LANG LC_ALL LC_COLLATE LC_CTYPE LC_MESSAGES LC_NUMERIC LC_TIME TZ TERM NO_COLOR FORCE_COLOR CLICOLOR COLUMNS "
    "LINES CI DEBUG NODE_ENV RAILS_ENV RACK_ENV FLASK_ENV APP_ENV GO111MODULE GOOS GOARCH CGO_ENABLED "
    "RUST_BACKTRACE RUST_LOG PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE PYTHONHASHSEED PYTHONIOENCODING PYTHONUTF8 "
    "DJANGO_DEBUG VERBOSE V"
)
"""Variables that, set to a plain word, change how a program speaks and not what it runs."""
_PLAIN_VALUE = re.compile(r"[A-Za-z0-9._@,=+-]*\Z")
_PAGERS = frozenset(["PAGER", "GIT_PAGER", "MANPAGER", "SYSTEMD_PAGER"])
_ZONE = re.compile(r"[A-Z][A-Za-z]*(?:/[A-Z][A-Za-z_]*){0,2}[+-]?[0-9]*\Z")


def harmless_env(name: str, value: Word) -> bool:
    """Whether setting this variable for a command leaves open what it runs."""
    if name in _PAGERS:
        return value.text in ("", "cat")
    if name == "TZ" and value.text is not None and _ZONE.match(value.text):
        return True
    return name in HARMLESS_ENV and value.text is not None and _PLAIN_VALUE.match(value.text) is not None


def enter(folders: Folders, target: str, *, logical: bool = False) -> Folders:
    """Where one is after going from one of the folders to the target. `logical`: as `cd` goes, back by name."""
    if target.startswith(("/", "~")):
        return (target,) if ".." not in target.split("/") else None
    if folders is None:
        return None
    found = [_onward(folder, target, logical=logical) for folder in folders]
    return tuple(dict.fromkeys(folder or "" for folder in found)) if None not in found else None


def _onward(folder: str, target: str, *, logical: bool) -> str | None:
    steps = [step for step in folder.split("/") if step]
    for step in target.split("/"):
        if step in ("", "."):
            continue
        # `..` behind a name depends on links: bash goes back by name, the system by target
        if step == ".." and steps and steps[-1] != "..":
            if not logical or folder.startswith(("/", "~")):
                return None
            steps.pop()
        else:
            steps.append(step)
    return ("/" if folder.startswith("/") else "") + "/".join(steps)
