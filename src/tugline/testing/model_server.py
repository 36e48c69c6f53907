"""The scripted model behind real HTTP: Anthropic Messages, OpenAI Chat Completions and OpenAI Responses."""

import asyncio
import socket
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote, urlsplit

import msgspec

from tugline.protocol import codec
from tugline.protocol.errors import UsageError
from tugline.protocol.script import HttpError, Script, Step
from tugline.testing.connection import Connection, Connections, Received
from tugline.testing.dialects import Dialect, Json
from tugline.testing.engine import Engine, Taken, UnexpectedRequest, error_kind
from tugline.testing.perform import perform
from tugline.testing.prompt_cache import PromptCache
from tugline.testing.transmit import Transmission
from tugline.testing.validity import Invalid, require
from tugline.testing.wire_anthropic import Messages, pieces
from tugline.testing.wire_chat import Chat
from tugline.testing.wire_responses import Responses

REQUEST_BYTES_KEPT = 256 << 20
JSON = "application/json"


class ModelServer:
    """A model server for tests: `async with ModelServer(script) as server:` and point a client to `server.url`.

    Leaving the context without an error checks that all went as scripted (`ScriptMismatch`), unless `lenient`.
    `requests` holds what came (the oldest are dropped beyond 256 MiB, or all with `keep_requests=False`).
    """

    def __init__(
        self,
        script: Script | Sequence[Step],
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        require_key: str | None = None,
        lenient: bool = False,
        models: Sequence[str] = ("scripted",),
        keep_requests: bool = True,
        on_request: Callable[[Received], None] | None = None,
    ) -> None:
        self.requests: list[Received] = []
        self.host = host
        self.port = port
        self._engine = Engine(script if isinstance(script, Script) else Script(script))
        self._key = require_key
        self._lenient = lenient
        self._models = tuple(models)
        self._keep = keep_requests
        self._on_request = on_request
        self._kept_bytes = 0
        self._count = 0
        self._caches: dict[str, PromptCache] = {}
        self._connections = Connections()
        self._server: asyncio.Server | None = None
        self._dialects: dict[str, Dialect] = {
            "/v1/messages": Messages(),
            "/v1/chat/completions": Chat(),
            "/v1/responses": Responses(),
        }

    @property
    def url(self) -> str:
        """The server's address, as `ANTHROPIC_BASE_URL` wants it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    @property
    def openai_url(self) -> str:
        """The server's address, as `OPENAI_BASE_URL` wants it."""
        return f"{self.url}/v1"

    @property
    def bodies(self) -> list[Any]:
        """The bodies of the requests that asked for a reply, parsed."""
        return [request.body for request in self.requests if _path(request) in self._dialects]

    @property
    def remaining(self) -> list[str]:
        """The steps that nobody asked for yet, one line each."""
        return self._engine.unconsumed()

    @property
    def problems(self) -> list[str]:
        """What was not as scripted so far, unconsumed steps apart."""
        return self._engine.problems

    @property
    def connections(self) -> int:
        """Connections that are open now."""
        return len(self._connections.open)

    def open(self, *gates: str) -> None:
        """Open these gates."""
        self._engine.gates.open(*gates)

    async def reached(self, gate: str, count: int = 1) -> None:
        """Until `count` replies in all have come to this gate."""
        await self._engine.gates.reached(gate, count)

    async def disconnected(self) -> None:
        """Until no client is connected."""
        await self._connections.none()

    def check(self) -> None:
        """Raise `ScriptMismatch` unless all went as scripted."""
        self._engine.check()

    def summary(self) -> str:
        """What was not as scripted, as lines; empty if all was."""
        return self._engine.summary()

    async def __aenter__(self) -> Self:
        # plain tasks, no task group: a fixture is entered and left in different tasks
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(
                lambda: Connection(self._serve, self._connections),
                self.host,
                self.port,
                family=socket.AF_INET6 if ":" in self.host else socket.AF_INET,
                backlog=1024,
            )
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise UsageError(f"cannot listen on {self.host}:{self.port}: {reason}") from None
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        connections = tuple(self._connections.open)
        for connection in connections:
            connection.reset()
        for connection in connections:
            await connection.ended()
        await self._connections.none()
        await self._server.wait_closed()
        if kind is None and not self._lenient:
            self.check()

    # answering

    async def _serve(self, request: Received, connection: Connection) -> None:
        self._count += 1
        self._remember(request)
        path = _path(request)
        dialect = self._dialects.get(path)
        if path.startswith("/control"):
            await self._control(path, request, connection)
        elif refusal := self._locked(request):
            self._refuse(connection, self._dialect_of(path, request), refusal)
        elif dialect is not None and request.method == "POST":
            await self._reply(dialect, request, connection)
        elif path == "/v1/messages/count_tokens" and request.method == "POST":
            self._count_tokens(request, connection)
        elif path.startswith("/v1/models") and request.method == "GET":
            self._list_models(path, request, connection)
        else:
            self._engine.report(f"unexpected request: {request.method} {path}")
            known = HttpError(404, f"this server has no {request.method} {path}")
            self._refuse(connection, self._dialect_of(path, request), known)

    async def _reply(self, dialect: Dialect, request: Received, connection: Connection) -> None:
        try:
            body = _object(request)
            dialect.check(body, request.headers)
            view = dialect.view(body)
            if purpose := request.headers.get("x-tugline-purpose"):
                view = msgspec.structs.replace(view, purpose=purpose)
            taken = self._engine.take(view)
            if taken.step.error is not None:
                self._refuse(connection, dialect, taken.step.error)
                return
            key = request.headers.get("x-api-key") or request.headers.get("authorization", "")
            usage = dialect.usage(body, self._cache(key))
            acts = list(perform(taken, usage))
        except Invalid as invalid:
            self._engine.report(f"invalid request: {invalid}")
            self._refuse(connection, dialect, HttpError(400, str(invalid)))
            return
        except UnexpectedRequest as unexpected:
            self._refuse(connection, dialect, _for_good(str(unexpected)))
            return
        transmission = Transmission(connection, self._engine.gates, acts, taken.step)
        await transmission.send(dialect, body, self._headers(dialect, taken))

    def _count_tokens(self, request: Received, connection: Connection) -> None:
        dialect = Messages()
        try:
            body = _object(request)
            dialect.check_prompt(body)
        except Invalid as invalid:
            self._engine.report(f"invalid request: {invalid}")
            self._refuse(connection, dialect, HttpError(400, str(invalid)))
            return
        tokens = -(-sum(len(piece.data) for piece in pieces(body)) // 4)
        self._json(connection, 200, {"input_tokens": tokens})

    def _list_models(self, path: str, request: Received, connection: Connection) -> None:
        name = unquote(path.removeprefix("/v1/models").lstrip("/"))
        anthropic = "anthropic-version" in request.headers
        models = [_model(model, anthropic) for model in self._models]
        if not name:
            page = {"has_more": False, "first_id": self._models[0], "last_id": self._models[-1]} if models else {}
            self._json(connection, 200, {"data": models, **(page if anthropic else {"object": "list"})})
        elif name in self._models:
            self._json(connection, 200, _model(name, anthropic))
        else:
            self._refuse(connection, self._dialect_of(path, request), HttpError(404, f"model: {name}"))

    async def _control(self, path: str, request: Received, connection: Connection) -> None:
        """`GET /control`, `POST /control/gates/NAME` (open), `GET /control/gates/NAME` (until someone is there)."""
        gates = self._engine.gates
        name = unquote(path.removeprefix("/control").removeprefix("/gates").lstrip("/"))
        if name and request.method == "POST":
            gates.open(name)
        elif name:
            await gates.reached(name)
        state = {
            "answered": self._engine.answered,
            "waiting": gates.waiting(),
            "remaining": self.remaining,
            "problems": self.problems,
        }
        self._json(connection, 200, state)

    def _locked(self, request: Received) -> HttpError | None:
        if self._key is None:
            return None
        given = (request.headers.get("x-api-key"), request.headers.get("authorization", "").removeprefix("Bearer "))
        return None if self._key in given else HttpError(401, "invalid x-api-key")

    def _refuse(self, connection: Connection, dialect: Dialect, error: HttpError) -> None:
        headers = {"content-type": JSON, "request-id": f"req_{self._count}", "x-request-id": f"req_{self._count}"}
        if error.retry_after is not None:
            headers["retry-after"] = f"{error.retry_after:g}"
        headers |= {name.lower(): value for name, value in error.headers.items()}
        kind = error_kind(error)
        body = dialect.error(kind, error.message or kind.replace("_", " "), f"req_{self._count}")
        data = codec.encode(body) if error.body is None else error.body.encode()
        connection.answer(error.status, headers, data)

    def _json(self, connection: Connection, status: int, body: Mapping[str, Any]) -> None:
        connection.answer(status, {"content-type": JSON}, codec.encode(body))

    def _headers(self, dialect: Dialect, taken: Taken) -> dict[str, str]:
        name = "request-id" if dialect.name == "messages" else "x-request-id"
        return {name: f"req_{self._count}"}

    def _dialect_of(self, path: str, request: Received) -> Dialect:
        anthropic = path.startswith("/v1/messages") or "anthropic-version" in request.headers
        return self._dialects.get(path) or self._dialects["/v1/messages" if anthropic else "/v1/chat/completions"]

    def _cache(self, key: str) -> PromptCache:
        return self._caches.setdefault(key, PromptCache())

    def _remember(self, request: Received) -> None:
        if self._on_request is not None:
            self._on_request(request)
        if not self._keep:
            return
        self.requests.append(request)
        self._kept_bytes += len(request.raw)
        while self._kept_bytes > REQUEST_BYTES_KEPT and len(self.requests) > 1:
            self._kept_bytes -= len(self.requests.pop(0).raw)


def _path(request: Received) -> str:
    return urlsplit(request.path).path.rstrip("/")


def _object(request: Received) -> Json:
    body = request.body
    require(isinstance(body, dict), "the body is not a JSON object")
    return body  # type: ignore[no-any-return]


def _for_good(message: str) -> HttpError:
    return HttpError(500, message, headers={"x-should-retry": "false"})


def _model(name: str, anthropic: bool) -> Mapping[str, Any]:
    if anthropic:
        return {"type": "model", "id": name, "display_name": name, "created_at": "2025-01-01T00:00:00Z"}
    return {"id": name, "object": "model", "created": 1_735_689_600, "owned_by": "tugline"}
