"""In-memory twins of what is kept on disk."""

from tugline.protocol.records import AnyRecord


class MemoryLog:
    """A transcript that lives as long as its process."""

    path = ""

    def __init__(self) -> None:
        self.records: list[AnyRecord] = []

    def append(self, record: AnyRecord) -> None:
        """Keep the record."""
        self.records.append(record)

    def read(self, *, whole: bool = False) -> tuple[AnyRecord, ...]:
        """All records, or those that are needed to go on."""
        return tuple(self.records)

    async def durable(self) -> None:
        """Nothing to wait for."""

    async def aclose(self) -> None:
        """Nothing to close."""


class MemorySpill:
    """Keeps what is too big for the conversation, by a made-up path."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def keep(self, name: str, text: str) -> str:
        """Store it under `spill/<name>`."""
        path = f"spill/{name}.txt"
        self.texts[path] = text
        return path
