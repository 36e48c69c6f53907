"""Long output for a person: through a pager on a terminal, straight to stdout else."""

import os
from collections.abc import Iterable, Mapping

from tugline.cli import streams
from tugline.cli.ansi import is_terminal


def pager(environ: Mapping[str, str]) -> list[str]:
    """The program that shows pages; empty where none is wanted or stdout is no terminal."""
    if not is_terminal(1) or not is_terminal(0) or environ.get("TERM") == "dumb":
        return []
    import shlex  # noqa: PLC0415  imported here: start-up cost

    try:
        words = shlex.split(environ.get("PAGER", "less"))
    except ValueError:
        return []
    return [] if words[:1] in ([], ["cat"]) else words


def shows_colours(words: list[str]) -> bool:
    """Whether colours come through: of other pagers than less that is not known."""
    return not words or os.path.basename(words[0]) == "less"


def put_pages(pieces: Iterable[str], words: list[str]) -> int:
    """Write the pieces as they come; the exit code. Whoever stops reading ends it."""
    if words:
        import subprocess  # noqa: PLC0415  imported here: start-up cost

        environ = {"LESS": "FRX", **os.environ}
        try:
            process = subprocess.Popen(words, stdin=subprocess.PIPE, env=environ)
        except OSError:
            return _put(pieces)
        assert process.stdin is not None
        try:
            for piece in pieces:
                process.stdin.write(piece.encode("utf-8", "backslashreplace"))
            process.stdin.close()
        except (BrokenPipeError, KeyboardInterrupt):
            pass  # it was left before its end
        finally:
            while True:
                try:
                    process.wait()
                    break
                except KeyboardInterrupt:  # it is the pager's: it searches, or stops what it does
                    continue
        return 0
    return _put(pieces)


def _put(pieces: Iterable[str]) -> int:
    for piece in pieces:
        if piece and (code := streams.put(piece)):
            return code
    return 0
