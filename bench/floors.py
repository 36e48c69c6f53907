"""Floors: bare loops without a harness. What they cost is what Python and the HTTP client cost."""

import asyncio
import json
from typing import Any

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


async def run_aiohttp(url: str, result: str, slow: float) -> None:
    """One conversation over aiohttp and orjson."""
    import aiohttp
    import orjson

    async with aiohttp.ClientSession() as session:
        await _aiohttp_conversation(session, orjson, url, result, slow)


async def _aiohttp_conversation(session: Any, orjson: Any, url: str, result: str, slow: float) -> None:
    conversation = Conversation(orjson.dumps)
    while True:
        reader = Reader(orjson.loads)
        headers = {"content-type": "application/json"}
        async with session.post(f"{url}/v1/messages", data=conversation.body(), headers=headers) as response:
            async for data in response.content.iter_any():
                reader.feed(data)
        if not reader.calls:
            return
        results = await asyncio.gather(*(_work(result, slow) for _ in reader.calls))
        conversation.add(reader.calls, list(results))


async def run_httpx(url: str, result: str, slow: float) -> None:
    """One conversation over httpx2 and json."""
    import httpx2

    async with httpx2.AsyncClient(timeout=60) as client:
        await _httpx_conversation(client, url, result, slow)


async def _httpx_conversation(client: Any, url: str, result: str, slow: float) -> None:
    conversation = Conversation(lambda value: json.dumps(value, separators=(",", ":")).encode())
    while True:
        reader = Reader(json.loads)
        headers = {"content-type": "application/json"}
        async with client.stream("POST", f"{url}/v1/messages", content=conversation.body(), headers=headers) as answer:
            async for data in answer.aiter_raw():
                reader.feed(data)
        if not reader.calls:
            return
        results = await asyncio.gather(*(_work(result, slow) for _ in reader.calls))
        conversation.add(reader.calls, list(results))


async def _work(result: str, slow: float) -> str:
    if slow:
        await asyncio.sleep(slow)
    return result


async def many_aiohttp(url: str, agents: int) -> None:
    """Many conversations in one process."""
    import aiohttp
    import orjson

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        await asyncio.gather(*(_aiohttp_conversation(session, orjson, url, "ok", 0) for _ in range(agents)))


async def many_httpx(url: str, agents: int) -> None:
    """Many conversations in one process, one pool as people write it."""
    import httpx2

    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx2.AsyncClient(timeout=60, limits=limits) as client:
        await asyncio.gather(*(_httpx_conversation(client, url, "ok", 0) for _ in range(agents)))
