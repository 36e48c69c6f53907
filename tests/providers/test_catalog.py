from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tugline.protocol.errors import ConfigError
from tugline.protocol.specs import ModelCard, Price
from tugline.protocol.usage import Usage
from tugline.providers.catalog import Catalog, fit_effort
from tugline.rules.price import cost


def test_the_card_of_a_known_model() -> None:
    assert Catalog().card("claude-sonnet-4-5") == ModelCard(
        name="claude-sonnet-4-5",
        provider="anthropic",
        window=200_000,
        output_limit=32_000,
        output_ceiling=64_000,
        price=Price(3, 15, 1.25, 0.1),
        documents=True,
        thinking=True,
    )


def test_an_unknown_model_has_safe_defaults() -> None:
    assert Catalog().card("nobody-knows-it") == ModelCard(name="nobody-knows-it", known=False)


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("claude-sonnet-4-20250514", "claude-sonnet-4"),
        ("claude-sonnet-4-0", "claude-sonnet-4"),
        ("claude-3-5-sonnet-latest", "claude-3-5-sonnet"),
        ("claude-haiku-4-5@20251001", "claude-haiku-4-5"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5"),
        ("anthropic.claude-3-5-haiku-20241022-v1:0", "claude-3-5-haiku"),
        ("anthropic/claude-sonnet-4.5", "claude-sonnet-4-5"),
        ("gpt-4o-2024-08-06", "gpt-4o"),
        ("openai/gpt-4.1-mini-2025-04-14", "gpt-4.1-mini"),
        ("gpt-5.1-codex-mini", "gpt-5.1-codex-mini"),
        ("llama3.1:8b-instruct-q4_K_M", "llama3.1"),
        ("meta-llama/Llama-3.3-70B-Instruct", "llama3.3"),
        ("Qwen/Qwen2.5-Coder-7B-Instruct", "qwen2.5-coder"),
        ("gpt-oss:20b", "gpt-oss"),
        ("openai/gpt-oss-120b", "gpt-oss"),
        ("SmolLM2-135M-Instruct-Q8_0.gguf", "smollm2"),
    ],
)
def test_dated_and_dressed_up_names_match_their_base_entry(name: str, base: str) -> None:
    catalog = Catalog()
    made, expected = catalog.card(name), catalog.card(base)
    assert expected.known
    assert made.name == name
    assert (made.window, made.price, made.provider, made.known) == (
        expected.window,
        expected.price,
        expected.provider,
        True,
    )


@pytest.mark.parametrize(
    ("name", "provider"),
    [
        ("claude-next-9", "anthropic"),
        ("gpt-9", "openai"),
        ("gpt-5-mega", "openai"),
        ("o3-nano", "openai"),
        ("glm-x", ""),
    ],
)
def test_a_name_of_a_family_finds_its_provider_but_no_price(name: str, provider: str) -> None:
    card = Catalog().card(name)
    assert (card.name, card.provider, card.known, card.price) == (name, provider, False, Price())


def test_every_entry_is_sound() -> None:
    catalog = Catalog()
    for name in catalog.names():
        card = catalog.card(name)
        assert card.name == name
        assert card.known
        assert 0 < card.output_limit < card.window
        assert card.output_ceiling == 0 or card.output_limit <= card.output_ceiling < card.window
        assert bool(card.provider) <= (card.price.output > 0)
    for alias, name in catalog.aliases().items():
        assert catalog.card(alias) == catalog.card(name)
        assert catalog.card(name).known


def test_aliases_come_from_settings_first_and_never_loop() -> None:
    catalog = Catalog(aliases={"sonnet": "my-sonnet", "a": "b", "b": "a", "self": "self"})
    assert catalog.resolve("sonnet") == "my-sonnet"
    assert catalog.resolve("HAIKU") == "claude-haiku-4-5"
    assert catalog.resolve("a") in ("a", "b")
    assert catalog.resolve("self") == "self"
    assert catalog.resolve("unknown") == "unknown"


def test_settings_change_single_fields() -> None:
    catalog = Catalog(
        {
            "claude-sonnet-4-5": {"outputLimit": 1000, "price": {"input": 9, "cacheRead": 0.5}},
            "mine": {"window": 9000, "images": False},
        }
    )
    card = catalog.card("claude-sonnet-4-5")
    assert (card.output_limit, card.window, card.price) == (1000, 200_000, Price(9, 15, 1.25, 0.5))
    assert catalog.card("claude-sonnet-4-5-20250929").output_limit == 1000
    assert catalog.card("mine") == ModelCard(name="mine", window=9000, images=False)
    assert "mine" in catalog.names()


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"windwo": 5}, "'windwo' is no field"),
        ({"window": "big"}, "Expected `int`"),
        ({"price": 5}, "Expected `object`"),
        ({"price": {"inptu": 5}}, "'inptu' is no part of a price"),
        ({"name": "x"}, "'name' is no field"),
        ({"efforts": ["huge"]}, "Invalid enum value 'huge'"),
        (5, "expected an object"),
    ],
)
def test_wrong_settings_are_named(fields: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        Catalog({"m": fields})
    assert "models.m" in str(caught.value)


@given(st.text(max_size=40))
def test_any_name_has_a_card(name: str) -> None:
    catalog = Catalog()
    assert catalog.card(name).window > 0


def test_cards_are_remembered_within_bounds() -> None:
    catalog = Catalog()
    for number in range(2500):
        catalog.card(f"model-{number}")
    assert len(catalog._cards) <= 1000


def test_fitting_an_effort() -> None:
    card = ModelCard(name="m", efforts=("medium", "high"))
    assert [fit_effort(card, effort) for effort in (None, "low", "medium", "xhigh", "max")] == [
        None,
        "medium",
        "medium",
        "high",
        "high",
    ]
    assert fit_effort(ModelCard(name="m"), "high") is None
    assert fit_effort(ModelCard(name="m", known=False), "high") == "high"


def test_what_a_reply_costs() -> None:
    card = Catalog().card("claude-sonnet-4-5")
    usage = Usage(input=1_000_000, output=100_000, cache_read=1_000_000, cache_write=200_000)
    assert cost(card, usage) == pytest.approx(3 + 1.5 + 0.3 + 0.75)
    assert cost(ModelCard(name="x"), usage) == 0
    assert cost(card, Usage()) == 0
