"""Whether a process lives."""

from pathlib import Path


def alive(pid: int) -> bool:
    """Whether it runs: a zombie has only not been counted yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] not in b"ZX"
    except OSError:
        return False
