"""Commands that destroy what cannot be brought back."""

import re
from collections.abc import Callable

from tugline.rules.names import names
from tugline.rules.paths import Place, Where, components, inside
from tugline.rules.shell_words import Word
from tugline.rules.shell_wrappers import Argv, base_name

Places = Callable[[str], list[Place | None]]

_DESTROYERS = names("mkfs fdisk parted sfdisk cfdisk sgdisk wipefs mkswap blkdiscard shutdown reboot halt poweroff")
_RECURSIVE = re.compile(r"-[A-Za-z]*[rR]|--recursive")


def _vital(place: Place, where: Where) -> str:
    """What of the person's a place holds wholly: the system, the home folder, the workspace."""
    for path in (place.name, place.target):
        if len(components(path)) <= 1:
            return "the root folder" if path == "/" else "a folder of the system"
        if where.home and inside(where.home, path):
            return "the home folder"
        if any(inside(folder, path) for folder in (where.cwd, *where.directories) if folder != "/"):
            return "the workspace"
    return ""


def _operands(argv: Argv) -> list[Word]:
    words = list(argv[1:])
    texts = [word.text for word in words]
    end = texts.index("--") if "--" in texts else len(words)
    return [w for i, w in enumerate(words) if i > end or (i < end and not (w.text or "").startswith("-"))]


def refused_removal(argv: Argv, where: Where, places: Places) -> str:
    """Why this `rm` is refused in every mode: the root, the home folder or the workspace would go."""
    if base_name(argv[0].text or "") not in ("rm", "grm"):
        return ""
    for word in _operands(argv):
        for path in (word.path, _emptied(word)):
            if not path:
                continue
            for place in places(path):
                what = _vital(place, where) if place is not None else ""
                if what and (path == word.path or what != "the workspace" or _parent(place, where)):
                    return f"it would remove {what}"
    return ""


def _parent(place: Place | None, where: Where) -> bool:
    """Whether a folder lies above the workspace, rather than being it."""
    return place is not None and place.name not in (where.cwd, *where.directories)


def _emptied(word: Word) -> str | None:
    """The folder whose contents go with `folder/*`."""
    if word.glob is None or not re.search(r"(\A|/)(\*|\.\*|\.\[!\.\]\*|\{\*,\.\*\})\Z", word.glob):
        return None
    parent = word.glob.rpartition("/")[0]
    if re.search(r"[*?\[]", parent):
        return None
    if not parent:
        return "/" if word.glob.startswith("/") else "."
    return parent


def catastrophe(argv: Argv, where: Where, places: Places) -> str:
    """Why this command is asked about in every mode; empty where it is none of those."""
    name = base_name(argv[0].text or "")
    if name in _DESTROYERS or name.startswith("mkfs."):
        return f"{name} can destroy what cannot be brought back"
    operands = _operands(argv)
    recursive = any(_RECURSIVE.match(word.text or "") for word in argv[1:])
    if name in ("rm", "grm", "unlink", "shred", "srm"):
        return _removal(operands, where, places, recursive=recursive)
    if name in ("mv", "rmdir") or (name in ("chmod", "chown", "chgrp") and recursive):
        targets = operands[:-1] if name == "mv" else operands
        return _on_vital(targets, where, places, f"{name} of")
    if name == "dd" and any((word.text or "of=?").startswith("of=/dev/") for word in operands):
        return "dd writes to a device"
    if name in ("find", "gfind"):
        return _find(argv, where, places)
    return ""


def _removal(operands: list[Word], where: Where, places: Places, *, recursive: bool) -> str:
    for word in operands:
        if word.text is None and word.glob is None:
            if recursive:
                return "what it removes is not known before it runs"
            continue
        path = word.path if word.text is not None else _emptied(word)
        if path is None:
            continue
        for place in places(path):
            if place is None and recursive:
                return "what it removes is not known before it runs"
            if place is not None and _vital(place, where):
                return f"it would remove {_vital(place, where)}"
    return ""


def _on_vital(words: list[Word], where: Where, places: Places, what: str) -> str:
    for word in words:
        path = word.path if word.text is not None else _emptied(word)
        for place in places(path) if path else []:
            if place is not None and _vital(place, where):
                return f"{what} {_vital(place, where)}"
    return ""


def _find(argv: Argv, where: Where, places: Places) -> str:
    texts = [word.text for word in argv]
    removing = "-delete" in texts or ("rm" in texts and any(t in ("-exec", "-execdir") for t in texts))
    if not removing or any(t in ("-name", "-iname", "-path", "-regex", "-wholename") for t in texts):
        return ""
    starts: list[Word] = []
    for word in argv[1:]:
        if word.text is not None and word.text.startswith(("-", "(", "!")):
            break
        starts.append(word)
    return _on_vital(starts or [Word(text=".", raw=".")], where, places, "find removes all of")
