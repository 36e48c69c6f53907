"""What the shell makes of a file name pattern, and of the names in a folder."""

import glob
import os
import re
from collections.abc import Sequence
from itertools import islice

LIMIT = 1_000
"""Names; what expands to more is not known beforehand."""
_ODD_NAME = re.compile(r"\A-|[\s'\"\\\x00-\x1f]")


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


SURVEYED = 4_000
"""Entries of a folder that are looked at; what is bigger is not known."""


def survey(folder: str) -> bool | None:
    """Whether all names below are plain (no blanks, quotes, backslashes, dashes in front), and no link leads out.

    `None` where there is more than can be looked at in a moment. What git keeps for itself is left out.
    """
    seen = 0
    pending = [folder]
    inside = folder.rstrip("/") + "/"
    while pending:
        current = pending.pop()
        try:
            with os.scandir(current) as entries:
                for entry in entries:
                    seen += 1
                    if seen > SURVEYED:
                        return None
                    if _ODD_NAME.search(entry.name):
                        return False
                    if entry.is_symlink():
                        if not os.path.realpath(entry.path).startswith(inside):
                            return False
                    elif entry.is_dir() and entry.name != ".git":
                        pending.append(entry.path)
        except NotADirectoryError:
            continue
        except FileNotFoundError:
            continue
        except (OSError, ValueError):
            return None
    return True
