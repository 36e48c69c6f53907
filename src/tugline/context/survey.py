"""What a person sees of the instruction files: what loads at the start, what loads later, what is left out and why."""

from msgspec import Struct

from tugline.context.gathering import Disk, Scheme, folders_below, gather, gather_folders
from tugline.protocol.instructions import LoadedFile
from tugline.rules.instructions import LeftOut, ScopedRule


class Survey(Struct, frozen=True):
    """All instruction files of a project. `later` load when something beside or below them is touched, `rules` when
    one of their files is."""

    loaded: tuple[LoadedFile, ...]
    later: tuple[LoadedFile, ...]
    rules: tuple[ScopedRule, ...]
    left_out: tuple[LeftOut, ...]
    tokens: int
    limit: int


def survey(disk: Disk, scheme: Scheme) -> Survey:
    """Look at everything."""
    start = gather(disk, scheme)
    later: list[LoadedFile] = []
    known = set(start.targets)
    rules, left_out = list(start.rules), list(start.left_out)
    for folder in folders_below(disk, scheme) if scheme.project else ():
        found = gather_folders(disk, scheme, [folder], known)
        known |= found.targets
        later += [one.file for one in found.loaded]
        rules += found.rules
        left_out += found.left_out
    loaded = tuple(one.file for one in start.loaded)
    # folders such as .claude are met twice: as a part of the folder above, and by themselves
    taken = {one.path for one in (*loaded, *later)}
    left_out = [one for one in left_out if not (one.silent and not one.parent and one.path in taken)]
    tokens = sum(one.tokens for one in loaded)
    return Survey(loaded, tuple(later), tuple(rules), tuple(left_out), tokens, scheme.total_tokens)
