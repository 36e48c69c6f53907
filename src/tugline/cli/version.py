"""What `--version` prints."""

import os

from tugline import __version__

PROTOCOL_LEVEL = "2.1.265"
"""The level of the stream-json protocol; hosts that ask for a version mean this."""


def version_line() -> str:
    """Our version; for a host program the level of the protocol stands first."""
    if os.environ.get("CLAUDE_CODE_ENTRYPOINT"):
        return f"{PROTOCOL_LEVEL} (tugline {__version__})\n"
    return f"{__version__} (tugline)\n"
