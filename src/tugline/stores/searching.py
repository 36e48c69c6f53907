"""Words looked for in transcripts: line by line, so that no file is ever in memory."""

import os
import re
from collections.abc import Iterator

from tugline.protocol.blocks import Text
from tugline.protocol.errors import SessionError
from tugline.protocol.messages import Assistant, User
from tugline.protocol.records import AnyRecord, Said, Titled
from tugline.protocol.sessions import Hit
from tugline.stores.lines import lines_forward
from tugline.stores.reading import decode, open_regular
from tugline.stores.sessions import Entry, summarize

AROUND = 70
"""Characters that are shown before and behind the first of the words."""


class Wanted:
    """What is looked for: a message has to have all of the words, in whatever case."""

    def __init__(self, words: str) -> None:
        self.words = words.casefold().split()
        if not self.words:
            raise SessionError("There is nothing to look for. Give words of what was said.")
        # a word with a quote or a backslash stands otherwise in the file, and the case of other letters is no matter
        # of bytes; such are looked for in what was decoded
        self._plain = [word.encode() for word in self.words if word.isascii() and not re.search(r'["\\]', word)]

    def maybe(self, line: bytes) -> bool:
        """Whether it is worth while to decode the line."""
        if not line.isascii():
            return True
        lower = line.lower()
        return all(word in lower for word in self._plain)

    def excerpt(self, text: str) -> str:
        """The words with what stands around them; empty where they are not in the text."""
        folded = text.casefold()
        places = [folded.find(word) for word in self.words]
        if min(places) < 0:
            return ""
        # casefolding may change lengths; what is shown is then a little beside the word
        at = min(places)
        begin, end = max(0, at - AROUND), at + len(self.words[0]) + AROUND
        shown = " ".join(text[begin:end].split())
        return f"{'…' if begin else ''}{shown}{'…' if end < len(text) else ''}"


def search(entry: Entry, wanted: Wanted) -> Iterator[Hit]:
    """Where in a session the words are: in its names, what the person said, what the model said. A file that cannot be
    read has none."""
    try:
        fd = open_regular(entry.path, os.O_RDONLY)
    except SessionError:
        return
    title: str | None = None
    try:
        for count, line in enumerate(lines_forward(fd), 1):
            if line is None or not wanted.maybe(line):
                continue
            record = decode(line)
            if isinstance(record, str):
                continue
            who, text = _words(record)
            excerpt = wanted.excerpt(text) if text else ""
            if excerpt:
                title = summarize(entry).title if title is None else title
                yield Hit(entry.session, title, record.n or count, record.time, who, excerpt)
    except OSError:
        return
    finally:
        os.close(fd)


def _words(record: AnyRecord) -> tuple[str, str]:
    """Who says what in a record, as far as it is looked through."""
    match record:
        case Titled(title=title):
            return "title", title
        case Said(message=Assistant(content=content)):
            return "model", _texts(content)
        case Said(message=User(source="person" | "letter", hidden=False, content=content)):
            return "person", _texts(content)
        case _:
            return "", ""


def _texts(content: tuple[object, ...]) -> str:
    return "\n".join(block.text for block in content if isinstance(block, Text))
