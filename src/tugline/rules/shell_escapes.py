"""Options and scripts with which a program that a rule speaks of runs or writes something else."""

import re
from collections.abc import Iterator, Sequence

from tugline.rules import shell_awk, shell_sed
from tugline.rules.shell_tables import git_options, options_of, word_list_or_none, written_options
from tugline.rules.shell_words import Word


def escapes(name: str, argv: Sequence[Word]) -> bool:
    """Whether the command does more than a rule with `*` for its program was written for."""
    texts = [word.text or "" for word in argv[1:]]
    if any(True for _ in escaping_values(name, argv)):
        return True
    if name == "git":
        return _git(texts)
    if name in ("sed", "gsed"):
        return not all(map(shell_sed.only_prints, _scripts(texts, ("-e", "--expression"), ("-f", "--file"))))
    if name in ("awk", "gawk", "mawk", "nawk"):
        return not all(map(shell_awk.only_prints, _scripts(texts, (), ("-f", "--file", "-F", "-v"))))
    if name in ("ssh", "mosh"):
        return any(re.search(r"(?i)command|include", text) for text in texts if "=" in text)
    if options_of(name) is not None:
        written = written_options(name)
        return any(_is_option(text, option) for text in texts for option in written)
    return False


def _git(texts: Sequence[str]) -> bool:
    before = 0
    while before < len(texts) and texts[before].startswith("-"):
        if texts[before] == "-c" or texts[before].startswith(("-c", "--git-dir", "--work-tree")):
            return True
        before += 2 if texts[before] in ("-C", "--namespace") else 1
    sub = texts[before] if before < len(texts) else ""
    if any(text.startswith("ext::") for text in texts):
        return True
    if git_options(sub) is not None:
        return any(_is_option(text, "--output") for text in texts[before + 1 :])
    if sub == "config":
        return any(
            re.match(r"(?i)alias\.|core\.|.*command|.*\.(?:cmd|tool|helper|program|textconv)", text) for text in texts
        )
    return sub in ("filter-branch", "difftool", "mergetool") or (sub == "bisect" and "run" in texts) or (
        sub == "submodule" and "foreach" in texts
    )  # fmt: skip


def _scripts(texts: Sequence[str], by: Sequence[str], valued: Sequence[str]) -> Iterator[str]:
    """The scripts among the words; an empty one, which is not known to only print, for one from a file."""
    found = False
    plain: list[str] = []
    position = 0
    while position < len(texts):
        text = texts[position]
        position += 1
        if text in by or any(text.startswith(option + "=") for option in by):
            found = True
            yield text.partition("=")[2] if "=" in text and text not in by else "".join(texts[position : position + 1])
            position += text in by
        elif text in valued:
            if text in ("-f", "--file"):
                found = True
                yield ""
            position += 1
        elif text.startswith(("-f", "--file=")) and len(text) > 2:
            found = True
            yield ""
        elif not text.startswith("-"):
            plain.append(text)
    if not found:
        yield plain[0] if plain else ""


def escaping_values(name: str, argv: Sequence[Word]) -> Iterator[str]:
    """The values of options that run something; the program is run by it, so that these are commands."""
    options = word_list_or_none("escapes.txt", name)
    if options is None:
        return
    for position, word in enumerate(argv[1:], start=1):
        text = word.text or ""
        if not text.startswith("-") or text == "-":
            continue
        for option in options:
            if text == option:
                following = argv[position + 1].text if position + 1 < len(argv) else None
                yield following or ""
            elif _is_option(text, option):
                yield text.partition("=")[2] if "=" in text else text[len(option) :]


def _is_option(text: str, option: str) -> bool:
    """Whether a word is the option, with a value, shortened as GNU does, or among other letters."""
    if option.startswith("--"):
        name = text.partition("=")[0]
        return len(name) > 3 and name.startswith("--") and option.startswith(name)
    if len(option) > 2:
        return text == option or text.startswith(option + "=")
    return text.startswith(option) and not text.startswith("--")
