"""What was recorded of llama.cpp's counts is what it counts today."""

import pytest
from partner import Connect, RunningLlama
from token_sessions import MESSAGE_TOKENS, Counter, recorded, texts_of

pytest_plugins = ["partner_programs"]

pytestmark = pytest.mark.partner


async def test_the_recorded_counts_are_those_of_the_model(llama: RunningLlama, connect: Connect) -> None:
    counter = Counter(connect("chat", llama.url, llama.key))
    for session in recorded():
        counted = min(session.messages, key=lambda one: sum(map(len, texts_of(one.message))))
        assert MESSAGE_TOKENS + await counter.count(texts_of(counted.message)) == counted.tokens, session.name
