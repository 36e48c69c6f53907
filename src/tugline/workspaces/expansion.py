"""What the shell makes of a file name pattern."""

import glob
import os
from collections.abc import Sequence
from itertools import islice

LIMIT = 1_000
"""Names; what expands to more is not known beforehand."""


def expand(pattern: str, cwd: str) -> Sequence[str] | None:
    """The names that bash puts in the place of `pattern`, or `None` where that is not certain.

    Only `*` and `?` are looked at: brackets and escapes read differently in different shells.
    """
    if any(mark in pattern for mark in "[]\\{}\0") or not os.path.isabs(cwd):
        return None
    root = None if os.path.isabs(pattern) else cwd
    try:
        found = sorted(islice(glob.iglob(pattern, root_dir=root), LIMIT + 1))  # noqa: PTH207  names as they are
    except (OSError, ValueError, RecursionError):
        return None
    if len(found) > LIMIT:
        return None
    return found or [pattern]
