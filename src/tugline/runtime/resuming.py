"""What of a conversation's past a session goes on with."""

import os
from collections.abc import Sequence

from msgspec import structs

from tugline.protocol.blocks import Document, Image, Text
from tugline.protocol.commands import PromptContent
from tugline.protocol.messages import User
from tugline.protocol.specs import AgentState
from tugline.rules.history import History, to_state
from tugline.rules.paths import inside


def resumed_state(history: History, roots: Sequence[str], cwd: str) -> AgentState:
    """The agent's state as it was left; its working directory only where that is still there and allowed."""
    state = to_state(history.standing)
    there = os.path.isdir(state.cwd) and any(inside(os.path.realpath(state.cwd), root) for root in roots)
    return state if there else structs.replace(state, cwd=cwd)


def plain_content(message: User) -> PromptContent:
    """The words, pictures and documents of a message."""
    return tuple(block for block in message.content if isinstance(block, Text | Image | Document))
