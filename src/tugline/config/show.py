"""Settings for people: values with their origins, the JSON schema, the reference page."""

import json
import re
import typing
from typing import Any

import msgspec
from msgspec import Struct

from tugline.config.load import Config, all_paths, value_of
from tugline.config.settings import Settings
from tugline.config.sources import leaves, variable
from tugline.rules import hook_listing

_SECRET = re.compile(r"key|token|secret|passw|credential|auth|cookie|private", re.IGNORECASE)
_USERINFO = re.compile(r"(?<=://)[^/@\s]+@")


class Row(Struct, frozen=True):
    """One setting: its dotted name, its value as JSON with secrets masked, where it comes from."""

    name: str
    value: str
    origin: str


def rows(config: Config) -> tuple[Row, ...]:
    """All settings, in the order of the reference."""
    found: list[Row] = []
    for path in all_paths():
        value = msgspec.to_builtins(value_of(config.settings, path))
        origins = config.origins.get(path, ())
        origin = ", ".join(dict.fromkeys(str(one) for one in origins)) or "default"
        found.append(Row(".".join(path), json.dumps(_masked(value, path[-1]), ensure_ascii=False), origin))
    return tuple(found)


def _masked(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        secret = name in ("env", "headers")
        return {
            k: "***" if secret and _SECRET.search(k) else _masked(v, k if k in ("env", "headers") else name)
            for k, v in value.items()
        }
    if isinstance(value, list):
        return [_masked(each, name) for each in value]
    if isinstance(value, str):
        return _USERINFO.sub("***@", value)
    return value


def render(config: Config, *, origin: bool = False) -> str:
    """The settings as lines of text, with origins if asked for, then what is withheld and wrong."""
    found = rows(config)
    width = max(len(row.name) for row in found)
    lines = [f"{row.name:<{width}}  {row.value}" + (f"  ({row.origin})" if origin else "") for row in found]
    lines += [f"hook {hook_listing.line(hook)}  ({hook_listing.where(hook)})" for hook in config.hooks]
    lines += [config.hooks_off] if config.hooks_off else []
    lines += [f"not trusted, does not count: {name} in {source}" for name, source in config.withheld]
    lines += [f"{problem.level}: {problem.text}" for problem in config.problems]
    return "\n".join("".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in line) for line in lines) + "\n"


def schema() -> dict[str, Any]:
    """The JSON schema of a settings file."""
    found = msgspec.json.schema(Settings)
    definitions = found.get("$defs", {})
    for definition in definitions.values():
        definition.pop("required", None)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **definitions.pop("Settings"),
        "title": "Settings of tugline",
        "$defs": definitions,
    }


def schema_text() -> str:
    """The schema as it is published."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def reference() -> str:
    """The reference page of all settings."""
    lines = [
        "# Settings",
        "",
        "Made from `src/tugline/config/settings.py`; a test keeps it so.",
        "",
        "Layers, weakest first: defaults, user (`~/.claude/settings.json`, then",
        "`$XDG_CONFIG_HOME/tugline/settings.json`), project (`.claude/settings.json`, then `.tugline/settings.json`),",
        "local (`settings.local.json` in the same folders), environment, command line (`--settings`, then flags),",
        "managed policy (`/etc/tugline/managed-settings.json`). Lists and maps grow from layer to layer; of single",
        "values the strongest counts. In a folder that is not [trusted](../how-to/open-a-cloned-repository.md) only",
        "what forbids counts of its own files: `permissions.deny`, `permissions.ask`, `sandbox.denyRead`,",
        "`sandbox.denyWrite` and `sandbox.network.deniedDomains`. No project switches off `sandbox.enabled` or",
        "`sandbox.required`. The model is the exception: a setting stands above `TUGLINE_MODEL` and",
        "`ANTHROPIC_MODEL`, `--model` above both.",
        "",
        "Keys come from `ANTHROPIC_API_KEY`, `ANTHROPIC_AUTH_TOKEN` and `OPENAI_API_KEY` only and are never shown.",
        "`TUGLINE_HOME` moves configuration, data and cache together under one folder. Times are in seconds.",
        "Lists in variables are separated by commas or are JSON; maps are JSON.",
        "`tugline config show --origin` says what counts and where it comes from.",
        "",
        "| setting | default | variable | meaning |",
        "| --- | --- | --- | --- |",
    ]
    defaults = Settings()
    for path, annotation in leaves():
        default = json.dumps(msgspec.to_builtins(value_of(defaults, path)))
        lines.append(f"| `{'.'.join(path)}` | `{default}` | `{variable(path)}` | {_description(annotation)} |")
    return "\n".join(lines) + "\n"


def _description(annotation: Any) -> str:
    for extra in typing.get_args(annotation)[1:]:
        if isinstance(extra, msgspec.Meta) and extra.description:
            return extra.description
    return ""
