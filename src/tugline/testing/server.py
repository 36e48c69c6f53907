"""The command `tugline model-server`: the scripted model in a process of its own."""

import argparse
import asyncio
import signal
import sys
from collections.abc import Sequence
from typing import IO

from tugline.protocol import codec
from tugline.protocol.errors import TuglineError
from tugline.testing.connection import Received
from tugline.testing.model_server import ModelServer
from tugline.testing.reading import load_script

SECRET = frozenset({"authorization", "x-api-key", "api-key", "proxy-authorization", "cookie"})


def main(argv: Sequence[str]) -> int:
    """Serve a script until SIGINT or SIGTERM. 0: all went as scripted; 1: it did not; 2: it could not begin."""
    parser = argparse.ArgumentParser(
        prog="tugline model-server", description="A model that says what a script tells it, behind real HTTP."
    )
    parser.add_argument("script", help="a script: .yaml, .json, .jsonl or .py")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, default=0, help="the port to listen on (default: any free one)")
    parser.add_argument("--require-key", metavar="KEY", help="refuse requests that carry another key")
    parser.add_argument("--record-requests", metavar="FILE", help="append each request to FILE, one JSON per line")
    parser.add_argument("--lenient", action="store_true", help="end with 0 also if not all went as scripted")
    try:
        options = parser.parse_args(argv)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 2
    try:
        return asyncio.run(_serve(options))
    except (TuglineError, OSError) as error:
        print(f"tugline model-server: {error}", file=sys.stderr)
        return 2


async def _serve(options: argparse.Namespace) -> int:
    script = load_script(options.script)
    record = _Record(options.record_requests) if options.record_requests else None
    server = ModelServer(
        script,
        host=options.host,
        port=options.port,
        require_key=options.require_key,
        lenient=True,
        keep_requests=False,
        on_request=record.write if record is not None else None,
    )
    asked_to_end = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, asked_to_end.set)
    try:
        async with server:
            _say(_greeting(server, options.require_key or "scripted"), sys.stdout)
            await asked_to_end.wait()
    finally:
        if record is not None:
            record.close()
    if summary := server.summary():
        _say(summary, sys.stderr)
        return 0 if options.lenient else 1
    return 0


def _greeting(server: ModelServer, key: str) -> str:
    return (
        f"model server ready: ANTHROPIC_BASE_URL={server.url} OPENAI_BASE_URL={server.openai_url} "
        f"ANTHROPIC_API_KEY={key} OPENAI_API_KEY={key}"
    )


def _say(line: str, stream: IO[str]) -> None:
    try:
        print(line, file=stream, flush=True)
    except OSError:
        # nobody reads any more; who uses the server finds it by the port that was asked for
        pass


class _Record:
    """Requests as JSON lines, without their keys."""

    def __init__(self, path: str) -> None:
        # appended to and flushed line by line: another process reads it while we run
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115
        self._count = 0
        self._broken = False

    def write(self, request: Received) -> None:
        self._count += 1
        headers = {name: "…" if name in SECRET else value for name, value in request.headers.items()}
        body = request.body
        data = {
            "n": self._count,
            "method": request.method,
            "path": request.path,
            "headers": headers,
            "body": body if body is not None else request.raw.decode("utf-8", "replace"),
        }
        try:
            self._file.write(codec.encode(data) + b"\n")
        except OSError as error:
            if not self._broken:
                self._broken = True
                _say(f"tugline model-server: a request could not be recorded: {error}", sys.stderr)

    def close(self) -> None:
        self._file.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
