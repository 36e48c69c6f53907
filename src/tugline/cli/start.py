"""Which frontend or sub-command a command line asks for."""

import os
import sys
from collections.abc import Sequence

from tugline.cli import streams
from tugline.cli.ansi import is_terminal
from tugline.cli.arguments import Arguments, as_text, read_arguments
from tugline.cli.flags import COMMANDS
from tugline.protocol.errors import SessionError, TuglineError, UsageError

NOT_INTERACTIVE = """\
tugline: the interactive app is not part of this version.
Ask one thing with `tugline -p "..."`, or see it work with `tugline demo`.
"""


def start(argv: Sequence[str], closed: frozenset[int]) -> int:
    """Do what the words ask for; the exit code. No error leaves this function."""
    debug = "--debug" in argv
    try:
        return _start(argv, closed)
    except UsageError as error:
        _tell(error)
        return 2
    except TuglineError as error:
        _tell(error)
        return 1
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # frontend top: a defect ends with one line
        return _defect(error, debug=debug)
    finally:
        _settle_stdout()


def _tell(error: TuglineError) -> None:
    """The error's lines, clean: names of files, sessions and settings may be anything."""
    from tugline.rules.terminal import clean  # noqa: PLC0415  imported here: start-up cost

    streams.complain(clean(str(error)))


def _start(argv: Sequence[str], closed: frozenset[int]) -> int:
    try:
        os.getcwd()
    except OSError:
        raise SessionError("The current folder is gone or cannot be read. Change to another one.") from None
    arguments = read_arguments(argv)
    if arguments.command:
        return _run_command(arguments.command, arguments.rest, closed)
    if arguments.version:
        from tugline.cli.version import version_line  # noqa: PLC0415  imported here: start-up cost

        return streams.put(version_line())
    if arguments.help:
        from tugline.cli.help import MAIN  # noqa: PLC0415  imported here: start-up cost

        return streams.put(MAIN)
    if not arguments.headless and is_terminal(0) and is_terminal(1) and arguments.output_format == "text":
        streams.say(_looks_like_command(arguments) or NOT_INTERACTIVE)
        return 2
    return _run_headless(arguments, closed)


def _run_headless(arguments: Arguments, closed: frozenset[int]) -> int:
    from tugline.cli.headless.command import run_headless  # noqa: PLC0415  imported here: start-up cost

    log = None
    if arguments.debug:
        from tugline.cli.debug import open_log  # noqa: PLC0415  imported here: start-up cost

        log = open_log()
    try:
        return run_headless(arguments, closed, log)
    finally:
        if log is not None:
            log.close()


def _run_command(name: str, rest: Sequence[str], closed: frozenset[int]) -> int:
    words = [as_text(word) for word in rest]
    match name:
        case "demo":
            from tugline.cli.demo.command import demo  # noqa: PLC0415  imported here: start-up cost

            return demo(words, closed)
        case "config":
            from tugline.cli.config import show_config  # noqa: PLC0415  imported here: start-up cost

            return show_config(words)
        case "doctor":
            from tugline.cli.doctor import doctor  # noqa: PLC0415  imported here: start-up cost

            return doctor(words)
        case "sessions":
            from tugline.cli.sessions.command import sessions  # noqa: PLC0415  imported here: start-up cost

            return sessions(words)
        case "trust":
            from tugline.cli.trust import trust  # noqa: PLC0415  imported here: start-up cost

            return trust(words)
        case "policy":
            from tugline.cli.policy.command import policy  # noqa: PLC0415  imported here: start-up cost

            return policy(words)
        case "model-server":
            from tugline.testing.server import main  # noqa: PLC0415  imported here: start-up cost

            return main(rest)
        case "completion":
            from tugline.cli.completion import completion  # noqa: PLC0415  imported here: start-up cost

            return completion(words)
        case _:
            from tugline.cli.help import MAIN  # noqa: PLC0415  imported here: start-up cost

            return streams.put(MAIN)


def _looks_like_command(arguments: Arguments) -> str:
    """A hint where a one-word prompt is almost a command."""
    from difflib import get_close_matches  # noqa: PLC0415  imported here: start-up cost

    prompt = arguments.prompt or ""
    near = get_close_matches(prompt, COMMANDS, 1, 0.7) if prompt and " " not in prompt else []
    return f"tugline: there is no command {prompt}. Did you mean {near[0]}?\n" if near else ""


def _defect(error: Exception, *, debug: bool) -> int:
    from tugline.cli.debug import open_log, report_defect  # noqa: PLC0415  imported here: start-up cost

    report_defect(error, debug=debug, log=open_log(announce=False) if debug else None)
    return 1


def _settle_stdout() -> None:
    """What `print` left in its buffer goes out now, so that a reader who is gone causes no words at the very end."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except (OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.close(null)
