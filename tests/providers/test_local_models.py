"""Models from files: what is known of them, and the process that they run in.

llama.cpp itself is played by a module of that name; the real one is tried in `tests/partners`.
"""

import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from gguf_file import gguf, number, string

from tugline.ports import Provider
from tugline.protocol.blocks import Text
from tugline.protocol.chunks import BlockClosed, BlockDelta, Chunk
from tugline.protocol.errors import ConfigError, Failure, ProviderError
from tugline.protocol.ids import MessageId
from tugline.protocol.messages import User
from tugline.protocol.specs import ModelCard, ModelRequest, Price, ToolSpec
from tugline.providers import local
from tugline.providers.local import LocalProvider, check_local_model, local_card, model_path
from tugline.providers.retry import NetworkSettings, Retry

FAKE = """
import json, os, sys, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

FOLDER = os.path.dirname(__file__)
LINES = [
    {"delta": {"role": "assistant", "content": None}},
    {"delta": {"content": "Hel"}},
    {"delta": {"content": "lo."}},
    {"delta": {}, "finish_reason": "stop"},
]


class CommonParams:
    def __init__(self):
        self.model = type("Model", (), {})()


class Answer(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        note("requests", {"body": body, "key": self.headers["authorization"]})
        while os.path.exists(FOLDER + "/mute"):
            time.sleep(0.01)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for line in LINES:
            if os.path.exists(FOLDER + "/die") and line["delta"].get("content") == "lo.":
                os._exit(9)
            chunk = {"id": "c", "model": "m", "choices": [{"index": 0, "finish_reason": None, **line}]}
            self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\\n\\n")
            self.wfile.flush()
        self.wfile.write(b"data: [DONE]\\n\\n")

    def log_message(self, *_):
        pass


class Server:
    def __init__(self, params):
        start = {"path": params.model.path, "window": params.n_ctx, "key": params.api_keys[0]}
        openmp = {name: os.environ.get(name) for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
        note("starts", {"pid": os.getpid(), "openmp": openmp, **start})
        while os.path.exists(FOLDER + "/slow"):
            time.sleep(0.01)
        if os.path.exists(FOLDER + "/abort"):
            os._exit(3)
        if os.path.exists(FOLDER + "/refuse"):
            os.write(2, b"0.00.1 I srv  loading\\n0.00.2 E llama_model_load: tensors are missing\\n")
            os.write(2, b"0.00.3 E cmn  common_init: failed\\n")
            raise RuntimeError("Failed to init server")
        os.write(2, b"0.00.004.090 I chatter\\n" * 20000)
        server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.listening_address = "http://127.0.0.1:%d" % server.server_port


def note(name, data):
    with open(FOLDER + "/" + name, "a") as file:
        file.write(json.dumps(data) + "\\n")
"""


class Machine:
    """Where the played llama.cpp looks for what to do, and notes what it did."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.model = f"local:{folder / 'model.gguf'}"

    def notes(self, name: str) -> list[dict[str, Any]]:
        path = self.folder / name
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def alive(self) -> list[bool]:
        return [Path(f"/proc/{start['pid']}").exists() for start in self.notes("starts")]

    async def started(self, count: int = 1) -> None:
        with anyio.fail_after(20):
            while len(self.notes("starts")) < count:
                await anyio.sleep(0.005)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    (tmp_path / "xllamacpp.py").write_text(FAKE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(local, "SIGN_OF_LIFE", 0.02)
    write_model(tmp_path / "model.gguf")
    return Machine(tmp_path)


@pytest.fixture
async def provider() -> AsyncIterator[LocalProvider]:
    made = LocalProvider()
    yield made
    await made.aclose()


def write_model(path: Path, *, context: int = 4096, template: str = "{% if tools %}") -> None:
    fields = string("general.architecture", "llama"), number("llama.context_length", context)
    path.write_bytes(gguf(*fields, string("tokenizer.chat_template", template)))


def request(machine: Machine, **rest: Any) -> ModelRequest:
    return ModelRequest(machine.model, (User(MessageId("u"), (Text("hi"),)),), **rest)


def patient(provider: Provider) -> Provider:
    return Retry(provider, NetworkSettings(retry_base=0.001))


async def ask(provider: Provider, asked: ModelRequest, each: Callable[[Any], None] | None = None) -> list[Chunk]:
    chunks: list[Chunk] = []
    async with provider.stream(asked) as batches:
        async for batch in batches:
            if each is not None:
                each(batch)
            chunks += batch
    return chunks


def words(chunks: list[Chunk]) -> list[Any]:
    return [chunk.block for chunk in chunks if isinstance(chunk, BlockClosed)]


async def test_a_model_starts_with_its_first_request_serves_all_and_ends_with_its_provider(machine: Machine) -> None:
    provider = LocalProvider()
    assert provider.card(machine.model).window == 4096
    assert machine.notes("starts") == []
    for _ in range(2):
        assert words(await ask(provider, request(machine))) == [Text("Hello.")]
    assert machine.alive() == [True]
    await provider.aclose()
    assert machine.alive() == [False]
    [start] = machine.notes("starts")
    assert (start["path"], start["window"]) == (str(machine.folder / "model.gguf"), 4096)
    for seen in machine.notes("requests"):
        assert seen["key"] == f"Bearer {start['key']}"
        assert (seen["body"]["return_progress"], seen["body"]["max_tokens"]) == (True, 1024)


async def test_requests_at_once_share_one_start(machine: Machine, provider: LocalProvider) -> None:
    async with anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(ask, provider, request(machine))
    assert len(machine.notes("starts")) == 1
    assert len(machine.notes("requests")) == 4


async def test_providers_of_one_process_have_models_of_their_own(machine: Machine, provider: LocalProvider) -> None:
    other = LocalProvider()
    await ask(provider, request(machine))
    await ask(other, request(machine))
    await other.aclose()
    assert machine.alive() == [True, False]
    assert words(await ask(provider, request(machine))) == [Text("Hello.")]


async def test_a_slow_start_gives_signs_of_life(machine: Machine, provider: LocalProvider) -> None:
    slow = machine.folder / "slow"
    slow.touch()
    signs = 0

    def count(batch: Any) -> None:
        nonlocal signs
        signs += not batch
        if signs == 3:
            slow.unlink(missing_ok=True)

    assert words(await ask(provider, request(machine), count)) == [Text("Hello.")]
    assert signs >= 3


async def test_leaving_during_the_start_ends_it_and_the_next_request_starts_anew(
    machine: Machine, provider: LocalProvider
) -> None:
    slow = machine.folder / "slow"
    slow.touch()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, provider, request(machine))
        await machine.started()
        tasks.cancel_scope.cancel()
    assert machine.alive() == [False]
    slow.unlink()
    assert words(await ask(provider, request(machine))) == [Text("Hello.")]
    assert machine.alive() == [False, True]


async def test_a_model_that_died_is_started_again(machine: Machine, provider: LocalProvider) -> None:
    await ask(provider, request(machine))
    os.kill(machine.notes("starts")[0]["pid"], signal.SIGKILL)
    # whether anybody has noticed yet that it is gone, or the request fails first
    assert words(await ask(patient(provider), request(machine))) == [Text("Hello.")]
    assert machine.alive() == [False, True]


async def test_a_model_that_dies_in_a_reply_breaks_it_and_can_be_asked_again(
    machine: Machine, provider: LocalProvider
) -> None:
    (machine.folder / "die").touch()
    chunks: list[Chunk] = []
    with pytest.raises(ProviderError) as raised:
        await ask(provider, request(machine), chunks.extend)
    assert raised.value.failure.retryable
    assert [chunk.text for chunk in chunks if isinstance(chunk, BlockDelta)] == ["Hel"]
    (machine.folder / "die").unlink()
    assert words(await ask(patient(provider), request(machine))) == [Text("Hello.")]


async def test_a_model_that_stays_silent_is_a_clear_error_and_started_anew_when_asked_again(
    machine: Machine, provider: LocalProvider
) -> None:
    (machine.folder / "mute").touch()
    passed = 0.0

    def pass_time(batch: Any) -> None:
        nonlocal passed
        if machine.notes("requests"):
            passed += 100

    with pytest.raises(ProviderError) as raised:
        await ask(Retry(provider, clock=lambda: passed), request(machine), pass_time)
    assert raised.value.failure.kind == "timeout"
    assert raised.value.failure.message == (
        "the reply broke off: nothing came for 600 s (gave up after one try and 10 min)"
    )
    assert machine.alive() == [False]
    (machine.folder / "mute").unlink()
    assert words(await ask(provider, request(machine))) == [Text("Hello.")]
    assert machine.alive() == [False, True]


def given_up() -> ProviderError:
    return ProviderError(Failure("timeout", "nothing came", retryable=True))


@pytest.mark.parametrize("stop", [False, True], ids=["it still runs", "it is frozen"])
async def test_a_model_that_falls_silent_in_a_reply_is_ended_and_the_next_try_has_a_new_one(
    machine: Machine, provider: LocalProvider, stop: bool
) -> None:
    def leave(batch: Any) -> None:
        if any(isinstance(chunk, BlockDelta) for chunk in batch):
            if stop:
                os.kill(machine.notes("starts")[0]["pid"], signal.SIGSTOP)
            raise given_up()

    with pytest.raises(ProviderError):
        await ask(provider, request(machine), leave)
    assert machine.alive() == [False]
    assert words(await ask(provider, request(machine))) == [Text("Hello.")]
    assert machine.alive() == [False, True]


async def test_a_model_that_is_silent_to_one_and_speaks_to_others_goes_on(
    machine: Machine, provider: LocalProvider
) -> None:
    first, second = provider.stream(request(machine)), provider.stream(request(machine))
    batches = await first.__aenter__()
    while not await anext(batches):
        pass
    async with second as others:
        said = [chunk async for batch in others for chunk in batch]
    error = given_up()
    await first.__aexit__(ProviderError, error, None)
    assert words(said) == [Text("Hello.")]
    assert machine.alive() == [True]


async def test_its_threads_do_not_keep_processors_while_they_wait(
    machine: Machine, provider: LocalProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    await ask(provider, request(machine))
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    other = LocalProvider()
    await ask(other, request(machine))
    await other.aclose()
    assert [start["openmp"] for start in machine.notes("starts")] == [
        {"GOMP_SPINCOUNT": "500", "OMP_WAIT_POLICY": None},
        {"GOMP_SPINCOUNT": None, "OMP_WAIT_POLICY": "active"},
    ]


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        ("refuse", "cannot use model.gguf as a model: tensors are missing"),
        ("abort", "cannot use model.gguf as a model: llama.cpp gave up while loading it (exit status 3)"),
    ],
)
async def test_a_model_that_cannot_be_loaded_is_a_clear_error(
    machine: Machine, provider: LocalProvider, trouble: str, reason: str
) -> None:
    (machine.folder / trouble).touch()
    for _ in range(2):
        with pytest.raises(ProviderError) as raised:
            await ask(provider, request(machine))
        assert (raised.value.failure.message, raised.value.failure.retryable) == (reason, False)
    assert machine.alive() == [False, False]


async def test_a_closed_provider_starts_nothing(machine: Machine, provider: LocalProvider) -> None:
    model = provider.model(machine.model)
    await provider.aclose()
    with pytest.raises(ProviderError, match="closed"):
        await model.chat()
    assert machine.notes("starts") == []


async def test_tools_are_refused_where_the_template_knows_of_none(machine: Machine, provider: LocalProvider) -> None:
    write_model(machine.folder / "model.gguf", template="{{ messages }}")
    with pytest.raises(ProviderError, match="cannot call tools"):
        await ask(provider, request(machine, tools=(ToolSpec("Read", "", {"type": "object"}),)))
    assert words(await ask(provider, request(machine))) == [Text("Hello.")]


def test_a_card_says_what_the_file_says(machine: Machine) -> None:
    assert local_card(machine.model) == ModelCard(
        name=machine.model,
        provider="local",
        window=4096,
        output_limit=1024,
        price=Price(0.0, 0.0),
        images=False,
        tools=True,
        text_calls=True,
    )


def test_a_large_window_is_only_taken_where_the_settings_say_so(machine: Machine) -> None:
    write_model(machine.folder / "model.gguf", context=131_072)
    bare = machine.model.removeprefix("local:")
    assert local_card(machine.model).window == 32_768
    for name in (bare, machine.model):
        for asked in (bare, machine.model):
            assert local_card(asked, {name: {"window": 65_536}}).window == 65_536


def test_a_card_of_nothing_is_a_safe_one(tmp_path: Path) -> None:
    card = local_card(f"local:{tmp_path}/missing.gguf")
    assert (card.window, card.tools, card.provider) == (32_768, False, "local")


def test_a_path_is_told_from_the_home_or_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.chdir(tmp_path)
    assert model_path("local:~/m.gguf") == "/home/me/m.gguf"
    assert model_path("local:m.gguf") == str(tmp_path / "m.gguf")
    assert model_path("/x/../m.gguf") == "/m.gguf"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("missing.gguf", "there is no model file {0}/missing.gguf"),
        ("", "{0} cannot be used as a model: it is a folder; name the .gguf file in it"),
        ("xllamacpp.py", "{0}/xllamacpp.py cannot be used as a model: it is no GGUF file"),
        ("model.gguf/x", "the model file {0}/model.gguf/x cannot be read: Not a directory"),
        ("nul\0l", "{0}/nul\0l cannot be used as a model: embedded null byte"),
    ],
)
async def test_what_is_no_model_is_told_before_anything_starts(
    machine: Machine, provider: LocalProvider, name: str, reason: str
) -> None:
    model = f"local:{machine.folder}/{name}"
    told = reason.format(machine.folder)
    with pytest.raises(ConfigError) as checked:
        check_local_model(model)
    with pytest.raises(ProviderError) as asked:
        await ask(provider, ModelRequest(model, ()))
    assert (str(checked.value), asked.value.failure.message) == (told, told)
    assert machine.notes("starts") == []


def test_a_missing_extra_is_told_with_what_to_install(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    check_local_model(machine.model)
    monkeypatch.setattr(local, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'tugline\[local\]'"):
        check_local_model(machine.model)
