"""Writes a session's document to a file of the person's."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress

from tugline.protocol.errors import SessionError
from tugline.protocol.sessions import ExportFormat
from tugline.rules.exports import ENDINGS, exported
from tugline.rules.masking import mask, secrets_of
from tugline.stores.chronicle import open_chronicle
from tugline.stores.sessions import Entry, summarize


def write_export(
    entry: Entry, path: str | None, form: ExportFormat | None, environ: Mapping[str, str], cwd: str = ""
) -> str:
    """Write the document; returns its path. `path` is a new file, a folder, or `None`: a name is found in `cwd` then.
    `SessionError` says what is in the way; no half document stays."""
    summary = summarize(entry)
    form = form or _form_of(path)
    folder = path if path is not None and os.path.isdir(path) else cwd if path is None else ""
    if path is None or folder:
        stem = re.sub(r"[^A-Za-z0-9]+", "-", summary.title or summary.prompt)[:50].strip("-").lower()
        name = f"{stem}-{entry.session[:8]}" if stem else f"session-{entry.session[:8]}"
        path = os.path.join(folder or "", name + ENDINGS[form])
    path = os.path.abspath(path)
    made = False
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        made = True
        with os.fdopen(fd, "w", encoding="utf-8", errors="backslashreplace", newline="") as file:
            file.writelines(document(entry, form, environ))
    except FileExistsError:
        raise SessionError(f"There is a file of that name already: {path}. Name another one.") from None
    except BaseException as error:
        if made:
            with suppress(OSError):
                os.unlink(path)
        if isinstance(error, OSError):
            raise SessionError(f"{path} cannot be written: {error.strerror}.") from error
        raise
    return path


def document(entry: Entry, form: ExportFormat, environ: Mapping[str, str]) -> Iterator[str]:
    """The document piece by piece, without secrets of the environment and what looks like a key."""
    secrets = secrets_of(environ)
    summary = summarize(entry)
    if summary.problem:
        raise SessionError(summary.problem)
    with open_chronicle(entry.path) as chronicle:
        yield from exported(summary, chronicle.passages(), form, lambda text: mask(text, secrets))


def _form_of(path: str | None) -> ExportFormat:
    """The format that the name of the file asks for."""
    ending = os.path.splitext(path or "")[1].lower()
    return next(
        (form for form, usual in ENDINGS.items() if usual == ending), "html" if ending == ".htm" else "markdown"
    )
