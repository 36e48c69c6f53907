"""What a child process gets to see of the user's environment."""

import re
from collections.abc import Mapping, Sequence

_SECRET_WORD = re.compile(
    r"(?:KEY|KEYS|(?:API|AUTH|ACCESS|PRIVATE|SECRET|SIGNING)_?KEY|PASSPHRASE|PASSWD|.*PASSWORD|.*TOKEN|.*SECRETS?"
    r"|.*CREDENTIALS?.*)"
)
"""What a part of a name, between underscores, looks like where the value is nobody else's business."""

_SECRET_NAMES = frozenset(
    {
        "ANTHROPIC_CUSTOM_HEADERS",
        "AWS_BEARER_TOKEN_BEDROCK",
        "MYSQL_PWD",
        "OPENAI_CUSTOM_HEADERS",
        "REDISCLI_AUTH",
    }
)

_SHELL_TRAPS = frozenset(
    {
        "BASH_COMPAT",
        "BASH_ENV",
        "BASH_LOADABLES_PATH",
        "BASH_XTRACEFD",
        "BASHOPTS",
        "CDPATH",
        "ENV",
        "EXECIGNORE",
        "GLOBIGNORE",
        "IFS",
        "POSIXLY_CORRECT",
        "PROMPT_COMMAND",
        "PS4",
        "SHELLOPTS",
    }
)
"""Variables that change what a shell does with a command after it was judged."""

_ALWAYS = ("HOME", "LANG", "LC_*", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER")

_FIXED = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "PAGER": "cat",
    "TERM": "dumb",
}
"""Nobody sits at a terminal: no pager, no prompt, no colours."""


def child_environment(
    base: Mapping[str, str], *, only: Sequence[str] | None = None, keep: Sequence[str] = ()
) -> dict[str, str]:
    """The environment for commands that the model asks for: `base` less secrets and the shell's own traps.

    `only`: names that pass instead of all, beside the few that nothing works without; `*` at the end matches any
    rest. `keep`: names that pass although they look like secrets.
    """
    allowed = None if only is None else (*_ALWAYS, *only, *keep)
    result = {
        name: value
        for name, value in base.items()
        if not _is_trap(name)
        and (allowed is None or any(_matches(name, pattern) for pattern in allowed))
        and (name in keep or not is_secret_name(name))
    }
    result.update(_FIXED)
    return result


def without_traps(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables, less those that change what a shell does with a command after it was judged."""
    return {name: value for name, value in variables.items() if not _is_trap(name)}


def is_secret_name(name: str) -> bool:
    """Whether a variable of this name usually holds a secret."""
    upper = name.upper()
    return upper in _SECRET_NAMES or any(_SECRET_WORD.fullmatch(part) for part in upper.split("_"))


def _is_trap(name: str) -> bool:
    return name in _SHELL_TRAPS or name.startswith("BASH_FUNC_") or "=" in name or not name


def _matches(name: str, pattern: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
