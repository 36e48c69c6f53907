"""The real command as a process, against a scripted model over real HTTP."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from command import Desk

from tugline.protocol.script import Script, Step
from tugline.testing import ModelServer


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    (tmp_path / "work").mkdir()
    (tmp_path / "home").mkdir()
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path / "home"),
        "TUGLINE_HOME": str(tmp_path / "state"),
        "TUGLINE_NETWORK_RETRY_BASE": "0.01",
        "TUGLINE_NETWORK_MAX_RETRIES": "1",
    }
    return Desk(tmp_path, environ)


Serve = Callable[..., Awaitable[ModelServer]]


@pytest.fixture
async def serve(desk: Desk) -> AsyncIterator[Serve]:
    """Starts a scripted model and points the desk to it."""
    servers: list[ModelServer] = []

    async def start(script: Script | Sequence[Step], **options: Any) -> ModelServer:
        server = ModelServer(script, lenient=True, **options)
        await server.__aenter__()
        servers.append(server)
        desk.environ |= {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "sk-ant-canary-0123456789abcdef"}
        return server

    yield start
    for server in servers:
        await server.__aexit__(None, None, None)
