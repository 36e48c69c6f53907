"""The calls of a session that is on the disk."""

import os
from typing import Any

from tugline.app.core import make_shelf
from tugline.config.load import Config
from tugline.protocol.blocks import ToolUse
from tugline.protocol.messages import Assistant
from tugline.protocol.records import Opened, Resumed, Said, StateChanged
from tugline.protocol.specs import Cwd
from tugline.stores.reading import read_file
from tugline.stores.sessions import find

PastCall = tuple[str, dict[str, Any], str]
"""The tool, its input, and the folder that it ran in."""


def past_calls(config: Config, session: str) -> list[PastCall]:
    """All calls of a session's main agent, in order: of one named by id or words, or of a transcript file.

    `SessionError` where there is none.
    """
    path = session
    if not (session.endswith(".jsonl") and os.path.exists(session)):
        shelf = make_shelf(config)
        path = find(shelf.sessions, session, shelf.project).path
    cwd, calls = config.cwd, list[PastCall]()
    for record in read_file(path, whole=True).records:
        if isinstance(record, Opened | Resumed):
            cwd = record.cwd
        elif isinstance(record, Said) and isinstance(record.message, Assistant):
            uses = [block for block in record.message.content if isinstance(block, ToolUse)]
            calls.extend((use.name, use.input, cwd) for use in uses if use.malformed is None)
        elif isinstance(record, StateChanged):
            cwd = next((change.path for change in reversed(record.changes) if isinstance(change, Cwd)), cwd)
    return calls
