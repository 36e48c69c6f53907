"""Options and operands of commands that only read, by their tables: an unknown option is the end of certainty."""

import re
from collections.abc import Sequence

from msgspec import Struct

from tugline.rules.names import names
from tugline.rules.shell_outputs import HERE
from tugline.rules.shell_tables import Options
from tugline.rules.shell_words import Word


class Operand(Struct, frozen=True):
    """A path that a command looks at. `content`: its contents, not only its name; `recursive`: and all below;
    `follows`: also behind links; `undashed`: no name that it turns out to be may begin with a dash."""

    word: Word
    content: bool = True
    recursive: bool = False
    follows: bool = False
    undashed: bool = False


class Reads(Struct, frozen=True):
    """What a command that only reads looks at.

    `settled`: it obeys the configuration of the repository that it runs in. `obeys`: files of the project that would
    choose what it runs.
    """

    operands: tuple[Operand, ...] = ()
    settled: bool = False
    obeys: tuple[str, ...] = ()


NOTHING = Reads()


class Scan(Struct):
    """Options and operands of a command, taken apart."""

    operands: list[Word]
    paths: list[Word]
    flags: set[str]
    values: list[tuple[str, Word]]


def by_table(table: Options, words: Sequence[Word]) -> Reads | None:
    """What a command of this table looks at with these words; `None` as soon as one is not known."""
    scan = scan_words(table, words)
    if scan is None:
        return None
    if table.operands == "none":
        return None if scan.operands else Reads(obeys=table.obeys)
    if table.operands == "text":
        return Reads(obeys=table.obeys)
    return located(table, scan)


def located(table: Options, scan: Scan) -> Reads | None:
    """The paths among what was taken apart."""
    operands = scan.operands
    if table.operands == "pattern" and not (scan.flags & table.patterned):
        if not operands:
            return None
        if operands[0].text is None and not operands[0].single:
            return None
        operands = operands[1:]
    if 0 <= table.most < len(operands):
        return None
    recursive = table.recursive == "*" or bool(scan.flags & (set(table.recursive) | _long_recursive(table)))
    content = table.operands != "names"
    follows, undashed = recursive and table.follows, not table.dashes
    found = [
        Operand(word, content, recursive, follows, undashed)
        for word in operands
        if word.text != "-" and not word.pipe and (word.output is None or word.output.kind != "number")
    ]
    if not operands and (table.here or recursive):
        found.append(Operand(HERE, content, recursive))
    found.extend(Operand(word) for word in scan.paths if word.text != "-" and not word.pipe)
    return Reads(tuple(found))


def _long_recursive(table: Options) -> set[str]:
    return {"recursive"} if table.recursive else set()


def scan_words(table: Options, words: Sequence[Word]) -> Scan | None:
    """Options by the table; `None` as soon as one is not in it, or a word could turn out to be one."""
    scan = Scan([], [], set(), [])
    i = 0
    while i < len(words):
        word = words[i]
        text = word.text
        i += 1
        if text is None and word.glob is not None and _is_option_value(table, word.glob):
            continue
        if text is None and word.single and re.match(r"--[a-z-]+=", word.head):
            name = word.head[2:].partition("=")[0]
            if name not in table.long_valued:
                return None
            scan.values.append((name, Word(text=None, raw=word.raw)))
            continue
        if text is None:
            if not _surely_operand(table, word):
                return None
            scan.operands.append(word)
        elif text == "--":
            scan.operands.extend(words[i:])
            break
        elif text.startswith("--") and len(text) > 2:
            taken = _long(table, scan, text, words, i)
            if taken is None:
                return None
            i += taken
        elif text.startswith("-") and text != "-" and not word.home:
            taken = _short(table, scan, text, words, i)
            if taken is None:
                return None
            i += taken
        else:
            scan.operands.append(word)
    return scan


_PATTERN_OPTIONS = names("include exclude exclude-dir glob iglob ignore hide")


def _is_option_value(table: Options, glob: str) -> bool:
    """`--include=*.py`: whatever names fit, it is that option with some value."""
    name, equals, _ = glob.partition("=")
    return bool(equals) and name[2:] in _PATTERN_OPTIONS and name[2:] in table.long_valued


def _surely_operand(table: Options, word: Word) -> bool:
    if word.pipe or (table.operands == "text" and table.flags == "" and not table.long):
        return True
    if word.glob is not None:
        if word.glob.startswith("-"):
            return False
        # whether a name with a dash turns up is looked at on the disk
        return table.dashes or table.operands in ("content", "names", "pattern") or not re.match(r"[*?\[-]", word.glob)
    if word.output is not None:
        return word.output.kind != "listing" or table.operands != "text" or table.dashes
    # an expansion could be an option; where no option does harm that is nothing to fear
    return table.dashes and (word.single or table.operands == "text")


def _short(table: Options, scan: Scan, text: str, words: Sequence[Word], at: int) -> int | None:
    if table.numbers and re.fullmatch(r"-[0-9]+", text):
        return 0
    for position, letter in enumerate(text[1:], start=1):
        if letter in table.flags:
            scan.flags.add(letter)
        elif letter in table.attached:
            scan.flags.add(letter)
            return 0
        elif letter in table.valued or letter in table.paths:
            scan.flags.add(letter)
            attached = text[position + 1 :]
            if attached:
                value, taken = Word(text=attached, raw=attached), 0
            elif at < len(words):
                value, taken = words[at], 1
            else:
                return None
            return _take(scan, letter, value, letter in table.paths, taken)
        else:
            return None
    return 0


def _long(table: Options, scan: Scan, text: str, words: Sequence[Word], at: int) -> int | None:
    name, equals, attached = text[2:].partition("=")
    name = _resolve(table, name) if table.abbreviates else name
    scan.flags.add(name)
    if equals:
        if name in table.long_optional or name in table.long_valued or name in table.long_paths:
            return _take(scan, name, Word(text=attached, raw=attached), name in table.long_paths, 0)
        return None
    if name in table.long or name in table.long_optional:
        return 0
    if name in table.long_valued or name in table.long_paths:
        return _take(scan, name, words[at], name in table.long_paths, 1) if at < len(words) else None
    return None


def _resolve(table: Options, name: str) -> str:
    every = table.long | table.long_optional | table.long_valued | table.long_paths
    if name in every or not name:
        return name
    fitting = [known for known in every if known.startswith(name)]
    return fitting[0] if len(fitting) == 1 else ""


def _take(scan: Scan, name: str, value: Word, is_path: bool, taken: int) -> int | None:
    if value.text is None and not value.single:
        return None
    if is_path:
        scan.paths.append(value)
    else:
        scan.values.append((name, value))
    return taken
