"""Whether a command of git only reads, and what."""

import re
from collections.abc import Sequence

from tugline.rules.shell_options import Operand, Reads, Scan, located, scan_words
from tugline.rules.shell_tables import git_options
from tugline.rules.shell_words import Word


def git_reads(words: Sequence[Word]) -> Reads | None:
    """What a command of git looks at, if it only reads."""
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
    if any(
        not (word.text or word.glob or word.output or word.head.startswith("--") or word.text == "") for word in rest
    ):
        return None
    scan = scan_words(table, rest)
    if scan is None or not _git_values(scan):
        return None
    if table.operands == "text":
        return Reads(settled=True)
    if table.operands == "none":
        wants = scan.flags & {"l", "list", "contains", "no-contains", "merged", "no-merged", "points-at"}
        return None if scan.operands and not wants else Reads(settled=True)
    found = located(table, scan)
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


def _git_values(scan: Scan) -> bool:
    """Formats that ask for signatures start gpg; a value that is not known could be such a format."""
    return all(
        name not in ("format", "pretty") or (value.text is not None and "%G" not in value.text)
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
    return len(names_left) == 1 and (
        re.fullmatch(r"[A-Za-z][A-Za-z0-9.-]*", names_left[0] or "") is not None
        or (rest[:1] == ["--get-regexp"] and not (names_left[0] or "-").startswith("-"))
    )
