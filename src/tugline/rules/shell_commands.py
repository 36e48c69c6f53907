"""Whether a simple command only reads, and what: by exact tables, an unknown option being the end of certainty."""

import re
from collections.abc import Sequence
from itertools import pairwise

from tugline.rules import shell_awk, shell_sed
from tugline.rules.names import names
from tugline.rules.shell_git import git_reads
from tugline.rules.shell_options import NOTHING, Operand, Reads, by_table, scan_words
from tugline.rules.shell_outputs import HERE
from tugline.rules.shell_parts import harmless_env
from tugline.rules.shell_tables import asks_version, options_of, phrase_of, word_list
from tugline.rules.shell_values import plain_variable
from tugline.rules.shell_words import Output, Word

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
        return NOTHING
    special = _SPECIAL.get(name)
    if special is not None:
        return special(rest)
    phrase = phrase_of(tuple(word.text for word in words[:3]))
    if phrase is not None:
        table, length = phrase
        return _checked_phrase(words, by_table(table, words[length:]))
    table_of_name = options_of(name)
    return None if table_of_name is None else by_table(table_of_name, rest)


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


# -- commands that need more than a table -----------------------------------------------------------


def _echo(words: Sequence[Word]) -> Reads | None:
    return NOTHING


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
        return NOTHING
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
    return NOTHING if all(word.text in ("/dev/null", "-a") for word in words) else None


def _printf(words: Sequence[Word]) -> Reads | None:
    if words and words[0].text == "--":
        words = words[1:]
    # `%n` stores into a variable that is named by text, and evaluates that
    format_ = words[0].text if words else None
    if format_ is None or format_.startswith("-") or re.search(r"%[^A-Za-z%]*n", format_):
        return None
    return NOTHING


def _sleep(words: Sequence[Word]) -> Reads | None:
    return NOTHING if words and all(_NUMBER.match(word.text or "") for word in words) else None


def _status(words: Sequence[Word]) -> Reads | None:
    return NOTHING if len(words) <= 1 and all((word.text or "").isdigit() for word in words) else None


def _date(words: Sequence[Word]) -> Reads | None:
    table = options_of("date")
    scan = scan_words(table, words) if table is not None else None
    if scan is None or any(not (word.text or "").startswith("+") for word in scan.operands):
        return None
    return NOTHING


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
    return by_table(table, rest)


_JQ_BAD = re.compile(r"(?<![.\w])env\b|\$ENV\b|\bimport\b|\binclude\b|\bget_search_list\b")


def _command(words: Sequence[Word]) -> Reads | None:
    if words and words[0].text in ("-v", "-V"):
        return NOTHING if all(word.text is not None for word in words) else None
    return None


def _tested(words: Sequence[Word]) -> Reads | None:
    """`[` and `[[`: their form was checked when the command was taken apart."""
    return NOTHING


_UNARY = names("-b -c -d -e -f -g -h -k -p -r -s -t -u -w -x -G -L -N -O -S -z -n")
_BINARY = names("= == != -eq -ne -lt -le -gt -ge -nt -ot -ef")


def _test(words: Sequence[Word]) -> Reads | None:
    rest = list(words)
    if rest and rest[0].text == "!":
        rest = rest[1:]
    if any(word.text is None and not word.single for word in rest):
        return None
    if len(rest) <= 1:
        return NOTHING
    if len(rest) == 2:
        return NOTHING if rest[0].text in _UNARY else None
    return NOTHING if len(rest) == 3 and rest[1].text in _BINARY else None


def _read(words: Sequence[Word]) -> Reads | None:
    variables = [word.text for word in words if word.text != "-r"]
    good = all(name is not None and _IDENTIFIER.match(name) and plain_variable(name) for name in variables)
    return NOTHING if good else None


def _set(words: Sequence[Word]) -> Reads | None:
    mild = re.compile(r"[-+][eu]+o?|pipefail|errexit|nounset|[-+]o")
    return NOTHING if words and all(mild.fullmatch(word.text or "") for word in words) else None


_PS = re.compile(
    r"-?(aux|ax|au|a|u|x|ef|e|f|A|aef|auxf|auxww|efww|faux|ww|w|H|T|L|j|l|h)|--sort=[-+%a-z,]+|--no-headers|--forest"
)
_PS_FIELDS = re.compile(r"(?:pid|ppid|pgid|sid|tid|user|uid|ruser|group|gid|comm|cmd|args|command|etime|etimes"
                        r"|time|stat"
                        r"|state"
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
    return NOTHING


def _top(words: Sequence[Word]) -> Reads | None:
    texts = " ".join(word.text or "?" for word in words)
    return NOTHING if re.fullmatch(r"-b ?n ?1|-b -n ?1|-n ?1 -b", texts) else None


def _ulimit(words: Sequence[Word]) -> Reads | None:
    return NOTHING if all(re.fullmatch(r"-[SH]?[a-zS]", word.text or "") for word in words) else None


def _export(words: Sequence[Word]) -> Reads | None:
    """`export NAME=value` of harmless variables."""
    pairs = [(word.text or "").partition("=") for word in words]
    fine = all(equals and harmless_env(name, Word(text=value, raw=value)) for name, equals, value in pairs)
    return NOTHING if words and fine else None


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
    links = not (("-type", "f") in pairwise(tests) and not {"-o", "-or", ",", "!"} & set(tests))
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
        if (text == "-F" and value is not None and (value.text is not None or value.single)) or (
            text == "-v" and value is not None and value.single and re.match(r"[\"']?[A-Za-z_]\w*=", value.raw)
        ):
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
    "git": git_reads,
}
