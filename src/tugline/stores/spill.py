"""Where results go that are too big for the conversation."""

import os
import re
from pathlib import Path

from tugline.protocol.errors import SessionError


class FileSpill:
    """Keeps each text in a file of its own in one private folder."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def keep(self, name: str, text: str) -> str:
        """Store it; returns the path."""
        stem = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:80] or "result"
        try:
            Path(self.folder).mkdir(parents=True, exist_ok=True, mode=0o700)
            for attempt in range(1_000):
                path = os.path.join(self.folder, f"{stem}{f'-{attempt}' if attempt else ''}.txt")
                try:
                    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                except FileExistsError:
                    continue
                try:
                    with os.fdopen(fd, "w", encoding="utf-8", errors="replace") as file:
                        file.write(text)
                except OSError:
                    os.unlink(path)  # half a result is worth nothing, and its room is needed
                    raise
                return path
        except OSError as error:
            raise SessionError(f"A big result cannot be kept in {self.folder}: {error.strerror}.") from error
        raise SessionError(f"A big result cannot be kept in {self.folder}: too many files named {stem}.")
