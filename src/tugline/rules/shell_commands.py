"""Whether a simple command only reads, and what: by exact tables, an unknown option being the end of certainty."""

import re
from collections.abc import Sequence

from msgspec import Struct

from tugline.rules import shell_awk, shell_sed
from tugline.rules.names import names
from tugline.rules.shell import harmless_env
from tugline.rules.shell_outputs import HERE
from tugline.rules.shell_tables import Options, asks_version, git_options, options_of, phrase_of, word_list
from tugline.rules.shell_values import plain_variable
from tugline.rules.shell_words import Output, Word


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


_NOTHING = Reads()
_IDENTIFIER = re.compile(r"[a-z_][a-z0-9_]*\Z")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?[smhd]?\Z")


def reads(words: Sequence[Word], piped: Output | None = None) -> Reads | None:
    """What the command looks at, if it certainly does nothing else; else `None`.

    `piped`: what is known of the lines that it gets through a pipe.
    """
    if not words or words[0].text is None:
        return None
    name, rest = words[0].text, words[1:]
    if name == "xargs":
        return _xargs(rest, piped)
    if len(rest) == 1 and rest[0].text is not None and asks_version(name, rest[0].text):
        return _NOTHING
    special = _SPECIAL.get(name)
    if special is not None:
        return special(rest)
    phrase = phrase_of(tuple(word.text for word in words[:3]))
    if phrase is not None:
        table, length = phrase
        return _checked_phrase(words, _by_table(table, words[length:]))
    table_of_name = options_of(name)
    return None if table_of_name is None else _by_table(table_of_name, rest)


_SECRET_KIND = re.compile(r"(?:\A|,)secrets?(?:[./,]|\Z)", re.IGNORECASE)


def _checked_phrase(words: Sequence[Word], found: Reads | None) -> Reads | None:
    texts = [word.text for word in words]
    if words[0].text == "kubectl" and any(text is None or _SECRET_KIND.search(text) for text in texts):
        return None
    if words[0].text in ("docker", "podman") and texts[1:2] == ["stats"] and "--no-stream" not in texts:
        return None
    if words[0].text == "go" and any(text is not None and re.match(r"-+(w|u)\b", text) for text in texts):
        return None
    return found


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
        return None if scan.operands else Reads(obeys=table.obeys)
    if table.operands == "text":
        return Reads(obeys=table.obeys)
    return _located(table, scan)


def _located(table: Options, scan: _Scan) -> Reads | None:
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


def _scan(table: Options, words: Sequence[Word]) -> _Scan | None:
    """Options by the table; `None` as soon as one is not in it, or a word could turn out to be one."""
    scan = _Scan([], [], set(), [])
    i = 0
    while i < len(words):
        word = words[i]
        text = word.text
        i += 1
        if text is None and word.glob is not None and _is_option_value(table, word.glob):
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


def _short(table: Options, scan: _Scan, text: str, words: Sequence[Word], at: int) -> int | None:
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


_XARGS_VALUED = re.compile(r"-[nPL]([0-9]*)|--(?:max-args|max-procs|max-lines)=[0-9]+")
_XARGS_PLAIN = frozenset(["-0", "--null", "-r", "--no-run-if-empty"])


def _xargs(words: Sequence[Word], piped: Output | None) -> Reads | None:
    """With a command that only reads whatever names of files it is given, and names that are known to be tame."""
    rest, replaced, null = list(words), "", False
    while rest and (rest[0].text or "").startswith("-"):
        text = rest.pop(0).text or ""
        valued = _XARGS_VALUED.fullmatch(text)
        if text in _XARGS_PLAIN or re.fullmatch(r"-[0r]+", text):
            null = null or "0" in text or text == "--null"
        elif valued and (valued[1] or "=" in text or (rest and (rest.pop(0).text or "").isdigit())):
            continue
        elif text in ("-I", "-I{}", "-i"):
            replaced = (rest.pop(0).text or "") if text == "-I" and rest else "{}"
            if not re.fullmatch(r"[{}@%A-Z_]+", replaced):
                return None
        elif text == "-d" and rest and rest[0].text == "\\n":
            rest.pop(0)
        else:
            return None
    listed = Word(text=None, raw="…", single=False, output=None if piped is None else _unsplit(piped, null))
    if not rest:
        return _NOTHING
    if rest[0].text in ("echo", "printf", "basename", "dirname") and not replaced:
        return reads([*rest, listed]) if rest[0].text != "printf" or len(rest) > 1 else None
    if replaced:
        inner = [listed if word.text == replaced else word for word in rest]
        if any(word.text is not None and replaced in word.text for word in inner):
            return reads(inner) if rest[0].text == "echo" else None
        return reads(inner) if inner[0].text not in (None, "xargs") else None
    return reads([*rest, listed]) if rest[0].text not in (None, "xargs") else None


def _unsplit(piped: Output, null: bool) -> Output:
    return Output(piped.kind, piped.starts, split=piped.split and not null, links=piped.links, rest=piped.rest)


def _tee(words: Sequence[Word]) -> Reads | None:
    return _NOTHING if all(word.text in ("/dev/null", "-a") for word in words) else None


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


def _jq(words: Sequence[Word]) -> Reads | None:
    rest: list[Word] = []
    i = 0
    while i < len(words):
        if words[i].text in ("--arg", "--argjson"):
            if i + 2 >= len(words) or any(not word.single for word in words[i + 1 : i + 3]):
                return None
            i += 3
            continue
        rest.append(words[i])
        i += 1
    table = options_of("jq")
    # the environment holds secrets; modules are files
    plain = [word.text or "" for word in rest if not (word.text or "-").startswith("-")]
    if table is None or not plain or _JQ_BAD.search(plain[0]):
        return None
    if next(word for word in rest if not (word.text or "").startswith("-")).text != plain[0]:
        return None
    return _by_table(table, rest)


_JQ_BAD = re.compile(r"(?<![.\w])env\b|\$ENV\b|\bimport\b|\binclude\b|\bget_search_list\b")


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
    variables = [word.text for word in words if word.text != "-r"]
    good = all(name is not None and _IDENTIFIER.match(name) and plain_variable(name) for name in variables)
    return _NOTHING if good else None


def _set(words: Sequence[Word]) -> Reads | None:
    mild = re.compile(r"[-+][eu]+o?|pipefail|errexit|nounset|[-+]o")
    return _NOTHING if words and all(mild.fullmatch(word.text or "") for word in words) else None


_PS = re.compile(r"-?(aux|ax|au|a|u|x|ef|e|f|A|aef|auxf|auxww|efww|faux|ww|w|H|T|L|j|l|h)|--sort=[-+%a-z,]+|--no-headers|--forest")
_PS_FIELDS = re.compile(r"(?:pid|ppid|pgid|sid|tid|user|uid|ruser|group|gid|comm|cmd|args|command|etime|etimes|time|stat|state"
                        r"|start|lstart|start_time|%cpu|%mem|pcpu|pmem|rss|vsz|sz|nice|ni|pri|tty|tt|wchan|psr|nlwp|c"
                        r"|ucmd|fname|=|,)+")  # fmt: skip
_PS_VALUED = frozenset(["-p", "-u", "-C", "-U", "-t", "--pid", "--ppid"])


def _ps(words: Sequence[Word]) -> Reads | None:
    i = 0
    while i < len(words):
        text = words[i].text or "?"
        i += 1
        # `e` without a dash shows the environment of processes
        if _PS.fullmatch(text) and text not in ("e", "ef", "efww", "aef"):
            continue
        fields = re.fullmatch(r"-?[eAax]*o(.*)", text)
        if fields:
            value = fields[1] or (words[i].text if i < len(words) else None) or ""
            i += not fields[1]
            if not _PS_FIELDS.fullmatch(value):
                return None
        elif text in _PS_VALUED and i < len(words) and words[i].single:
            i += 1
        elif not re.fullmatch(r"[0-9]+", text):
            return None
    return _NOTHING


def _top(words: Sequence[Word]) -> Reads | None:
    texts = " ".join(word.text or "?" for word in words)
    return _NOTHING if re.fullmatch(r"-b ?n ?1|-b -n ?1|-n ?1 -b", texts) else None


def _ulimit(words: Sequence[Word]) -> Reads | None:
    return _NOTHING if all(re.fullmatch(r"-[SH]?[a-zS]", word.text or "") for word in words) else None


def _export(words: Sequence[Word]) -> Reads | None:
    """`export NAME=value` of harmless variables."""
    pairs = [(word.text or "").partition("=") for word in words]
    fine = all(equals and harmless_env(name, Word(text=value, raw=value)) for name, equals, value in pairs)
    return _NOTHING if words and fine else None


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
    tests = [word.text for word in words[i:]]
    while i < len(words):
        text = words[i].text
        i += 1
        if text in word_list("find.txt", "plain"):
            continue
        if text == "-exec":
            inner, i = _executed(words, i, tests, tuple(starts) or (HERE,))
            if inner is None:
                return None
            operands.extend(inner.operands)
            continue
        if text is None or i >= len(words) or (words[i].text is None and not words[i].single):
            return None
        if text in word_list("find.txt", "paths"):
            operands.append(Operand(words[i], content=False))
        elif text not in word_list("find.txt", "valued") and text not in word_list("find.txt", "dates"):
            return None
        i += 1
    return Reads(tuple(operands))


def _executed(
    words: Sequence[Word], at: int, tests: Sequence[str | None], starts: tuple[Word, ...]
) -> tuple[Reads | None, int]:
    """What the command behind `-exec` looks at, and where the tests go on."""
    end = at
    while end < len(words) and words[end].text not in (";", "+"):
        end += 1
    links = not (("-type", "f") in zip(tests, tests[1:], strict=False) and not {"-o", "-or", ",", "!"} & set(tests))
    found = Word(text=None, raw="{}", output=Output("listing", starts, links=links))
    inner = [found if word.text == "{}" else word for word in words[at:end]]
    odd = end >= len(words) or any(word.text is not None and "{}" in word.text for word in inner)
    if odd or not inner or inner[0].text in (None, "find", "xargs", "cd", "git"):
        return None, end
    return reads(inner), end + 1


def _sed(words: Sequence[Word]) -> Reads | None:
    scripts: list[str | None] = []
    operands: list[Word] = []
    i = 0
    while i < len(words):
        word, text = words[i], words[i].text
        i += 1
        if text is None:
            if not _sure_path(word):
                return None
            operands.append(word)
        elif text == "--":
            operands.extend(words[i:])
            break
        elif re.fullmatch(r"-[nErsuz]*e", text) or text == "--expression":
            if i >= len(words):
                return None
            scripts.append(words[i].text)
            i += 1
        elif text.startswith("--expression="):
            scripts.append(text.partition("=")[2])
        elif re.fullmatch(
            r"-[nErsuz]+|--quiet|--silent|--regexp-extended|--separate|--null-data|--posix|--debug|--unbuffered", text
        ):
            continue
        elif text.startswith("-") and text != "-":
            return None
        else:
            operands.append(word)
    if not scripts:
        if not operands:
            return None
        scripts, operands = [operands[0].text], operands[1:]
    if None in scripts or not all(shell_sed.only_prints(script or "") for script in scripts):
        return None
    return Reads(tuple(Operand(word, undashed=True) for word in operands if word.text != "-" and not word.pipe))


def _sure_path(word: Word) -> bool:
    """Whether an operand that is not known is the name of a file, whatever it turns out to be."""
    return word.pipe or word.output is not None or (word.glob is not None and not word.glob.startswith("-"))


def _awk(words: Sequence[Word]) -> Reads | None:
    i = 0
    while i < len(words) and (words[i].raw.lstrip("\"'")[:1] == "-" or (words[i].text or "").startswith("-")):
        text = words[i].text or ""
        value = words[i + 1] if i + 1 < len(words) else None
        if text == "-F" and value is not None and (value.text is not None or value.single):
            i += 2
        elif text == "-v" and value is not None and value.single and re.match(r"[\"']?[A-Za-z_]\w*=", value.raw):
            i += 2
        elif re.fullmatch(r"-F.+|-v[a-z_]\w*=.*", text, re.DOTALL):
            i += 1
        elif text == "--":
            i += 1
            break
        else:
            return None
    if i >= len(words):
        return None
    program, operands = words[i].text, words[i + 1 :]
    if program is None or not shell_awk.only_prints(program):
        return None
    for word in operands:
        if word.text is None and not _sure_path(word):
            return None
        if word.text is not None and (re.match(r"[A-Z]\w*=", word.text) or re.match(r"-.", word.text)):
            return None
        if (word.text or word.glob or "") and re.match(r"[A-Za-z_]\w*=", word.glob or ""):
            return None
    files = [word for word in operands if word.text != "-" and not re.match(r"[a-z_]\w*=", word.text or "")]
    return Reads(tuple(Operand(word, undashed=True) for word in files if not word.pipe))


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
    table = git_options(sub)
    pair = git_options(f"{sub} {rest[0].text}") if rest else None
    if pair is not None:
        table, rest = pair, rest[1:]
    if table is None or (sub == "reflog" and rest and rest[0].text in ("expire", "delete", "exists", "drop", "write")):
        return None
    if any(word.text is None and word.glob is None and word.output is None for word in rest):
        return None
    scan = _scan(table, rest)
    if scan is None or not _git_values(scan):
        return None
    if table.operands == "text":
        return Reads(settled=True)
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
    operands = [Operand(op.word, op.content, op.recursive or recursive, undashed=True) for op in found.operands]
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
        ok = _git_config(texts)
    elif sub == "symbolic-ref":
        ok = texts in (("HEAD",), ("--short", "HEAD"), ("-q", "HEAD"), ("-q", "--short", "HEAD"))
    elif (sub == "branch" and not texts) or (sub == "tag" and not texts):
        ok = True
    else:
        return None
    return fine if ok else None


_CONFIG_SCOPE = frozenset(["--global", "--local", "--system", "--name-only", "--show-origin", "--show-scope", "-z"])
_CONFIG_GETS = frozenset(["--get", "--get-all", "--get-regexp", "get"])


def _git_config(texts: Sequence[str | None]) -> bool:
    """The forms that show: a list, or one name."""
    rest = [text for text in texts if text not in _CONFIG_SCOPE]
    if rest in (["--list"], ["-l"], ["list"]):
        return True
    gets = bool(rest) and rest[0] in _CONFIG_GETS
    names_left = rest[1:] if gets else rest
    return len(names_left) == 1 and re.fullmatch(r"[A-Za-z][A-Za-z0-9.^|*-]*", names_left[0] or "") is not None


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
    "top": _top,
    "ulimit": _ulimit,
    "export": _export,
    "jq": _jq,
    "tee": _tee,
    "find": _find,
    "sed": _sed,
    "awk": _awk,
    "gawk": _awk,
    "mawk": _awk,
    "git": _git,
}
