"""The words of a sub-command: its flags by a small table, and the rest."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from msgspec import Struct

from tugline.protocol.errors import UsageError


class Given(Struct, frozen=True):
    """What stands behind a sub-command: plain words, switches that are on, values of flags."""

    words: tuple[str, ...]
    switches: frozenset[str]
    values: Mapping[str, str]

    def number(self, flag: str, default: int) -> int:
        """A flag's value as a whole number."""
        value = self.values.get(flag)
        if value is None:
            return default
        if not (value.isascii() and value.isdecimal() and len(value) <= 9):
            raise UsageError(f"{flag} must be a whole number, not {value[:60]!r}.")
        return int(value)


def read_given(command: str, argv: Sequence[str], flags: str = "", valued: str = "") -> Given:
    """Read the words behind `command`; `flags` are its switches, `valued` its flags with a value, each separated by
    blanks. What follows `--` is plain words. `UsageError` names what is wrong."""
    switches, takes = flags.split(), valued.split()
    words: list[str] = []
    on: set[str] = set()
    values: dict[str, str] = {}
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if word == "--":
            words += rest
            break
        if not word.startswith("-") or word == "-":
            words.append(word)
            continue
        name, equals, value = word.partition("=")
        if name in switches and not equals:
            on.add(name)
        elif name in takes:
            if not equals and (not rest or rest[0].startswith("--")):
                raise UsageError(f"{name} needs a value.")
            values[name] = value if equals else rest.pop(0)
        else:
            known = [*switches, *takes]
            near = get_close_matches(name, known, 1)
            hint = f" Did you mean {near[0]}?" if near else f" It takes: {', '.join(known)}." if known else ""
            raise UsageError(f"`tugline {command}` does not take {name[:60]}.{hint}")
    return Given(tuple(words), frozenset(on), values)
