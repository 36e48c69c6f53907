"""What is known of the output of commands that only read: names of files, a revision, a number."""

import re
from collections.abc import Callable, Sequence
from itertools import pairwise

from tugline.rules.names import names
from tugline.rules.shell_words import Output, Word

HERE = Word(text=".", raw=".")
_PLAIN_REV = re.compile(r"(?:[A-Za-z][\w.-]*(?:/[\w.-]+)*|@)(?:[~^][0-9]*|@\{(?:u|upstream|[0-9]+)\})*\Z", re.ASCII)
_FILTERS = names("head tail sort uniq tac grep egrep fgrep")
_LS_FLAGS = re.compile(r"-[1aAtrSd]+\Z")


def output_of(pipeline: Sequence[Sequence[Word]]) -> Output | None:
    """What the last command of a pipeline prints, as far as it is known. All of them have to be known to only read."""
    if not pipeline or not pipeline[-1]:
        return None
    *before, last = pipeline
    name = last[0].text
    if name is None:
        return None
    texts = [word.text for word in last[1:]]
    if before and name in _FILTERS and _passes_lines(name, texts):
        return output_of(before)
    read = _OUTPUTS.get(name)
    return read(list(last[1:])) if read is not None and (not before or name == "wc") else None


def _passes_lines(name: str, texts: Sequence[str | None]) -> bool:
    """Whether it prints some of the lines that it gets, and nothing else."""
    known = [text for text in texts if text is not None]
    if len(known) != len(texts):
        return False
    if name in ("head", "tail"):
        return all(re.fullmatch(r"-n?\+?[0-9]+|-n|\+?[0-9]+", text) for text in known)
    if name in ("sort", "uniq", "tac"):
        return all(re.fullmatch(r"-[urnVfz]+", text) for text in known)
    options = [text for text in known if text.startswith("-")]
    return len(known) - len(options) == 1 and all(re.fullmatch(r"-[viEFwxP]+", text) for text in options)


def _find(words: list[Word]) -> Output | None:
    starts: list[Word] = []
    rest = list(words)
    while rest and rest[0].text in ("-H", "-P"):
        rest.pop(0)
    while rest and rest[0].text is not None and not re.match(r"[-(!]", rest[0].text):
        starts.append(rest.pop(0))
    texts = [word.text for word in rest]
    if None in texts[:1] or any(text in ("-printf", "-ls", "-follow", "-L") for text in texts):
        return None
    alternatives = any(text in ("-o", "-or", ",") for text in texts)
    pairs = list(pairwise(texts))
    files_only = ("-type", "f") in pairs and not alternatives and ("!", "-type") not in pairs
    return Output("listing", tuple(starts) or (HERE,), split=True, links=not files_only)


def _rg(words: list[Word]) -> Output | None:
    texts = [word.text for word in words]
    if not {"-l", "--files", "--files-with-matches"} & set(texts):
        return None
    # it names what lies below the folders that it was given, or below this one
    starts = tuple(word for word in words if word.text is not None and not word.text.startswith("-"))
    return Output("listing", (HERE, *starts[1:]), split=True)


def _grep(words: list[Word]) -> Output | None:
    texts = [word.text or "" for word in words]
    flags = "".join(text[1:] for text in texts if re.fullmatch(r"-[A-Za-z]+", text))
    if "c" in flags and not set(flags) & set("rRHlL") and sum(not text.startswith("-") for text in texts) <= 2:
        return Output("number")
    if not set("lL") & set(flags) and not {"--files-with-matches", "--files-without-match"} & set(texts):
        return None
    return Output("listing", (HERE,), split=True, links="r" not in flags)


def _ls(words: list[Word]) -> Output | None:
    texts = [word.text for word in words]
    if any(text is not None and text.startswith("-") and not _LS_FLAGS.match(text) for text in texts):
        return None
    if any(word.text is None and word.glob is None for word in words):
        return None
    return Output("listing", (HERE,), split=True, links=True)


def _wc(words: list[Word]) -> Output | None:
    return Output("number") if len(words) == 1 and words[0].text in ("-l", "-c", "-w", "-m") else None


def _date(words: list[Word]) -> Output | None:
    texts = [word.text or "-" for word in words if word.text not in ("-u", "--utc")]
    if texts == ["+%s"]:
        return Output("number")
    return Output("name") if len(texts) == 1 and re.fullmatch(r"\+[%\w][%\w:.-]*", texts[0]) else None


def _number(words: list[Word]) -> Output | None:
    return Output("number") if all(word.text in ("-u", "-g") for word in words) else None


def _name(words: list[Word]) -> Output | None:
    return Output("name") if all(re.fullmatch(r"-[a-z]", word.text or "") for word in words) else None


def _pwd(words: list[Word]) -> Output | None:
    return Output("here") if all(word.text == "-P" for word in words) else None


def _git(words: list[Word]) -> Output | None:
    texts = [word.text for word in words]
    while texts and texts[0] in ("--no-pager",):
        texts = texts[1:]
    if not texts or texts[0] is None:
        return None
    sub, rest = texts[0], texts[1:]
    if sub == "rev-parse" and rest == ["--show-toplevel"]:
        return Output("top")
    if sub == "ls-files" or (sub in ("diff", "diff-tree") and "--name-only" in rest):
        return Output("listing", (HERE,), split=True, links=True)
    if sub == "rev-list" and "--count" in rest:
        return Output("number")
    return Output("name") if _one_revision(sub, rest) else None


def _one_revision(sub: str, rest: Sequence[str | None]) -> bool:
    options = [text for text in rest if text is None or text.startswith("-")]
    revs = [text for text in rest if text is not None and not text.startswith("-")]
    if not all(_PLAIN_REV.match(rev) and ".." not in rev for rev in revs):
        return False
    fine = {
        "rev-parse": r"--short(=[0-9]+)?|--abbrev-ref|--verify|-q|--quiet",
        "merge-base": r"--fork-point|--octopus",
        "describe": r"--tags|--always|--long|--abbrev=[0-9]+|--all|--exact-match",
        "symbolic-ref": r"--short|-q",
        "branch": r"--show-current",
        "log": r"-1|-n1|--format=%[hH]|--pretty=format:%[hH]|--pretty=%[hH]",
        "rev-list": r"-1|-n1|--max-count=1",
    }.get(sub)
    if fine is None or not all(text is not None and re.fullmatch(fine, text) for text in options):
        return False
    if sub in ("log", "rev-list") and not (options and re.match(r"-1|-n1|--max", options[0] or "")):
        return False
    if sub == "log" and not any("format" in (text or "") or "pretty" in (text or "") for text in options):
        return False
    return bool(revs) or sub in ("branch", "describe", "log")


_OUTPUTS: dict[str, Callable[[list[Word]], Output | None]] = {
    "find": _find,
    "rg": _rg,
    "grep": _grep,
    "ls": _ls,
    "wc": _wc,
    "date": _date,
    "nproc": _number,
    "id": lambda words: _number(words) if words else None,
    "whoami": _name,
    "hostname": _name,
    "uname": _name,
    "pwd": _pwd,
    "git": _git,
}
