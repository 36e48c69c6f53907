"""What words stand for beyond their text: braces, variables whose values are known, output of commands that list."""

import re
from collections.abc import Iterator, Sequence
from itertools import product

from tugline.rules.names import names
from tugline.rules.shell_words import Output, Word

CHOICE_LIMIT = 16
"""Values of one variable, and commands that one command with such variables stands for."""
_BRACE_WORD = re.compile(r"(?:[\w./@%+:=*?\[\]-]|\{[\w./@%+:=*?\[\]-]*(?:,[\w./@%+:=*?\[\]-]*)+\}){1,400}\Z", re.ASCII)
_BRACE = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"\{([0-9]{1,4})\.\.([0-9]{1,4})\}\Z")
_UNSPLIT = re.compile(r"[\w./@%+:,=-]+\Z", re.ASCII)
"""A value that is one word also where it stands without quotes."""
_GENERAL = names(
    "A ALL ARG ARGS B BASE BAR BEFORE AFTER BRANCH BUILD C CHANGED COMMIT COUNT CURRENT D DAYS DEST DIFF DIR DIRS E "
    "END "
    "EXT F FILE FILES FOO FOUND FROM HASH HEAD I ID IDS INPUT ITEM J K KEY L LAST LATEST LEN LENGTH LINE LINES LIST M "
    "MAIN MATCH MATCHES MAX MERGE MIN MODULE MSG N NAME NAMES NEW NOW NUM NUMBER OLD OUT OUTPUT P PACKAGE PATTERN PKG "
    "PROJECT Q R REF REPO RES RESULT REV ROOT S SHA SIZE SRC START STATUS SUM T TAG TARGET TEST TESTS TEXT TMP TODAY "
    "TO TOP TOTAL U URL V VAL VALUE VAR VERSION W WORD X Y Z"
)
_NAME = re.compile(r"[a-z_][a-z0-9_]*\Z")
_PROXIES = frozenset(["http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy"])

Values = dict[str, tuple[Word, ...]]
"""The values that a variable can have where a command stands; what is missing may have any."""


def plain_variable(name: str) -> bool:
    """Whether no program takes a variable of this name for an instruction, should it be exported."""
    if _NAME.match(name):
        return name not in _PROXIES and not name.startswith("npm_config")
    return all(part in _GENERAL or part.isdigit() for part in name.split("_"))


def spread(raw: str) -> tuple[Word, ...]:
    """The words that a plain brace expression makes; none where it is not that plain."""
    span = _RANGE.match(raw)
    if span:
        first, last = int(span[1]), int(span[2])
        if abs(last - first) > 64 or len(span[1]) != len(span[2]):
            return ()
        step = 1 if last >= first else -1
        return tuple(Word(text=str(n), raw=str(n)) for n in range(first, last + step, step))
    if "{" not in raw or not _BRACE_WORD.match(raw):
        return ()
    parts = _BRACE.split(raw)
    choices = [part.split(",") if position % 2 else [part] for position, part in enumerate(parts)]
    found = ["".join(made) for made in product(*choices)]
    if len(found) > 64:
        return ()
    # an empty word is none: braces come before quotes
    return tuple(_word(text) for text in found if text)


def _word(text: str) -> Word:
    if re.search(r"[*?\[]", text):
        return Word(text=None, raw=text, glob=text, single=False)
    return Word(text=text, raw=text)


def settle(word: Word, values: Sequence[Word]) -> Word:
    """The word with the values put in its hole: one word, or one of several; as it was where that is not known."""
    found: list[Word] = []
    for value in values:
        one = _put(word, value)
        if one is None:
            return word
        found.append(one)
    if not found:
        return word
    if len(found) == 1:
        return found[0]
    return Word(text=None, raw=word.raw, single=True, choices=tuple(found)) if len(found) <= CHOICE_LIMIT else word


def _put(word: Word, value: Word) -> Word | None:
    alone = not word.head and not word.tail
    if value.text is not None:
        if not word.single and not _UNSPLIT.match(value.text):
            return None
        if value.home and word.head:
            return None
        # a value that begins with ~ is no home folder unless its own word was
        return Word(text=word.head + value.text + word.tail, raw=word.raw, home=value.home)
    if alone and value.glob is not None and word.single:
        return Word(text=None, raw=word.raw, glob=value.glob, home=value.home, single=True)
    if value.output is None:
        return None
    return with_output(word, value.output)


def with_output(word: Word, output: Output) -> Word | None:
    """The word with the output of a command in its hole; `None` where nothing is known of what comes of that."""
    alone = not word.head and not word.tail
    kind = output.kind
    if kind in ("top", "here"):
        fits = not word.head and (not word.tail or word.tail.startswith("/"))
        return Word(text=None, raw=word.raw, output=Output(kind, rest=output.rest + word.tail)) if fits else None
    if alone:
        split = output.split or not word.single
        return Word(
            text=None,
            raw=word.raw,
            single=word.single or kind in ("name", "number"),
            output=Output(kind, output.starts, split=split, links=output.links),
        )
    if kind in ("name", "number") and not word.head.startswith("-") and "/" not in word.head + word.tail:
        return Word(text=None, raw=word.raw, single=True, output=Output("name"))
    return None


def variants(words: Sequence[Word]) -> Iterator[tuple[Word, ...]]:
    """The commands that one with words of several values stands for; itself where there are too many."""
    total = 1
    for word in words:
        total *= max(len(word.choices), 1)
    if total == 1 or total > CHOICE_LIMIT:
        yield tuple(words)
        return
    yield from product(*(word.choices or (word,) for word in words))
