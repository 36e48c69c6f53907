"""`local:/path/model.gguf` with the real llama.cpp, from the provider to a whole session."""

import os
from pathlib import Path

import anyio
import pytest
from partner import ask, person

import tugline
from tugline.protocol.chunks import BlockDelta
from tugline.protocol.errors import ProviderError
from tugline.protocol.specs import ModelRequest
from tugline.providers.local import LocalProvider, local_card

pytest_plugins = ["partner_programs"]

pytestmark = pytest.mark.partner


def test_the_card_has_the_models_own_window(model_file: str) -> None:
    card = local_card(f"local:{model_file}")
    assert (card.window, card.tools, card.price.input) == (8192, False, 0.0)


async def test_the_window_of_the_card_is_the_one_that_the_server_keeps(model_file: str) -> None:
    name = f"local:{model_file}"
    provider = LocalProvider({name: {"window": 1024}})
    try:
        await ask(provider, ModelRequest(name, (person("word " * 900),), max_output_tokens=1))
        with pytest.raises(ProviderError) as raised:
            await ask(provider, ModelRequest(name, (person("word " * 1100),), max_output_tokens=1))
    finally:
        await provider.aclose()
    assert raised.value.failure.kind == "prompt_too_long"


async def test_a_cut_file_says_so(model_file: str, tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    with open(model_file, "rb") as whole:
        broken.write_bytes(whole.read(8_000_000))
    provider = LocalProvider()
    try:
        with pytest.raises(ProviderError, match="corrupted or incomplete") as raised:
            await ask(provider, ModelRequest(str(broken), (person("hi"),)))
    finally:
        await provider.aclose()
    assert raised.value.failure.kind == "invalid_model"


async def test_two_providers_and_replies_that_are_left_do_not_disturb_each_other(model_file: str) -> None:
    request = ModelRequest(model_file, (person("Count to a thousand."),), max_output_tokens=2000)
    first, second = LocalProvider(), LocalProvider()
    try:
        with anyio.fail_after(60):
            for provider in (first, second, first):
                async with provider.stream(request) as batches:
                    async for batch in batches:
                        if any(isinstance(chunk, BlockDelta) for chunk in batch):
                            break
            await first.aclose()
            said = await ask(second, ModelRequest(model_file, (person("Hi"),), max_output_tokens=8))
    finally:
        await second.aclose()
    assert said.text


async def test_a_session_runs_on_it(model_file: str, tmp_path: Path) -> None:
    agent = tugline.Session(
        model=f"local:{model_file}",
        builtin_tools=(),
        system_prompt="You are brief.",
        cwd=str(tmp_path),
        settings={"models": {f"local:{model_file}": {"outputLimit": 16}}},
        environ={"HOME": str(tmp_path), "PATH": os.environ["PATH"]},
    )
    async with agent:
        for _ in range(2):
            end = await agent.run("Say something.")
            assert (end.reason, end.total_cost_usd) == ("completed", 0.0), end.message
            assert end.text
        assert end.spend.usage.cache_read > 0


async def test_a_session_says_what_a_model_without_tools_lacks(model_file: str, tmp_path: Path) -> None:
    agent = tugline.Session(
        model=f"local:{model_file}",
        cwd=str(tmp_path),
        environ={"HOME": str(tmp_path), "PATH": os.environ["PATH"]},
    )
    async with agent:
        end = await agent.run("Say something.")
    assert end.reason == "api_error"
    assert "cannot call tools" in end.message
