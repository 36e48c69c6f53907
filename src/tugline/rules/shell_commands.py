"""Whether a simple command only reads, and what: by exact tables, an unknown option being the end of certainty."""

import re
from collections.abc import Sequence

from msgspec import Struct

from tugline.rules.names import names
from tugline.rules.shell_tables import (
    FIND_PATHS,
    FIND_PLAIN,
    FIND_VALUED,
    GIT,
    VERSIONED,
    Options,
    options_of,
)
from tugline.rules.shell_words import Word


class Operand(Struct, frozen=True):
    """A path that a command looks at. `content`: its contents, not only its name; `recursive`: and all below."""

    word: Word
    content: bool = True
    recursive: bool = False


class Reads(Struct, frozen=True):
    """What a command that only reads looks at. `home`: only where it starts, as what it obeys depends on the folder."""

    operands: tuple[Operand, ...] = ()
    settled: bool = False


HERE = Word(text=".", raw=".")
_NOTHING = Reads()
_IDENTIFIER = re.compile(r"[a-z_][a-z0-9_]*\Z")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?[smhd]?\Z")


def reads(words: Sequence[Word]) -> Reads | None:
    """What the command looks at, if it certainly does nothing else; else `None`."""
    if not words or words[0].text is None:
        return None
    name, rest = words[0].text, words[1:]
    if len(rest) == 1 and (
        (name in VERSIONED and rest[0].text == "--version") or name in _SHORT_VERSION.get(rest[0].text or "", ())
    ):
        return _NOTHING
    special = _SPECIAL.get(name)
    if special is not None:
        return special(rest)
    table = options_of(name)
    return None if table is None else _by_table(table, rest)


_SHORT_VERSION = {
    "-V": names("python python3 pip pip3 ssh tmux curl wget rg"),
    "-v": frozenset(["node", "npm", "php", "ruby", "perl", "bun"]),
    "-version": frozenset(["java", "javac"]),
}


def _asks_version(name: str, option: str) -> bool:
    return (name in VERSIONED and option == "--version") or name in _SHORT_VERSION.get(option, ())


class _Scan(Struct):
    """Options and operands of a command, taken apart."""

    operands: list[Word]
    paths: list[Word]
    flags: set[str]
    values: list[tuple[str, Word]]


def _by_table(table: Options, words: Sequence[Word]) -> Reads | None:
    scan = _scan(table, words)
    if scan is None:
        return None
    if table.operands == "none":
        return None if scan.operands else _NOTHING
    if table.operands == "text":
        return _NOTHING
    return _located(table, scan)


def _located(table: Options, scan: _Scan) -> Reads | None:
    operands = scan.operands
    if table.operands == "pattern" and not (scan.flags & (set(table.patterned) | table.patterned_long)):
        if not operands:
            return None
        if operands[0].text is None and not operands[0].single:
            return None
        operands = operands[1:]
    if 0 <= table.most < len(operands):
        return None
    recursive = table.recursive == "*" or bool(scan.flags & (set(table.recursive) | _long_recursive(table)))
    content = table.operands != "names"
    found = [Operand(word, content, recursive) for word in operands if word.text != "-" and not word.pipe]
    if not operands and (table.here or recursive):
        found.append(Operand(HERE, content, recursive))
    found.extend(Operand(word) for word in scan.paths if word.text != "-" and not word.pipe)
    return Reads(tuple(found))


def _long_recursive(table: Options) -> set[str]:
    return {"recursive"} if table.recursive else set()


def _scan(table: Options, words: Sequence[Word]) -> _Scan | None:
    """Options by the table; `None` as soon as one is not in it, or a word could turn out to be one."""
    scan = _Scan([], [], set(), [])
    i = 0
    while i < len(words):
        word = words[i]
        text = word.text
        i += 1
        if text is None:
            if not _surely_operand(table, word):
                return None
            scan.operands.append(word)
        elif text == "--":
            scan.operands.extend(words[i:])
            break
        elif text.startswith("--"):
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


def _surely_operand(table: Options, word: Word) -> bool:
    if word.pipe or (table.operands == "text" and table.flags == "" and not table.long):
        return True
    if word.glob is not None:
        return table.globs or not re.match(r"[*?\[-]", word.glob)
    # an expansion could be an option; where no option does harm that is nothing to fear
    return table.globs and word.single


def _short(table: Options, scan: _Scan, text: str, words: Sequence[Word], at: int) -> int | None:
    if table.numbers and re.fullmatch(r"-[0-9]+", text):
        return 0
    for position, letter in enumerate(text[1:], start=1):
        if letter in table.flags:
            scan.flags.add(letter)
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


def _long(table: Options, scan: _Scan, text: str, words: Sequence[Word], at: int) -> int | None:
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


def _take(scan: _Scan, name: str, value: Word, is_path: bool, taken: int) -> int | None:
    if value.text is None and not value.single:
        return None
    if is_path:
        scan.paths.append(value)
    else:
        scan.values.append((name, value))
    return taken


# -- commands that need more than a table -----------------------------------------------------------


def _echo(words: Sequence[Word]) -> Reads | None:
    return _NOTHING


def _printf(words: Sequence[Word]) -> Reads | None:
    if words and words[0].text == "--":
        words = words[1:]
    # `%n` stores into a variable that is named by text, and evaluates that
    format_ = words[0].text if words else None
    if format_ is None or format_.startswith("-") or re.search(r"%[^A-Za-z%]*n", format_):
        return None
    return _NOTHING


def _sleep(words: Sequence[Word]) -> Reads | None:
    return _NOTHING if words and all(_NUMBER.match(word.text or "") for word in words) else None


def _status(words: Sequence[Word]) -> Reads | None:
    return _NOTHING if len(words) <= 1 and all((word.text or "").isdigit() for word in words) else None


def _date(words: Sequence[Word]) -> Reads | None:
    table = options_of("date")
    scan = _scan(table, words) if table is not None else None
    if scan is None or any(not (word.text or "").startswith("+") for word in scan.operands):
        return None
    return _NOTHING


def _cd(words: Sequence[Word]) -> Reads | None:
    targets = [word for word in words if word.text != "--"]
    if len(targets) != 1 or targets[0].path is None or targets[0].path.startswith("-") or not targets[0].path:
        return None
    return Reads((Operand(targets[0], content=False),))


def _command(words: Sequence[Word]) -> Reads | None:
    if words and words[0].text in ("-v", "-V"):
        return _NOTHING if all(word.text is not None for word in words) else None
    return None


def _tested(words: Sequence[Word]) -> Reads | None:
    """`[` and `[[`: their form was checked when the command was taken apart."""
    return _NOTHING


_UNARY = names("-b -c -d -e -f -g -h -k -p -r -s -t -u -w -x -G -L -N -O -S -z -n")
_BINARY = names("= == != -eq -ne -lt -le -gt -ge -nt -ot -ef")


def _test(words: Sequence[Word]) -> Reads | None:
    rest = list(words)
    if rest and rest[0].text == "!":
        rest = rest[1:]
    if any(word.text is None and not word.single for word in rest):
        return None
    if len(rest) <= 1:
        return _NOTHING
    if len(rest) == 2:
        return _NOTHING if rest[0].text in _UNARY else None
    return _NOTHING if len(rest) == 3 and rest[1].text in _BINARY else None


def _read(words: Sequence[Word]) -> Reads | None:
    names = [word.text for word in words if word.text != "-r"]
    good = all(name is not None and _IDENTIFIER.match(name) and not name.endswith("_proxy") for name in names)
    return _NOTHING if good else None


def _set(words: Sequence[Word]) -> Reads | None:
    mild = re.compile(r"[-+][eu]+o?|pipefail|errexit|nounset|[-+]o")
    return _NOTHING if words and all(mild.fullmatch(word.text or "") for word in words) else None


def _ps(words: Sequence[Word]) -> Reads | None:
    fine = re.compile(r"-?(aux|ax|au|a|u|x|ef|e|f|A|aef|auxf|auxww|efww|faux)")
    # `e` without a dash shows the environment of processes
    good = all(fine.fullmatch(word.text or "") and word.text not in ("e", "ef", "efww", "aef") for word in words)
    return _NOTHING if good else None


def _find(words: Sequence[Word]) -> Reads | None:
    i = 0
    while i < len(words) and words[i].text in ("-H", "-P"):
        i += 1
    starts: list[Word] = []
    while i < len(words):
        text = words[i].text
        if text is None:
            glob = words[i].glob
            if glob is None or re.match(r"[*?\[(!-]", glob):
                return None
        elif text.startswith("-") or text in ("(", "!", ","):
            break
        starts.append(words[i])
        i += 1
    operands = [Operand(word, content=False) for word in starts or [HERE]]
    while i < len(words):
        text = words[i].text
        i += 1
        if text in FIND_PLAIN:
            continue
        if text is None or i >= len(words) or (words[i].text is None and not words[i].single):
            return None
        if text in FIND_PATHS:
            if not text.endswith("t") or text == "-newer":
                operands.append(Operand(words[i], content=False))
        elif text not in FIND_VALUED:
            return None
        i += 1
    return Reads(tuple(operands))


_ADDRESS = r"(?:[0-9]+|\$|/(?:[^/\\\n]|\\[^\n])*/)"
_SED = re.compile(
    rf"\s*(?:{_ADDRESS}(?:,[+~]?{_ADDRESS})?\s*)?!?(?:[pdqD=]|s(?P<d>[/|#,:])(?:(?!(?P=d))[^\\\n]|\\[^\n])*(?P=d)"
    rf"(?:(?!(?P=d))[^\\\n]|\\[^\n])*(?P=d)[gIip0-9]*)\s*\Z"
)


def _sed_script(script: str) -> bool:
    """A script of printing, deleting and plain replacing; nothing that writes files or runs commands."""
    # whether a delimiter counts inside brackets is read differently by different programs
    if re.search(r"\[[^\]]*[/|#,:]", script):
        return False
    # a ; inside a pattern cuts it into parts that do not fit, which errs on the safe side
    return all(_SED.match(part) for part in re.split(r"[;\n]", script) if part.strip()) and bool(script.strip())


def _sed(words: Sequence[Word]) -> Reads | None:
    scripts: list[str | None] = []
    operands: list[Word] = []
    i = 0
    while i < len(words):
        text = words[i].text
        i += 1
        if text is None:
            if words[i - 1].glob is None or re.match(r"[*?\[-]", words[i - 1].glob or ""):
                return None
            operands.append(words[i - 1])
        elif text in ("-e", "--expression") and i < len(words):
            scripts.append(words[i].text)
            i += 1
        elif re.fullmatch(r"-[nErsu]+|--quiet|--silent|--regexp-extended", text):
            continue
        elif text.startswith("-"):
            return None
        else:
            operands.append(words[i - 1])
    if not scripts:
        if not operands:
            return None
        scripts, operands = [operands[0].text], operands[1:]
    if not all(script is not None and _sed_script(script) for script in scripts):
        return None
    return Reads(tuple(Operand(word) for word in operands))


_AWK_BAD = re.compile(r"[|<@&`]|>|system|getline|ARGV|ARGC|ENVIRON|PROCINFO|SYMTAB|FUNCTAB|close|fflush|include|load")


def _awk(words: Sequence[Word]) -> Reads | None:
    i = 0
    while i < len(words) and (words[i].text or "").startswith("-"):
        text = words[i].text or ""
        if text == "-F":
            i += 2
        elif re.fullmatch(r"-F.+", text):
            i += 1
        else:
            return None
    if i >= len(words):
        return None
    program, operands = words[i].text, words[i + 1 :]
    if program is None or _AWK_BAD.search(program):
        return None
    if any(word.text is None or "=" in word.text or word.text.startswith("-") for word in operands):
        return None
    return Reads(tuple(Operand(word) for word in operands))


def _git(words: Sequence[Word]) -> Reads | None:
    rest = list(words)
    while rest and rest[0].text in ("--no-pager", "--no-optional-locks", "--literal-pathspecs"):
        rest = rest[1:]
    if not rest or rest[0].text is None:
        return None
    sub, rest = rest[0].text, rest[1:]
    listed = _git_listing(sub, rest)
    if listed is not None:
        return listed
    table = GIT.get(sub)
    if table is None or (sub == "reflog" and rest and rest[0].text in ("expire", "delete", "exists", "drop", "write")):
        return None
    if any(word.text is None and word.glob is None for word in rest):
        return None
    scan = _scan(table, rest)
    if scan is None or not _git_values(scan):
        return None
    if table.operands == "none":
        wants = scan.flags & {"l", "list", "contains", "no-contains", "merged", "no-merged", "points-at"}
        return None if scan.operands and not wants else Reads(settled=True)
    found = _located(table, scan)
    if found is None:
        return None
    # `rev:path` shows a file too
    more = [
        Operand(Word(text=word.text.partition(":")[2], raw=word.raw))
        for word in scan.operands
        if word.text is not None and word.text.partition(":")[2]
    ]
    recursive = sub in ("diff", "show", "log", "grep") and bool({"p", "patch", "u"} & scan.flags or sub != "log")
    operands = [Operand(op.word, op.content, op.recursive or recursive) for op in found.operands]
    return Reads((*operands, *more), settled=True)


def _git_values(scan: _Scan) -> bool:
    """Formats that ask for signatures start gpg; a value that is not known could be such a format."""
    return all(
        value.text is not None and not (name in ("format", "pretty") and "%G" in value.text)
        for name, value in scan.values
    ) and not any(word.text is not None and word.text.startswith("-") for word in scan.operands)


def _git_listing(sub: str, words: Sequence[Word]) -> Reads | None:
    texts = tuple(word.text for word in words)
    fine = Reads(settled=True)
    if sub == "remote":
        ok = texts in ((), ("-v",), ("--verbose",), ("show",)) or (
            len(texts) >= 2 and texts[0] == "get-url" and all(text is not None for text in texts)
        )
    elif sub == "stash":
        if texts[:1] == ("show",):
            ok = all(text is not None and re.fullmatch(r"-p|--stat|-u|stash@\{[0-9]+\}", text) for text in texts[1:])
        else:
            ok = texts == ("list",)
    elif sub == "worktree":
        ok = texts in (("list",), ("list", "--porcelain"))
    elif sub == "config":
        ok = (
            len(texts) == 2
            and texts[0] in ("--get", "get")
            and re.fullmatch(r"[A-Za-z0-9.-]+", texts[1] or "") is not None
        )
    elif (sub == "branch" and not texts) or (sub == "tag" and not texts):
        ok = True
    else:
        return None
    return fine if ok else None


_SPECIAL = {
    "echo": _echo,
    "printf": _printf,
    "sleep": _sleep,
    "exit": _status,
    "return": _status,
    "break": _status,
    "continue": _status,
    "date": _date,
    "cd": _cd,
    "command": _command,
    "[": _tested,
    "[[": _tested,
    "test": _test,
    "read": _read,
    "set": _set,
    "ps": _ps,
    "find": _find,
    "sed": _sed,
    "awk": _awk,
    "gawk": _awk,
    "mawk": _awk,
    "git": _git,
}
