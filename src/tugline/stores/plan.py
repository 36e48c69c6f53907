"""The file of a session's plan, in our own folder."""

import os
import stat
from contextlib import suppress

from tugline.protocol.errors import SessionError

SIZE_LIMIT = 400_000


class PlanFile:
    """One plan, for the user alone. Made when it is first written."""

    def __init__(self, path: str) -> None:
        self.path = path

    def prepare(self) -> None:
        """Make its folder, for the user alone. Where that fails, whoever writes there is told."""
        with suppress(OSError):
            os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)

    def read(self) -> str:
        """The plan; empty where there is none, or it is no plain text of a sensible size."""
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return ""
        with os.fdopen(fd, "rb") as file:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode) or found.st_size > SIZE_LIMIT:
                return ""
            return file.read(SIZE_LIMIT).decode("utf-8", "replace")

    def write(self, plan: str) -> None:
        """Keep this plan. Raises `SessionError`."""
        self.prepare()
        fresh = f"{self.path}.{os.getpid()}.new"
        try:
            fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                with os.fdopen(fd, "wb") as file:
                    file.write(plan.encode())
                os.replace(fresh, self.path)
            except BaseException:
                os.unlink(fresh)
                raise
        except OSError as error:
            raise SessionError(f"The plan cannot be kept in {self.path}: {error.strerror}.") from error
