"""Floors: bare loops without a harness. What they cost is what Python and the HTTP client cost."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

HEADERS = {"content-type": "application/json"}
TOOL = {"name": "trivial", "description": "Trivial.", "input_schema": {"type": "object", "properties": {}}}


class Conversation:
    """Messages kept as bytes, joined per request."""

    def __init__(self, dumps: Any) -> None:
        self.dumps = dumps
        self.parts = [dumps({"role": "user", "content": "Go"})]

    def body(self) -> bytes:
        head = b'{"model":"claude-sonnet-4-5","max_tokens":1000,"stream":true,"tools":[' + self.dumps(TOOL)
        return head + b'],"messages":[' + b",".join(self.parts) + b"]}"

    def add(self, calls: list[dict[str, Any]], results: list[str]) -> None:
        self.parts.append(self.dumps({"role": "assistant", "content": calls}))
        answers = [
            {"type": "tool_result", "tool_use_id": call["id"], "content": result}
            for call, result in zip(calls, results, strict=True)
        ]
        self.parts.append(self.dumps({"role": "user", "content": answers}))


class Reader:
    """Splits events and keeps the calls."""

    def __init__(self, loads: Any) -> None:
        self.loads = loads
        self.rest = b""
        self.calls: list[dict[str, Any]] = []
        self.deltas = 0

    def feed(self, data: bytes) -> None:
        *events, self.rest = (self.rest + data).split(b"\n\n")
        for event in events:
            body = self.loads(event[event.index(b"data: ") + 6 :])
            kind = body["type"]
            if kind == "content_block_delta":
                self.deltas += 1
            elif kind == "content_block_start" and body["content_block"]["type"] == "tool_use":
                self.calls.append(body["content_block"])


def load(name: str) -> tuple[Callable[[], Any], Callable[..., Awaitable[None]]]:
    """Import what a floor needs: how a client is opened, and how a conversation is had with it."""
    return _aiohttp() if name == "aiohttp" else _httpx()


def _aiohttp() -> tuple[Callable[[], Any], Callable[..., Awaitable[None]]]:
    """aiohttp and orjson; no bound on connections."""
    import aiohttp
    import orjson

    async def converse(session: Any, url: str, result: str, slow: float, step: Callable[[], None]) -> None:
        conversation = Conversation(orjson.dumps)
        while True:
            reader = Reader(orjson.loads)
            step()
            async with session.post(f"{url}/v1/messages", data=conversation.body(), headers=HEADERS) as response:
                async for data in response.content.iter_any():
                    reader.feed(data)
            if not await _work(conversation, reader, result, slow):
                return

    return lambda: aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)), converse


def _httpx() -> tuple[Callable[[], Any], Callable[..., Awaitable[None]]]:
    """httpx2 and json; one pool as people write it, without bounds."""
    import httpx2

    def dumps(value: Any) -> bytes:
        return json.dumps(value, separators=(",", ":")).encode()

    async def converse(client: Any, url: str, result: str, slow: float, step: Callable[[], None]) -> None:
        conversation = Conversation(dumps)
        while True:
            reader = Reader(json.loads)
            step()
            request = {"content": conversation.body(), "headers": HEADERS}
            async with client.stream("POST", f"{url}/v1/messages", **request) as answer:
                async for data in answer.aiter_raw():
                    reader.feed(data)
            if not await _work(conversation, reader, result, slow):
                return

    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
    return lambda: httpx2.AsyncClient(timeout=60, limits=limits), converse


async def _work(conversation: Conversation, reader: Reader, result: str, slow: float) -> bool:
    """Answer the calls, all at once; whether there were any."""

    async def one() -> str:
        if slow:
            await asyncio.sleep(slow)
        return result

    if reader.calls:
        conversation.add(reader.calls, list(await asyncio.gather(*(one() for _ in reader.calls))))
    return bool(reader.calls)
