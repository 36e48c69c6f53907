"""The proxy of one sandboxed command: it lets through what the settings, or a person, allow.

The name is taken apart once; that value is judged, shown, looked up, and its checked address is what is connected to.
"""

import asyncio
import socket
from collections.abc import Awaitable, Coroutine, Mapping
from contextlib import suppress
from typing import Protocol

import anyio

from tugline.net.dial import open_tunnel
from tugline.net.errors import HttpError
from tugline.net.proxies import Proxies, proxies_from
from tugline.net.proxy_request import HEAD_LIMIT, BodyMeter, ProxyRequest, read_proxy_request
from tugline.net.tls import Tls
from tugline.net.url import Url
from tugline.net.wire import Wire
from tugline.rules.addresses import is_local_name
from tugline.rules.hosts import HostPolicy, Target

HEAD_PATIENCE = 10.0
"""Seconds in which a request's head has to be there."""
DIAL_PATIENCE = 15.0
IDLE_PATIENCE = 300.0
"""Seconds without a byte in either direction."""
CONNECTIONS = 128
"""At the same time; further ones are closed."""
TRAFFIC = 16 << 30
"""Bytes for one command, both directions together."""


class Hosts(Protocol):
    """Who decides about hosts. `policy` is the one of that moment; `ask` is for hosts that it does not name."""

    @property
    def policy(self) -> HostPolicy: ...

    async def ask(self, target: Target) -> bool: ...


class _Peer(Wire):
    """A connection of which one direction may end before the other."""

    def eof_received(self) -> bool:
        super().eof_received()
        return True


class Relay:
    """Serves the connections of one command until it is closed. `refused` are the hosts that it was not let through to,
    each with the reason."""

    def __init__(self, hosts: Hosts, environ: Mapping[str, str], *, head_patience: float = HEAD_PATIENCE) -> None:
        self.refused: dict[str, str] = {}
        self._hosts = hosts
        self._proxies: Proxies = proxies_from(environ)
        self._tls = Tls(environ)
        self._head_patience = head_patience
        self._left = TRAFFIC
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._wires: set[Wire] = set()

    def start(self, ear: Awaitable[socket.socket | None]) -> None:
        """Accept from a listening socket, which is then ours, once it is there."""
        self._own(self._serve(ear))

    def _own(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, awaited: Awaitable[socket.socket | None]) -> None:
        ear = await awaited
        if ear is None:
            return

        def accept() -> Wire:
            wire = _Peer()
            self._own(self._connection(wire))
            return wire

        self._server = await asyncio.get_running_loop().create_server(accept, sock=ear)

    async def aclose(self) -> None:
        """End all connections."""
        if self._server is not None:
            self._server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        for wire in list(self._wires):
            wire.abort()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _connection(self, wire: Wire) -> None:
        self._wires.add(wire)
        try:
            # `connection_made` follows in the same turn of the loop
            await asyncio.sleep(0)
            if len(self._wires) <= CONNECTIONS:
                await self._request(wire)
        except (OSError, TimeoutError):
            pass  # one of both ends is gone
        finally:
            self._wires.discard(wire)
            wire.close()

    async def _request(self, wire: Wire) -> None:
        try:
            with anyio.fail_after(self._head_patience):
                head, rest = await _read_head(wire)
            if not head:
                return None
            request = read_proxy_request(head)
        except TimeoutError:
            return _answer(wire, "408 Request Timeout", "the request did not come in time")
        except HttpError as error:
            return _answer(wire, "400 Bad Request", str(error))
        why = await self._judge(request.target)
        if why:
            self.refused[str(request.target)] = why
            return _answer(wire, "403 Forbidden", f"{request.target}: {why}")
        try:
            far = await self._dial(request.target)
        except HttpError as error:
            if error.kind == "connect" and "not allowed" in str(error):
                self.refused[str(request.target)] = str(error)
                return _answer(wire, "403 Forbidden", str(error))
            return _answer(wire, "502 Bad Gateway", str(error))
        self._wires.add(far)
        try:
            await self._carry(wire, far, request, rest)
        finally:
            self._wires.discard(far)
            far.close()
        return None

    async def _judge(self, target: Target) -> str:
        """Why not; empty where it is allowed."""
        ruling = self._hosts.policy.rule(target)
        if ruling == "deny":
            return "sandbox.network.deniedDomains names it"
        if ruling == "allow" or await self._hosts.ask(target):
            return ""
        return "sandbox.network.allowedDomains does not name it"

    async def _dial(self, target: Target) -> Wire:
        url = Url("https" if target.port == 443 else "http", target.host, target.port)
        proxy = self._proxies.choose(url)

        def check(host: str, addresses: tuple[str, ...]) -> tuple[str, ...]:
            policy = self._hosts.policy
            if not addresses and is_local_name(host) and not policy.reachable(target, "127.0.0.1"):
                raise HttpError("connect", f"{target} is not allowed: it is a local name")
            for address in addresses:
                if not policy.reachable(target, address):
                    at = "" if address == host else f" ({address})"
                    words = "not an address of the public internet, and sandbox.network.allowedDomains does not name it"
                    raise HttpError("connect", f"{target}{at} is not allowed: {words}")
            return addresses

        return await open_tunnel(url, proxy, self._tls, DIAL_PATIENCE, check)

    async def _carry(self, near: Wire, far: Wire, request: ProxyRequest, rest: bytes) -> None:
        async with anyio.create_task_group() as tasks:
            scope = tasks.cancel_scope
            scope.deadline = anyio.current_time() + IDLE_PATIENCE
            if request.head:
                far.send(request.head)
                tasks.start_soon(self._body, near, far, BodyMeter(request.body), rest, scope)
            else:
                near.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
                far.send(rest)
                tasks.start_soon(self._pump, near, far, scope)
            await self._pump(far, near, scope)
            if request.head:
                # the answer is whole: what the sender still had to say does not matter
                scope.cancel()

    async def _body(self, near: Wire, far: Wire, meter: BodyMeter, data: bytes, scope: anyio.CancelScope) -> None:
        """One request's body; what comes behind it is heard and dropped."""
        while True:
            try:
                passed = meter.feed(data)
            except HttpError:
                return scope.cancel()
            if passed and not await self._pass(passed, far, scope):
                return None
            data = await near.receive()
            if not data:
                return None

    async def _pump(self, source: Wire, sink: Wire, scope: anyio.CancelScope) -> None:
        while data := await source.receive():
            if not await self._pass(data, sink, scope):
                return
        if source.failure is not None:
            scope.cancel()
        sink.end()

    async def _pass(self, data: bytes, sink: Wire, scope: anyio.CancelScope) -> bool:
        """Send it on; false: it is over. A stream that never pauses would not hear of a cancelled scope in time."""
        self._left -= len(data)
        if self._left < 0 or sink.transport.is_closing():
            scope.cancel()
            return False
        scope.deadline = anyio.current_time() + IDLE_PATIENCE
        sink.send(data)
        await sink.room()
        return True


async def _read_head(wire: Wire) -> tuple[bytes, bytes]:
    """The head with its empty line, and what came with it; empty where the connection ended before."""
    data = b""
    while True:
        end = data.find(b"\r\n\r\n")
        if end >= 0:
            return data[: end + 4], data[end + 4 :]
        if len(data) > HEAD_LIMIT:
            raise HttpError("protocol", f"a request's head has {HEAD_LIMIT} bytes at most")
        more = await wire.receive()
        if not more:
            return b"", b""
        data += more


def _answer(wire: Wire, status: str, words: str) -> None:
    text = f"tugline sandbox: {words}\n".encode("utf-8", "replace")
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(text)}\r\n"
    with suppress(OSError):
        wire.send(f"{head}Connection: close\r\n\r\n".encode() + text)
