"""What a child process gets to see of the user's environment."""

from collections.abc import Mapping, Sequence


def child_environment(base: Mapping[str, str], *, only: Sequence[str] | None = None) -> dict[str, str]:
    """The environment for commands the model asks for: `base` less secrets and the shell's own traps.

    `only`: names (with `*` at the end as a wildcard) that pass instead of all.
    """
    raise NotImplementedError
