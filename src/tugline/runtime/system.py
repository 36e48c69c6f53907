"""The real clock and real ids."""

import os
import time

from tugline.protocol.ids import MessageId


class SystemClock:
    """The machine's clocks."""

    def time(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds that only grow."""
        return time.monotonic()


class RandomIds:
    """Ids that nobody else has."""

    def message(self) -> MessageId:
        """A UUID (version 4)."""
        return MessageId(new_uuid())

    def new(self, kind: str) -> str:
        """`kind` and 20 random letters and digits."""
        return f"{kind}_{os.urandom(10).hex()}"


def new_uuid() -> str:
    """A random UUID as text; the module `uuid` costs more to import than this."""
    digits = bytearray(os.urandom(16))
    digits[6] = digits[6] & 0x0F | 0x40
    digits[8] = digits[8] & 0x3F | 0x80
    text = digits.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
