"""Usage as the services would count it, their prompt caches included: a token is four bytes of JSON."""

from collections.abc import Sequence
from hashlib import blake2b

from msgspec import Struct

from tugline.protocol.usage import Usage

PREFIXES_KEPT = 50_000
LOOK_BACK = 20


class Piece(Struct, frozen=True):
    """A part of the prompt, in the order in which the service reads it. `marked`: the cache may be written up to
    here."""

    data: bytes
    marked: bool = False


class PromptCache:
    """Remembers prompts' prefixes. With marks (Anthropic) they are kept where a marker stands, and found up to 20
    blocks before one; without (OpenAI) every boundary counts, and writing costs nothing."""

    def __init__(self) -> None:
        self._known: dict[bytes, None] = {}

    def marked(self, model: str, pieces: Sequence[Piece]) -> Usage:
        """What this prompt costs where markers say what is kept; keeps its prefixes."""
        digests, ends = self._boundaries(model, pieces)
        marks = [n for n, piece in enumerate(pieces) if piece.marked]
        read = 0
        for mark in reversed(marks):
            near = range(mark, max(-1, mark - LOOK_BACK), -1)
            hit = next((n for n in near if digests[n] in self._known), None)
            if hit is not None:
                read = ends[hit]
                break
        written = ends[marks[-1]] if marks else 0
        total = ends[-1] if ends else 0
        self._keep([digests[n] for n in marks])
        return Usage(_tokens(total - max(written, read)), 0, _tokens(read), _tokens(max(0, written - read)))

    def automatic(self, model: str, pieces: Sequence[Piece]) -> Usage:
        """What this prompt costs where the service keeps prefixes by itself."""
        digests, ends = self._boundaries(model, pieces)
        hit = next((n for n in range(len(digests) - 1, -1, -1) if digests[n] in self._known), None)
        read = 0 if hit is None else ends[hit]
        self._keep(digests)
        return Usage(_tokens((ends[-1] if ends else 0) - read), 0, _tokens(read), 0)

    def _boundaries(self, model: str, pieces: Sequence[Piece]) -> tuple[list[bytes], list[int]]:
        running = blake2b(model.encode(), digest_size=16)
        digests, ends, end = [], [], 0
        for piece in pieces:
            running.update(b"%d:" % len(piece.data))
            running.update(piece.data)
            end += len(piece.data)
            digests.append(running.copy().digest())
            ends.append(end)
        return digests, ends

    def _keep(self, digests: list[bytes]) -> None:
        for digest in digests:
            self._known.pop(digest, None)
            self._known[digest] = None
        while len(self._known) > PREFIXES_KEPT:
            del self._known[next(iter(self._known))]


def _tokens(size: int) -> int:
    return -(-size // 4)
