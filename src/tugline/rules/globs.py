"""Globs as git and ripgrep read them: without a slash they match names at any depth, with one the whole path."""

import fnmatch
import posixpath
import re
from collections.abc import Callable, Sequence

from tugline.protocol.errors import ToolError

_EXPANDED = 256
_MAGIC = re.compile(r"[*?\[{\\]")


def matcher(globs: Sequence[str]) -> Callable[[str], bool]:
    """Whether a relative path matches one of the globs. Takes time linear in the path, whatever the glob."""
    tests = [_compiled(plain) for glob in globs for plain in expand_braces(glob)]
    return lambda path: any(test(path.split("/")) for test in tests)


def expand_braces(glob: str) -> list[str]:
    """`a.{b,c}` as `a.b` and `a.c`; braces may be nested."""
    done: list[str] = []
    todo = [glob]
    while todo:
        current = todo.pop()
        found = _braces(current)
        if found is None:
            done.append(current)
        else:
            start, end, choices = found
            todo += [current[:start] + choice + current[end:] for choice in reversed(choices)]
        if len(done) + len(todo) > _EXPANDED:
            raise ToolError(f"The glob {glob!r} has too many alternatives.")
    return done


def split_base(glob: str) -> tuple[str, str]:
    """The folders at the start that have no wildcard, and the rest."""
    steps = glob.split("/")
    count = 0
    while count < len(steps) - 1 and not _MAGIC.search(steps[count]):
        count += 1
    base = "/".join(steps[:count])
    return base or ("/" if glob.startswith("/") else ""), "/".join(steps[count:])


def search_base(glob: str, folder: str) -> str:
    """The folder that a search for the glob begins in, as given."""
    base = split_base(glob)[0]
    return base if base.split("/", 1)[0] == "~" else posixpath.join(folder, base)


def _braces(glob: str) -> tuple[int, int, list[str]] | None:
    """The first braces with a comma: where they begin and end, and what stands between the commas."""
    depth, start, last = 0, -1, 0
    choices: list[str] = []
    index = 0
    while index < len(glob):
        letter = glob[index]
        if letter == "\\":
            index += 1
        elif letter == "{":
            depth += 1
            if depth == 1:
                start, last, choices = index, index + 1, []
        elif letter == "," and depth == 1:
            choices.append(glob[last:index])
            last = index + 1
        elif letter == "}" and depth:
            depth -= 1
            if depth == 0:
                return start, index + 1, [*choices, glob[last:index]]
        index += 1
    return None


def _compiled(glob: str) -> Callable[[list[str]], bool]:
    anchored = "/" in glob.rstrip("/")
    steps = [step for step in glob.split("/") if step not in ("", ".")]
    if not steps:
        return lambda parts: False
    if not anchored:
        steps = ["**", *steps]
    tests = [None if step == "**" else _name_test(step) for step in steps]
    if tests[-1] is None:
        # `dir/**` is what lies in it, not the folder itself.
        tests.append(lambda name: True)
    if len(tests) == 2 and tests[0] is None and (only := tests[1]) is not None:
        return lambda parts: only(parts[-1])
    return lambda parts: _walk(tests, parts)


def _walk(tests: Sequence[Callable[[str], bool] | None], parts: list[str]) -> bool:
    states = _with_skips({0}, tests)
    for part in parts:
        after: set[int] = set()
        for state in states:
            if state == len(tests):
                continue
            test = tests[state]
            if test is None:
                after.add(state)
            elif test(part):
                after.add(state + 1)
        states = _with_skips(after, tests)
    return len(tests) in states


def _with_skips(states: set[int], tests: Sequence[Callable[[str], bool] | None]) -> set[int]:
    """`**` may also stand for no folder at all."""
    reached = set(states)
    for state in sorted(states):
        while state < len(tests) and tests[state] is None:
            state += 1
            reached.add(state)
    return reached


def _name_test(step: str) -> Callable[[str], bool]:
    # What a backslash protects becomes a class of one; `[^` is what `[!` is there.
    plain = re.sub(r"\\(.)", lambda found: f"[{found[1]}]" if found[1] in "*?[" else found[1], step)
    plain = re.sub(r"\*{2,}", "*", plain.replace("[^", "[!"))
    match = re.compile(fnmatch.translate(plain)).match
    return lambda name: match(name) is not None
