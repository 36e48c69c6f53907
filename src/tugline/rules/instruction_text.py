"""What stands in a file of instructions: comments, imports, the head of a rule. Takes time linear in the text."""

import bisect
import re
from collections.abc import Iterator

from msgspec import Struct

IMPORTS_LIMIT = 100
"""Imports of one file that are looked at."""
_LONGEST = 1_000
_MENTION = re.compile(r"""(?:^|(?<=[\s(\[{,;:"'*_]))@(?:"([^"\n]+)"|((?:\\ |[^\s"])+))""")
_TRAILING = ".,;:!?)]}'\"*_"
_TICKS = re.compile(r"\\[\\`]|`+")
_BLANKS = re.compile(r"[ \t]*")
_KEY = re.compile(r"([A-Za-z_][\w-]*)[ \t]*:(?:[ \t]+(.*))?\Z")
_ITEM = re.compile(r"[ \t]*-[ \t]+(.*)\Z")


class Head(Struct, frozen=True):
    """What a rule says before its text: the globs of the files that it holds for. `problem`: why they cannot be
    read."""

    body: str
    globs: tuple[str, ...] = ()
    problem: str = ""


# -- comments


def without_comments(text: str) -> str:
    """The text less the HTML comments that begin a line. Those in fenced code stay, and one that is never closed."""
    if "<!--" not in text:
        return text
    lines = text.split("\n")
    kept: list[str] = []
    fence, closable, row = "", True, 0
    while row < len(lines):
        line = lines[row]
        if fence or _opening(line):
            fence = _after(line, fence)
        elif closable and (start := _indent(line)) <= 3 and line.startswith("<!--", start):
            end = _comment_end(lines, row, start)
            if end is None:
                closable = False
                continue
            row, column = end
            rest = lines[row][column:]
            if rest.strip():
                lines[row] = rest.lstrip()
            else:
                row += 1
            continue
        kept.append(line)
        row += 1
    return "\n".join(kept)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _comment_end(lines: list[str], row: int, column: int) -> tuple[int, int] | None:
    """Where the comments end that begin here, one directly behind the other."""
    end: tuple[int, int] | None = None
    while lines[row].startswith("<!--", column):
        found = lines[row].find("-->", column + 4)
        at = row
        while found < 0:
            at += 1
            if at == len(lines):
                return end
            found = lines[at].find("-->")
        row, column = end = at, found + 3
        blanks = _BLANKS.match(lines[row], column)
        column = blanks.end() if blanks else column
    return end


def _opening(line: str) -> str:
    """The marks that open fenced code in this line; empty if none does."""
    bare = line.lstrip(" \t>")
    for mark in ("`", "~"):
        if bare.startswith(mark * 3):
            count = len(bare) - len(bare.lstrip(mark))
            return "" if mark == "`" and "`" in bare[count:] else mark * count
    return ""


def _after(line: str, fence: str) -> str:
    """The fence that is open after this line."""
    if not fence:
        return _opening(line)
    bare = line.lstrip(" \t>").rstrip()
    return "" if bare and not bare.strip(fence[0]) and len(bare) >= len(fence) else fence


# -- imports


def find_imports(text: str) -> tuple[tuple[str, ...], ...]:
    """Each `@path` outside of code, once, as the paths that it may mean: as written, less the punctuation behind it,
    less what follows a `#`. Mail addresses are none."""
    found: dict[tuple[str, ...], None] = {}
    for paragraph in _paragraphs(text):
        if "@" not in paragraph:
            continue
        for match in _MENTION.finditer(_without_spans(paragraph)):
            quoted, plain = match.groups()
            readings = (quoted,) if quoted is not None else _readings(plain.replace("\\ ", " "))
            if readings and len(readings[0]) <= _LONGEST and "\0" not in readings[0]:
                found[readings] = None
                if len(found) == IMPORTS_LIMIT:
                    return tuple(found)
    return tuple(found)


def _readings(path: str) -> tuple[str, ...]:
    shorter = path.rstrip(_TRAILING)
    return tuple(dict.fromkeys(part for part in (path, shorter, shorter.partition("#")[0]) if part.strip("./~")))


def looks_like_path(text: str) -> bool:
    """Whether it is plainly meant as a file, so that its absence is worth a word; names of people and packages are
    written with an `@` too."""
    return text.startswith(("./", "../", "~/", "/")) or text.lower().endswith((".md", ".mdc", ".txt", ".rst"))


def _paragraphs(text: str) -> Iterator[str]:
    """What stands between blank lines and fenced code."""
    fence = ""
    lines: list[str] = []
    for line in text.split("\n"):
        inside = bool(fence)
        fence = _after(line, fence)
        if inside or fence or not line.strip():
            if lines:
                yield "\n".join(lines)
                lines = []
        else:
            lines.append(line)
    if lines:
        yield "\n".join(lines)


def _without_spans(paragraph: str) -> str:
    """The paragraph with its code spans blotted out."""
    runs = [match for match in _TICKS.finditer(paragraph) if match[0][0] == "`"]
    if len(runs) < 2:
        return paragraph
    by_length: dict[int, list[int]] = {}
    for number, run in enumerate(runs):
        by_length.setdefault(len(run[0]), []).append(number)
    parts: list[str] = []
    at = number = 0
    while number < len(runs):
        same = by_length[len(runs[number][0])]
        closing = bisect.bisect_right(same, number)
        if closing < len(same):
            parts += (paragraph[at : runs[number].start()], "`")
            number = same[closing]
            at = runs[number].end()
        number += 1
    return "".join(parts) + paragraph[at:]


# -- the head of a rule


def read_head(text: str) -> Head:
    """The globs in the front matter of a rule, and the text behind it. Globs may stand there without quotes, which
    YAML itself would not take."""
    first, _, rest = text.partition("\n")
    if first.rstrip() != "---":
        return Head(text)
    lines = rest.split("\n")
    end = next((n for n, line in enumerate(lines) if line.rstrip() in ("---", "...")), None)
    if end is None:
        return Head(text, problem="its front matter has no end (---)")
    body = "\n".join(lines[end + 1 :])
    for number, line in enumerate(lines[:end]):
        key = _KEY.match(line.rstrip())
        if key is not None and key[1] == "paths":
            return _globs((key[2] or "").strip(), lines[number + 1 : end], body)
    return Head(body)


def _globs(value: str, below: list[str], body: str) -> Head:
    if value.startswith("["):
        whole = " ".join((value, *(line.strip() for line in below)))
        inside, closed, _ = whole[1:].partition("]") if "[" not in whole[1:] else whole[1:].rpartition("]")
        if not closed:
            return Head(body, problem="the list of its paths is not closed")
        return Head(body, _split(inside))
    if value and not value.startswith("#"):
        if value[0] in "|>":
            return Head(body, problem="its paths are neither a list nor a text")
        return Head(body, _split(value))
    globs: list[str] = []
    for line in below:
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        item = _ITEM.match(line.rstrip())
        if item is None:
            break
        globs += _split(item[1])
    return Head(body, tuple(globs))


def _split(text: str) -> tuple[str, ...]:
    """Globs separated by commas, quoted or not; a comma in braces or quotes separates nothing."""
    globs: list[str] = []
    word, depth, quote = "", 0, ""
    for letter in text:
        if quote:
            if letter == quote:
                quote = ""
                continue
        elif letter in "\"'" and not word.strip():
            quote, word = letter, ""
            continue
        elif letter == "#" and word[-1:].isspace() and depth == 0:
            break
        elif letter == "," and depth == 0:
            globs.append(word)
            word = ""
            continue
        else:
            depth = max(0, depth + (letter == "{") - (letter == "}"))
        word += letter
    globs.append(word)
    return tuple(glob.strip() for glob in globs if glob.strip())
