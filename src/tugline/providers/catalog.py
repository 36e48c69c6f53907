"""What is known of models: limits, prices, abilities. The data stands in `models.json`; settings override it."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from tugline.protocol.errors import ConfigError
from tugline.protocol.specs import Effort, ModelCard, Price

REMEMBERED = 1000
ALIAS_DEPTH = 5

_DATED = re.compile(r"(?:[-@](?:\d{8}|\d{4}-\d{2}-\d{2})|-latest|-0)$")
_BEDROCK = re.compile(r"^(?:[a-z]+(?:-[a-z]+)?\.)?anthropic\.")
_BEDROCK_VERSION = re.compile(r"-v\d+(?::\d+)?$")
_LOOSE_DIGITS = re.compile(r"(?<=[a-z])-(?=\d)")
_EFFORTS: tuple[Effort, ...] = ("low", "medium", "high", "xhigh", "max")


class Family(Struct, frozen=True):
    """What is supposed of names that begin so and have no entry."""

    prefix: str
    card: ModelCard


class CatalogData(Struct, frozen=True):
    """The shape of `models.json`."""

    aliases: dict[str, str]
    families: tuple[Family, ...]
    models: tuple[ModelCard, ...]


class Catalog:
    """Cards by name. Dated names match their base entry; unknown names get safe defaults, `known=False`.

    `overrides`: per name, the fields of its card that are different (`outputLimit` or `output_limit`); raises
    `ConfigError` for what is no field or no fitting value. `aliases`: other names of models, before the built-in ones.
    """

    def __init__(
        self, overrides: Mapping[str, Mapping[str, Any]] | None = None, aliases: Mapping[str, str] | None = None
    ) -> None:
        data = _load()
        self._entries = {card.name: card for card in data.models}
        self._families = data.families
        self._aliases = {**data.aliases, **(aliases or {})}
        self._overrides: dict[str, ModelCard] = {}
        self._cards: dict[str, ModelCard] = {}
        for name, fields in (overrides or {}).items():
            self._overrides[name] = _override(name, fields, self._find(name))
            self._cards.clear()

    def names(self) -> tuple[str, ...]:
        """The models that have an entry, sorted."""
        return tuple(sorted({*self._entries, *self._overrides}))

    def aliases(self) -> dict[str, str]:
        """The aliases and what they stand for."""
        return dict(self._aliases)

    def resolve(self, name: str) -> str:
        """The model that an alias stands for; any other name as it is."""
        for _ in range(ALIAS_DEPTH):
            target = self._aliases.get(name) or self._aliases.get(name.lower())
            if target is None or target == name:
                break
            name = target
        return name

    def card(self, model: str) -> ModelCard:
        """What is known of a model; its `name` is the one asked for, aliases resolved."""
        found = self._cards.get(model)
        if found is None:
            name = self.resolve(model)
            found = self._overrides.get(name) or self._find(name)
            if found.name != name:
                found = msgspec.structs.replace(found, name=name)
            if len(self._cards) >= REMEMBERED:
                self._cards.clear()
            self._cards[model] = found
        return found

    def _find(self, name: str) -> ModelCard:
        for candidate in _spellings(name):
            card = self._overrides.get(candidate) or self._entries.get(candidate)
            if card is not None:
                return card
        clean = _spellings(name)[-1]
        local = max((base for base in self._entries if self._is_variant(clean, base)), key=len, default=None)
        if local is not None:
            return self._entries[local]
        for family in self._families:
            if clean.startswith(family.prefix):
                return family.card
        return ModelCard(name=name, known=False)

    def _is_variant(self, name: str, base: str) -> bool:
        """Open models come in many sizes and packings, which share what a card says; those of vendors do not."""
        return not self._entries[base].provider and name.startswith((base + "-", base + ":", base + "_", base + "."))


def fit_effort(card: ModelCard, effort: Effort | None) -> Effort | None:
    """The effort to ask the model for: the wanted one, else the next lower one that it knows, else its lowest.

    `None` where there is nothing to ask for. A model without an entry is asked for what the user wants.
    """
    if effort is None or effort in card.efforts or not card.known:
        return effort
    lower = [known for known in card.efforts if _EFFORTS.index(known) < _EFFORTS.index(effort)]
    return max(lower or card.efforts[:1], key=_EFFORTS.index, default=None)


def _load() -> CatalogData:
    return msgspec.json.decode(Path(__file__).with_name("models.json").read_bytes(), type=CatalogData)


def _spellings(name: str) -> tuple[str, ...]:
    """The name as given, then plainer and plainer."""
    plain = name.strip().lower().rpartition("/")[2]
    unversioned = _BEDROCK_VERSION.sub("", _BEDROCK.sub("", plain))
    undated = _DATED.sub("", unversioned)
    spellings = [name, plain, unversioned, undated]
    if undated.startswith("claude-"):
        spellings.append(undated.replace(".", "-"))
    else:
        untagged = undated.partition(":")[0]
        spellings += [untagged, _LOOSE_DIGITS.sub("", untagged, count=1)] if not untagged.startswith("gpt") else []
    return tuple(spellings)


def _override(name: str, fields: Mapping[str, Any], base: ModelCard) -> ModelCard:
    if not isinstance(fields, Mapping):
        raise ConfigError(f"models.{name}: expected an object with the fields of a model")
    known = ModelCard.__struct_fields__
    merged: dict[str, Any] = msgspec.to_builtins(base)
    merged.update(name=name, known=True)
    for key, value in fields.items():
        field = _snake(key)
        if field not in known or field in ("name", "known"):
            raise ConfigError(f"models.{name}: {key!r} is no field of a model; there are {', '.join(known[1:-1])}")
        if field == "price" and isinstance(value, Mapping):
            prices = {_snake(part): amount for part, amount in value.items()}
            if wrong := set(prices) - set(Price.__struct_fields__):
                raise ConfigError(f"models.{name}.price: {sorted(wrong)[0]!r} is no part of a price")
            value = {**merged["price"], **prices}
        merged[field] = value
    try:
        return msgspec.convert(merged, ModelCard)
    except msgspec.ValidationError as error:
        raise ConfigError(f"models.{name}: {error}") from None


def _snake(key: str) -> str:
    return re.sub(r"[A-Z]", lambda match: "_" + match[0].lower(), key)
