"""From a URL to a connection: names, addresses, the proxy's tunnel, TLS."""

import asyncio
import ipaddress
import os
import socket
import ssl
import threading
from collections.abc import Callable, Sequence

import anyio

from tugline.net.errors import HttpError
from tugline.net.tls import Tls
from tugline.net.url import Url
from tugline.net.wire import Wire

AddressCheck = Callable[[str, tuple[str, ...]], tuple[str, ...]]
"""`check(host, addresses)`: those of the addresses that may be connected to, or raises `HttpError` to refuse. The
client connects to one of these and to nothing else. `addresses` is empty if a proxy will resolve the name."""

_STAGGER = 0.25
_PROXY_HEAD_LIMIT = 32 * 1024

_Address = tuple[socket.AddressFamily, tuple[str, int] | tuple[str, int, int, int]]


async def dial(url: Url, proxy: Url | None, tls: Tls, timeout: float, check: AddressCheck | None) -> Wire:
    """A connection on which requests to `url` can be sent, within `timeout` seconds."""
    place = f"the proxy {proxy.origin}" if proxy else url.origin
    context = tls.context() if url.scheme == "https" or (proxy and proxy.scheme == "https") else None
    if proxy and check:
        check(url.host, (url.host,) if _is_address(url.host) else ())
    wire: Wire | None = None
    try:
        with anyio.fail_after(timeout):
            sock = await _open_socket(proxy or url, place, None if proxy else check)
            wire = await _wire(sock, context if (proxy or url).scheme == "https" else None, proxy or url)
            if proxy and url.scheme == "https":
                await _tunnel(wire, url, proxy)
                assert context is not None
                await _start_tls(wire, context, url.host)
        return wire
    except BaseException as error:
        if wire is not None:
            wire.abort()
        if not isinstance(error, OSError):  # TLS and time-out errors are of this kind too
            raise
        raise _explain(error, url, place, timeout) from None


async def open_tunnel(url: Url, proxy: Url | None, tls: Tls, timeout: float, check: AddressCheck) -> Wire:
    """A connection that carries any bytes to the host and port of `url`, within `timeout` seconds."""
    place = f"the proxy {proxy.origin}" if proxy else url.origin
    wire: Wire | None = None
    try:
        with anyio.fail_after(timeout):
            if proxy is None:
                return await _wire(await _open_socket(url, place, check), None, url)
            check(url.host, (url.host,) if _is_address(url.host) else ())
            sock = await _open_socket(proxy, place, None)
            wire = await _wire(sock, tls.context() if proxy.scheme == "https" else None, proxy)
            await _tunnel(wire, url, proxy)
        return wire
    except BaseException as error:
        if wire is not None:
            wire.abort()
        if not isinstance(error, OSError):
            raise
        raise _explain(error, url, place, timeout) from None


def _explain(error: OSError, url: Url, place: str, timeout: float) -> HttpError:
    if isinstance(error, ssl.SSLCertVerificationError):
        hint = "; if a company proxy signs it, set SSL_CERT_FILE to its certificate"
        return HttpError("tls", f"the certificate of {url.host} is not trusted: {error.verify_message}{hint}")
    if isinstance(error, ssl.SSLError):
        reason = (error.reason or str(error)).replace("_", " ").lower()
        return HttpError("tls", f"no secure connection to {place}: {reason}")
    if isinstance(error, TimeoutError) and not error.strerror:
        return HttpError("timeout", f"no connection to {place} within {timeout:g} s")
    reason = os.strerror(error.errno) if error.errno else (str(error) or "the connection was closed")
    return HttpError("connect", f"cannot connect to {place}: {reason.lower()}")


# --- names and sockets ---


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


async def _resolve(host: str, port: int) -> list[_Address]:
    """Look the name up in a thread that nobody has to wait for, not at the end of the program either."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[_Address]] = loop.create_future()

    def tell(found: list[_Address] | OSError) -> None:
        if answer.done():
            return
        if isinstance(found, OSError):
            answer.set_exception(found)
        else:
            answer.set_result(found)

    def look() -> None:
        found: list[_Address] | OSError
        try:
            entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            found = [(family, address) for family, _, _, _, address in entries]  # type: ignore[misc]
        except OSError as error:
            found = error
        except UnicodeError:
            found = socket.gaierror(socket.EAI_NONAME, "not a valid name")
        try:
            loop.call_soon_threadsafe(tell, found)
        except RuntimeError:
            pass  # the loop has ended meanwhile

    threading.Thread(target=look, name="resolve", daemon=True).start()
    return await answer


async def _open_socket(url: Url, place: str, check: AddressCheck | None) -> socket.socket:
    if _is_address(url.host):
        family = socket.AF_INET6 if ":" in url.host else socket.AF_INET
        addresses: list[_Address] = [(family, (url.host, url.port))]
    else:
        try:
            addresses = await _resolve(url.host, url.port)
        except socket.gaierror as error:
            raise HttpError("dns", f"cannot find {place}: {(error.strerror or str(error)).lower()}") from None
    addresses = _alternate(addresses)
    if check:
        allowed = check(url.host, tuple(dict.fromkeys(address[1][0] for address in addresses)))
        addresses = [address for address in addresses if address[1][0] in allowed]
        if not addresses:
            raise HttpError("connect", f"connecting to {place} is not allowed: none of its addresses is")
    if not addresses:
        raise HttpError("dns", f"cannot find {place}: the name has no addresses")
    return await (_connect(addresses[0]) if len(addresses) == 1 else _connect_first(addresses))


def _alternate(addresses: Sequence[_Address]) -> list[_Address]:
    """Families in turn, the resolver's first choice first, so that one dead family costs one stagger only."""
    first = [one for one in addresses if one[0] == addresses[0][0]]
    other = [one for one in addresses if one[0] != addresses[0][0]]
    mixed = [one for pair in zip(first, other, strict=False) for one in pair]
    shorter = min(len(first), len(other))
    return mixed + first[shorter:] + other[shorter:]


async def _connect(address: _Address) -> socket.socket:
    sock = socket.socket(address[0], socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        await asyncio.get_running_loop().sock_connect(sock, address[1])
    except BaseException:
        sock.close()
        raise
    return sock


async def _connect_first(addresses: Sequence[_Address]) -> socket.socket:
    """Try one after the other, each a quarter of a second after the former; the first that answers is taken."""
    failures: list[OSError] = []
    winner: list[socket.socket] = []

    async def attempt(address: _Address, failed: anyio.Event) -> None:
        try:
            sock = await _connect(address)
        except OSError as error:
            failures.append(error)
            failed.set()
            return
        if winner:
            sock.close()
        winner.append(sock)
        group.cancel_scope.cancel()

    try:
        async with anyio.create_task_group() as group:
            for address in addresses:
                failed = anyio.Event()
                group.start_soon(attempt, address, failed)
                with anyio.move_on_after(_STAGGER):
                    await failed.wait()
    except BaseException:
        for sock in winner:
            sock.close()
        raise
    if not winner:
        raise failures[0]
    return winner[0]


# --- layers on the socket ---


async def _wire(sock: socket.socket, context: ssl.SSLContext | None, url: Url) -> Wire:
    try:
        _, wire = await asyncio.get_running_loop().create_connection(
            Wire, sock=sock, ssl=context, server_hostname=url.host if context else None
        )
    except BaseException:
        sock.close()
        raise
    return wire


async def _start_tls(wire: Wire, context: ssl.SSLContext, host: str) -> None:
    transport = await asyncio.get_running_loop().start_tls(wire.transport, wire, context, server_hostname=host)
    if transport is None:
        raise ConnectionResetError("the connection was closed")
    wire.adopt(transport)


async def _tunnel(wire: Wire, url: Url, proxy: Url) -> None:
    """Ask the proxy for a tunnel to the server."""
    place = f"[{url.host}]:{url.port}" if ":" in url.host else f"{url.host}:{url.port}"
    auth = f"Proxy-Authorization: {proxy.basic_auth}\r\n" if proxy.basic_auth else ""
    wire.send(f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n{auth}\r\n".encode("ascii"))
    head = b""
    while b"\r\n\r\n" not in head:
        data = await wire.receive()
        head += data
        if not data or len(head) > _PROXY_HEAD_LIMIT:
            raise HttpError("proxy", f"the proxy {proxy.origin} gave no proper answer")
    words = head.partition(b"\r\n")[0].decode("latin-1").split(None, 2)
    status = words[1] if len(words) > 1 and words[0].startswith("HTTP/1.") else ""
    if status == "407":
        raise HttpError("invalid", f"the proxy {proxy.origin} asks for a user and password, or refuses the ones it got")
    if status != "200" or not head.endswith(b"\r\n\r\n"):
        reason = f"answered {status}" if status.isdigit() and status != "200" else "gave no proper answer"
        raise HttpError("proxy", f"the proxy {proxy.origin} {reason} when asked for a tunnel to {url.host}")
