"""How a judged command reaches the shell."""

_PIECE = 30_000
"""Characters of the command per argument: the system allows 128 kB in one."""

_TELL = r'{ %s set +ex; builtin printf "\0"; builtin pwd -P; } 2>/dev/null >&3'
_WRAPPER = (
    '{ exec 3>&"$TUGLINE_REPORT"; eval "exec $TUGLINE_REPORT>&-"; unset TUGLINE_REPORT; '
    f"trap '{_TELL % ''}' EXIT; "
    'eval "set --; @" 3>&-; '
    f"""{_TELL % 'set -- "$?";'}; """
    'builtin exit "$1"; }'
)
"""The judged text reaches the shell as data, in the place of `@`: nothing in it can change how what stands around it is
read, and it runs line by line, as a script would. All is one line, so that bash counts the lines as the model does. The
directory is told after a NUL, so that the last telling counts: the trap speaks for `exit` and `set -e`, the end of the
line for a command with a trap of its own."""


def shell_argv(command: str) -> list[str]:
    """What runs a command in a shell of its own, which tells its directory at its end."""
    pieces = [command[start : start + _PIECE] for start in range(0, len(command), _PIECE)]
    places = "".join(f"${{{number}}}" for number in range(1, len(pieces) + 1))
    return ["bash", "--noprofile", "--norc", "-c", _WRAPPER.replace("@", places), "bash", *pieces]
