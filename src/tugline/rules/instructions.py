"""Instruction files: which names count, in which order, how much of them fits, and how the model is told."""

import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct, structs

from tugline.protocol.blocks import Text
from tugline.protocol.errors import ToolError
from tugline.protocol.instructions import Instruction, LoadedFile, Scope
from tugline.protocol.messages import Message, User
from tugline.rules.globs import matcher
from tugline.rules.paths import components, inside
from tugline.rules.tokens import CHARACTERS_PER_TOKEN
from tugline.rules.wording import escape, sound

HOPS = 4
"""How deep imports nest."""
RULES = (".tugline/rules", ".claude/rules")
"""The folders of rules in a folder of a project."""
CLAUDE = "CLAUDE.md"


UNTRUSTED = "it is imported, and this folder is not trusted (tugline trust)"


class LeftOut(Struct, frozen=True, omit_defaults=True):
    """A file of instructions that was not loaded, or (`cut`) not all of it. `silent`: nobody needs to be told."""

    path: str
    why: str
    parent: str = ""
    silent: bool = False
    cut: bool = False


class ScopedRule(Struct, frozen=True):
    """A rule that holds for some files: `globs`, seen from the folder `base`."""

    path: str
    scope: Scope
    globs: tuple[str, ...]
    base: str
    tokens: int


# -- where they are


def groups(names: Sequence[str], *, local: bool = True) -> tuple[tuple[str, ...], ...]:
    """The files of one folder of a project, in order; of each group the first that exists counts."""
    shared: list[tuple[str, ...]] = []
    for name in names:
        shared += [(_variant(name, "override"), name), (f"{'.claude' if name == CLAUDE else '.tugline'}/{name}",)]
    return (*shared, *((_variant(name, "local"),) for name in names if local))


def own_groups(names: Sequence[str], *, claude: bool) -> tuple[tuple[str, ...], ...]:
    """The same for a folder of the person's or the machine's: Claude Code's has its own name, ours all others."""
    return tuple((_variant(name, "override"), name) for name in names if (name == CLAUDE) == claude)


def _variant(name: str, word: str) -> str:
    stem, ending = posixpath.splitext(name)
    return f"{stem}.{word}{ending}"


def chain(root: str, folder: str) -> tuple[str, ...]:
    """The folders from `root` down to `folder`, both included; none where it does not lie in it."""
    if not inside(folder, root):
        return ()
    start, rest = components(root), components(folder)
    return tuple("/" + "/".join(rest[:count]) for count in range(len(start), len(rest) + 1))


def innermost(path: str, roots: Iterable[str]) -> str:
    """The deepest of the roots that the path lies in; empty if it lies in none."""
    return max((root for root in roots if inside(path, root)), key=lambda root: len(components(root)), default="")


@lru_cache(maxsize=512)
def file_matcher(globs: tuple[str, ...]) -> Callable[[str], bool]:
    """Whether a path below the rule's base is one that the globs name, as in git's ignore files. Raises `ValueError`
    for globs that cannot be read."""
    wanted: list[str] = []
    for glob in globs:
        if glob.startswith("!"):
            raise ValueError(f"{glob!r} excludes, which paths cannot")
        plain = glob.removeprefix("./").rstrip("/")
        wanted += [plain] if plain.endswith("**") else [plain, f"{plain}/**"]
    try:
        return matcher(wanted)
    except (ToolError, re.error) as error:
        raise ValueError(str(error)) from None


def holds(rule: ScopedRule, paths: Iterable[str]) -> bool:
    """Whether the rule holds for one of the files."""
    if not rule.base:
        return False
    test = file_matcher(rule.globs)
    return any(
        inside(path, rule.base) and path != rule.base and test(path[len(rule.base.rstrip("/")) + 1 :]) for path in paths
    )


# -- how much of them


def size(text: str) -> int:
    """An estimate of its tokens."""
    return -int(-len(text) // CHARACTERS_PER_TOKEN)


def fit(
    found: Sequence[Sequence[Instruction]], *, each: int, total: int
) -> tuple[tuple[Instruction, ...], tuple[LeftOut, ...]]:
    """What of the files is loaded, in their order, and what is left out. A unit is a file with its imports, the
    farthest unit first. The machine's owner comes first, then the nearest; a file that is too long is cut."""
    left = total
    kept: dict[tuple[int, int], Instruction] = {}
    out: dict[tuple[int, int], LeftOut] = {}
    order = sorted(range(len(found)), key=lambda n: (not found[n] or found[n][0].file.scope != "managed", -n))
    for unit in order:
        for place, one in enumerate(found[unit]):
            room = min(each, left)
            fitting = one if one.file.tokens <= room else _cut(one, room) if room >= min(each, total) else None
            if fitting is None:
                why = f"it has {one.file.tokens:,} tokens, and of {total:,} for all instructions {left:,} are left"
                out[unit, place] = LeftOut(one.file.path, why, one.file.parent)
                continue
            kept[unit, place] = fitting
            left -= fitting.file.tokens
            if fitting.file.cut:
                why = f"it has {one.file.tokens:,} tokens, of which the first {fitting.file.tokens:,} are loaded"
                out[unit, place] = LeftOut(one.file.path, why, one.file.parent, cut=True)
    return tuple(kept[key] for key in sorted(kept)), tuple(out[key] for key in sorted(out))


def _cut(one: Instruction, tokens: int) -> Instruction | None:
    """The beginning of it, whole lines if they are short enough, with a word about the rest."""
    rest = f"\n[The rest of this file is left out: it is too long. It can be read in {escape(one.file.path)}.]"
    room = int(tokens * CHARACTERS_PER_TOKEN) - len(rest)
    if room <= 0:
        return None
    head = one.text[:room]
    line = head.rfind("\n")
    text = (head[:line] if line > room // 2 else head) + rest
    return Instruction(structs.replace(one.file, tokens=size(text), cut=True), text)


# -- how the model is told

_OPENING = """\
Instructions from files of the person and of the project that you work on. Keep to them where they apply to the task. \
What the person says in the conversation counts more; where two files contradict each other, the later one counts."""
_TOUCHED = "Further instructions, which hold for what you have just touched:"
_CHANGED = "Files of instructions have changed since you were told of them. They now say:"
_GONE = "gone"
_TAG = re.compile(r'<instruction-file path="([^"]*)" from="([^"]*)">\n(.*?)\n</instruction-file>', re.DOTALL)


def opening(loaded: Sequence[Instruction]) -> str:
    """What is said at the start of a conversation."""
    return _said(_OPENING, loaded)


def touched(loaded: Sequence[Instruction]) -> str:
    """What is said when a call has touched what they hold for."""
    return _said(_TOUCHED, loaded)


def _said(words: str, loaded: Sequence[Instruction], gone: Sequence[str] = ()) -> str:
    files = [_tagged(one.file.path, _origin(one.file), one.text) for one in loaded]
    files += [_tagged(path, _GONE, "The file is no longer there; what it said no longer holds.") for path in gone]
    return "\n\n".join((words, *files))


def _tagged(path: str, origin: str, text: str) -> str:
    """No text can end its own tag, or look like another: the tag's name is reserved."""
    return f'<instruction-file path="{_quoted(path)}" from="{_quoted(origin)}">\n{escape(text)}\n</instruction-file>'


_QUOTES = (("&", "&amp;"), ('"', "&quot;"), ("<", "&lt;"), (">", "&gt;"), ("\n", "&#10;"), ("\r", "&#13;"))


def _quoted(text: str) -> str:
    text = sound(text)
    for plain, quoted in _QUOTES:
        text = text.replace(plain, quoted)
    return text


def _unquoted(text: str) -> str:
    for plain, quoted in reversed(_QUOTES):
        text = text.replace(quoted, plain)
    return text


def _origin(file: LoadedFile) -> str:
    whose = {"managed": "the owner of this machine", "user": "the person", "project": "the project"}[file.scope]
    if file.why == "import":
        return f"{whose}, imported by {file.parent}"
    if file.globs:
        return f"{whose}, for {', '.join(file.globs)}"
    return whose


def told_in(messages: Iterable[Message]) -> dict[str, str]:
    """The files that a conversation tells of, with the words of the latest telling. Only the engine's own messages
    count, and no text in them can pass for a file: so a conversation itself says what it was told."""
    told: dict[str, str] = {}
    for message in messages:
        if isinstance(message, User) and message.source == "context":
            for block in message.content:
                if isinstance(block, Text):
                    for path, origin, text in _TAG.findall(block.text):
                        told.pop(_unquoted(path), None)
                        if origin != _GONE:
                            told[_unquoted(path)] = text
    return told


def key(path: str) -> str:
    """The path as it can stand in a conversation, by which it is known there."""
    return sound(path)


def untold(found: Sequence[Instruction], told: Collection[str]) -> tuple[Instruction, ...]:
    """Those that the conversation does not tell of."""
    return tuple(one for one in found if key(one.file.path) not in told)


class Difference(Struct, frozen=True):
    """What the files say now beside what a conversation was told: `changed` are other ones or new."""

    changed: tuple[Instruction, ...] = ()
    gone: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.changed or self.gone)


def compare(told: Mapping[str, str], now: Sequence[Instruction], *, there: Callable[[str], bool]) -> Difference:
    """What has changed. A file that loads on demand is not among those of `now`; it is gone if it is not `there`."""
    changed = tuple(one for one in now if told.get(key(one.file.path)) != escape(one.text))
    loaded = {key(one.file.path) for one in now}
    return Difference(changed, tuple(path for path in told if path not in loaded and not there(path)))


def changes(difference: Difference) -> str:
    """What is said when a conversation goes on and files have changed meanwhile."""
    return _said(_CHANGED, difference.changed, difference.gone)


def notices(left_out: Iterable[LeftOut]) -> tuple[str, ...]:
    """Lines for the person; one for all imports of a folder that is not trusted."""
    lines: dict[str, None] = {}
    untrusted = [one for one in left_out if one.why == UNTRUSTED]
    for one in left_out:
        if one.silent or one.why == UNTRUSTED:
            continue
        parent = f", imported by {one.parent}," if one.parent else ""
        lines[f"Instructions: {one.path}{parent} is {'cut' if one.cut else 'left out'}: {one.why}."] = None
    if untrusted:
        imports = "1 import" if len(untrusted) == 1 else f"{len(untrusted)} imports"
        lines[
            f"This folder is not trusted: {imports} of its instructions, such as {untrusted[0].path}, "
            f"{'is' if len(untrusted) == 1 else 'are'} left out. To trust it: tugline trust"
        ] = None
    return tuple(lines)
