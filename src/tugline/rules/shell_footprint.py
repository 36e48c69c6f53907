"""What a shell command touches, for the scheduler: nothing, only reads, or changes."""

from tugline.rules.shell import analyse
from tugline.rules.shell_commands import reads
from tugline.rules.shell_options import Reads
from tugline.rules.shell_parts import Analysis
from tugline.rules.shell_wrappers import plain


def is_read_only(command: str) -> bool:
    """Whether the command certainly changes nothing, not even the folder that later calls start in."""
    return _all_reads(analyse(command)) is not None


def touches_nothing(command: str) -> bool:
    """Whether it does not even look at files: `sleep 5`, `echo done`."""
    found = _all_reads(analyse(command))
    return found is not None and all(not reading.operands and not reading.settled for reading in found)


def _all_reads(analysis: Analysis) -> list[Reads] | None:
    if analysis.opaque or analysis.shadow or analysis.moves:
        return None
    if any(redirect.edit and redirect.target.text != "/dev/null" for redirect in analysis.redirects):
        return None
    found: list[Reads] = []
    for member in analysis.members:
        argv = plain(member)
        if not member.words:
            continue
        reading = reads(argv, member.piped) if argv is not None else None
        if reading is None:
            return None
        found.append(reading)
    if analysis.redirects and not any(reading.operands for reading in found):
        found.append(Reads(settled=any(not redirect.edit for redirect in analysis.redirects)))
    return found
