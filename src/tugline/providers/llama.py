"""One local model in a process of its own: started when first needed, again when it has gone, ended with its owner."""

import json
import os
import secrets
import signal
import sys
from contextlib import suppress
from importlib.util import find_spec
from subprocess import DEVNULL, PIPE

import anyio
from anyio.abc import Process

from tugline.net.client import HttpClient, Timeouts
from tugline.protocol.errors import Failure, ProviderError
from tugline.protocol.specs import ModelRequest
from tugline.providers.catalog import Catalog
from tugline.providers.endpoint import Endpoint
from tugline.providers.openai_chat import OpenAIChatProvider
from tugline.providers.wire import Outgoing

INSTALL = "local models need an extra: pip install 'tugline[local]'"
_ANSWER_LIMIT = 65_536
_GRACE = 2.0


class Llama:
    """The model at `path`, with a window of so many tokens. `catalog` knows its card."""

    def __init__(self, path: str, window: int, catalog: Catalog) -> None:
        self._path = path
        self._window = window
        self._catalog = catalog
        self._lock = anyio.Lock()
        self._process: Process | None = None
        self._chat: LlamaChat | None = None
        self._closed = False

    async def chat(self) -> "LlamaChat":
        """The provider that speaks to the running model; starts it. `ProviderError` if it cannot be started."""
        async with self._lock:
            if self._chat is not None and self._process is not None and self._process.returncode is None:
                return self._chat
            await self._end()
            if self._closed:
                raise ProviderError(Failure("invalid_request", "the local model is closed"))
            self._chat = await self._begin()
            return self._chat

    async def give_up(self, chat: "LlamaChat") -> None:
        """End the process behind `chat`, which has gone silent; the next request starts another."""
        if self._chat is chat:
            await self._end(0)

    async def aclose(self) -> None:
        """End the process and free its memory."""
        self._closed = True
        await self._end()

    async def _begin(self) -> "LlamaChat":
        if find_spec("xllamacpp") is None:
            raise ProviderError(Failure("invalid_model", INSTALL))
        key = secrets.token_urlsafe(24)
        order: dict[str, str | int] = {"path": self._path, "window": self._window, "key": key}
        try:
            # -P: what lies in the working folder must not be imported. A session of its own: Ctrl-C is not for it.
            self._process = process = await anyio.open_process(
                [sys.executable, "-P", "-m", "tugline.providers.llama_process"],
                stdin=PIPE,
                stdout=PIPE,
                stderr=DEVNULL,
                start_new_session=True,
            )
            answer = await _ask(process, order)
        except OSError as error:
            await self._end(0)
            raise _unusable(self._path, f"its process cannot be started: {error}") from None
        except BaseException:
            await self._end(0)
            raise
        if "address" not in answer:
            status = await self._end()
            reason = answer.get("error") or f"llama.cpp gave up while loading it (exit status {status})"
            raise _unusable(self._path, reason)
        endpoint = Endpoint(base_url=answer["address"] + "/v1", key=key, provider="local")
        # no proxies: it is on loopback; no time-outs: a queue or a long prompt takes what it takes
        return LlamaChat(endpoint, HttpClient(environ={}), self._catalog, timeouts=Timeouts(first_byte=None))

    async def _end(self, grace: float = _GRACE) -> int | None:
        """End the process; it does so by itself when its stdin ends, unless it is loading."""
        chat, self._chat = self._chat, None
        process, self._process = self._process, None
        if process is None:
            return None
        with anyio.CancelScope(shield=True):
            if chat is not None:
                await chat.aclose()
            if process.stdin is not None:
                await process.stdin.aclose()
            with anyio.move_on_after(grace):
                await process.wait()
            if process.returncode is None:
                # not process.kill(): it looks whether the process has ended, and then asyncio cannot find out any more
                with suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
            await process.aclose()
        return process.returncode


class LlamaChat(OpenAIChatProvider):
    """The provider that speaks to one running process."""

    said = 0
    """Counts what the model said, to whomever: while it says something to one, it is not dead to the others."""

    def prepare(self, request: ModelRequest) -> Outgoing:
        """The request for `/chat/completions`."""
        outgoing = super().prepare(request)
        if not request.stream:
            return outgoing
        # A sign of life per piece of the prompt that was read: on a slow machine that alone takes minutes.
        body = outgoing.body[:-1] + b',"return_progress":true}'
        return Outgoing(outgoing.url, outgoing.headers, body, outgoing.decoder, outgoing.stream)


async def _ask(process: Process, order: dict[str, str | int]) -> dict[str, str]:
    """Give the order; the answer, or nothing if the process ended without one."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        await process.stdin.send(json.dumps(order).encode() + b"\n")
        line = b""
        while not line.endswith(b"\n") and len(line) < _ANSWER_LIMIT:
            line += await process.stdout.receive()
        answer = json.loads(line)
    except (anyio.EndOfStream, anyio.BrokenResourceError, ValueError):
        return {}
    return answer if isinstance(answer, dict) else {}


def _unusable(path: str, reason: str) -> ProviderError:
    return ProviderError(Failure("invalid_model", f"cannot use {os.path.basename(path)} as a model: {reason}"))
