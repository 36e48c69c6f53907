"""`--debug`: where the log is, and what is said of a defect."""

import os
import traceback
from collections.abc import Callable
from contextlib import suppress

from tugline.cli import streams
from tugline.config.folders import find_folders, make_private
from tugline.observe.debug_log import DebugLog
from tugline.rules.masking import mask, secrets_of
from tugline.rules.terminal import clean


def open_log(*, announce: bool = True) -> DebugLog:
    """The log of this process; `announce`: say on stderr where it is."""
    folders = find_folders(os.environ, os.path.expanduser("~"))
    folder = os.path.join(folders.data, "logs")
    with suppress(OSError):  # the log itself says what is wrong
        make_private(folder)
    log = DebugLog(os.path.join(folder, "debug.log"), secrets=secrets_of(os.environ))
    if announce:
        streams.complain(log.problem or f"debug log: {log.path}")
    return log


def defect_line(error: BaseException) -> str:
    """What a person is told of an error that should not have been."""
    text = " ".join(mask(str(error), secrets_of(os.environ)).split())[:300]
    return f"A defect in tugline: {type(error).__name__}: {clean(text)}".rstrip(": ") + "; run again with --debug."


def report_defect(
    error: BaseException, *, debug: bool, log: DebugLog | None, tell: Callable[[str], None] = streams.say
) -> None:
    """One line; the traceback with `--debug` only."""
    trace = clean(mask("".join(traceback.format_exception(error)), secrets_of(os.environ)))
    if log is not None:
        log.note(trace)
    tell(f"{trace if debug else ''}tugline: {defect_line(error)}\n")
