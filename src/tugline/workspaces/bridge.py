"""The way out of a sandbox's network: a socket that listens inside and is accepted from outside.

A program in the sandbox's network namespace begins to listen on its loopback, hands the listening socket over to us,
and becomes the command. A socket belongs to the namespace that it was made in, so our process then accepts what the
command connects to, without anything of ours running inside, and without a path that the command could misuse.
"""

import array
import asyncio
import os
import socket
import sys
from collections.abc import Sequence

PORT = 3128
"""Where the proxy is, seen from inside. Each command has a loopback of its own."""

_PROGRAM = f"""\
import _socket, posix, sys
number = int(sys.argv[1])
ear = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
ear.bind(("127.0.0.1", {PORT}))
ear.listen(128)
way = _socket.socket(fileno=number)
way.sendmsg([b"1"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, ear.fileno().to_bytes(4, sys.byteorder))])
way.close()
ear.close()
try:
    posix.execv(sys.argv[2], sys.argv[2:])
except OSError as error:
    posix.write(2, f"{{sys.argv[2]}}: {{error.strerror}}\\n".encode())
    posix._exit(127 if error.errno == 2 else 126)
"""


def bridged(argv: Sequence[str], number: int) -> list[str]:
    """`argv`, whose program is an absolute path, behind what hands its listening socket over through descriptor
    `number`."""
    return [interpreter(), "-I", "-S", "-c", _PROGRAM, str(number), *argv]


def interpreter() -> str:
    """The Python that runs without its environment."""
    return str(getattr(sys, "_base_executable", "") or sys.executable)


def interpreter_folder() -> str:
    """What of the disk that Python needs."""
    return os.path.realpath(sys.base_prefix)


def environment() -> dict[str, str]:
    """The variables by which programs find the proxy."""
    url = f"http://127.0.0.1:{PORT}"
    near = "localhost,127.0.0.1,::1"
    found = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), url)
    found["NO_PROXY"] = near
    return {**found, **{name.lower(): value for name, value in found.items()}, "NODE_USE_ENV_PROXY": "1"}


PROXY_VARIABLES = frozenset(
    ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "FTP_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy",
     "ftp_proxy", "no_proxy"]
)  # fmt: skip
"""Variables that name proxies of this machine, which a command in a sandbox does not reach."""


async def receive(way: socket.socket) -> socket.socket | None:
    """The listening socket from inside; `None` if none comes because the command never started. Closes `way`."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    with way:
        loop.add_reader(way, ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_reader(way)
        return _take(way)


def _take(way: socket.socket) -> socket.socket | None:
    descriptors = array.array("i")
    try:
        _, ancillary, _, _ = way.recvmsg(1, socket.CMSG_SPACE(4 * descriptors.itemsize))
    except OSError:
        return None
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
    received = [socket.socket(fileno=number) for number in descriptors]
    for further in received[1:]:
        further.close()
    if not received or not _listens(received[0]):
        for other in received[:1]:
            other.close()
        return None
    received[0].setblocking(False)
    return received[0]


def _listens(ear: socket.socket) -> bool:
    """Whether it is what was expected, and nothing else that came the same way."""
    return (
        ear.family == socket.AF_INET
        and ear.type == socket.SOCK_STREAM
        and ear.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1
    )
