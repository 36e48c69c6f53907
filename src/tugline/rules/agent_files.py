"""What a file, or an entry of JSON, says of an agent type."""

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, get_args

import msgspec
from msgspec import structs

from tugline.protocol.agents import AgentDefinition, AgentScope, SkippedAgent
from tugline.protocol.specs import Mode
from tugline.rules.front_matter import read_front_matter

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,99}\Z")
_NAMES = {
    "name": "name",
    "description": "description",
    "prompt": "prompt",
    "tools": "tools",
    "disallowedTools": "disallowed_tools",
    "model": "model",
    "permissionMode": "permission_mode",
    "maxTurns": "max_turns",
    "skills": "skills",
    "mcpServers": "mcp_servers",
    "hooks": "hooks",
    "memory": "memory",
    "background": "background",
    "effort": "effort",
    "thinkingTokens": "thinking_tokens",
    "isolation": "isolation",
    "color": "color",
    "fork": "fork",
    "initialPrompt": "initial_prompt",
    "reminder": "reminder",
    "allowPrompts": "allow_prompts",
    "context": "context",
}
_LISTS = frozenset(["tools", "disallowedTools", "skills", "allowPrompts"])
_SPLIT = re.compile(r",(?![^(]*\))|\s(?![^(]*\))")
_OF_PLUGINS = ("hooks", "mcp_servers", "permission_mode")
"""What an agent of a plugin may not say of itself."""
FOREIGN = frozenset(["mode", "temperature", "license", "metadata", "version", "author", "tags", "category", "title"])
"""Keys that files of other tools have and that mean nothing here."""


class Malformed(Exception):
    """It defines no agent; the text says why."""


def read_agent_file(
    text: str, stem: str, source: str, scope: AgentScope
) -> tuple[AgentDefinition | SkippedAgent, tuple[str, ...]]:
    """The agent that a Markdown file defines, or why it defines none; and what in it does not count."""
    head = read_front_matter(text)
    if head.problem:
        return SkippedAgent(source, head.problem, head.line), ()
    values = {"name": stem, **head.values}
    values["prompt"] = head.body
    try:
        definition, warnings = read_agent(values, source, scope)
    except Malformed as error:
        return SkippedAgent(source, str(error), _line_of(text, str(error))), ()
    return definition, warnings


def read_agent(values: Mapping[str, Any], source: str, scope: AgentScope) -> tuple[AgentDefinition, tuple[str, ...]]:
    """The agent that these keys define; raises `Malformed`."""
    fields: dict[str, Any] = {"scope": scope, "source": source}
    warnings: list[str] = []
    for key, value in values.items():
        field = _NAMES.get(key)
        if field is None:
            if key not in FOREIGN:
                near = get_close_matches(key, _NAMES, 1)
                warnings.append(f"{source}: unknown key {key}{f'; did you mean {near[0]}?' if near else ''}")
        elif value is not None:
            fields[field] = _value(key, value)
    name = fields.get("name")
    if not isinstance(name, str) or not NAME.match(name):
        raise Malformed(f"name must be letters, digits, - and _, at most 100, not {str(name)[:60]!r}")
    if not isinstance(fields.get("description"), str) or not fields["description"].strip():
        raise Malformed("description is missing: it says when the agent is to be used")
    try:
        definition = msgspec.convert(fields, AgentDefinition, strict=False)
    except msgspec.ValidationError as error:
        raise Malformed(_reworded(str(error))) from None
    if scope == "plugin":
        dropped = [field for field in _OF_PLUGINS if getattr(definition, field)]
        warnings.extend(f"{source}: {field} does not count for an agent of a plugin" for field in dropped)
        definition = structs.replace(definition, hooks={}, mcp_servers=(), permission_mode=None)
    return definition, tuple(warnings)


def _value(key: str, value: Any) -> Any:
    if key in _LISTS:
        if value == "*" and key == "tools":
            return None
        return as_list(key, value)
    if key == "mcpServers":
        if isinstance(value, Mapping):
            return [{name: config} for name, config in value.items()]
        return [value] if isinstance(value, str) else value
    if key == "permissionMode":
        return "default" if value == "manual" else value
    if key in ("name", "description", "prompt", "model", "color", "initialPrompt", "reminder"):
        if not isinstance(value, str | int | float):
            raise Malformed(f"{key} must be text")
        return str(value).strip() or ("inherit" if key == "model" else "")
    return value


def as_list(key: str, value: Any) -> list[str]:
    """Names in a list, or in a text with commas or blanks between; not inside parentheses."""
    if isinstance(value, str):
        return [part.strip() for part in _SPLIT.split(value) if part.strip()]
    if isinstance(value, Sequence) and all(isinstance(item, str) for item in value):
        return [item.strip() for item in value if item.strip()]
    if isinstance(value, Mapping) and all(isinstance(item, bool) for item in value.values()):
        return [str(name) for name, wanted in value.items() if wanted]  # as another tool writes them
    raise Malformed(f"{key} must be a list of names")


def _reworded(message: str) -> str:
    what, _, place = message.partition(" - at `$.")
    key = next((name for name, field in _NAMES.items() if field == place.rstrip("`")), place.rstrip("`"))
    if key == "permissionMode":
        return f"permissionMode must be one of {', '.join(get_args(Mode))}, bubble"
    return f"{key}: {what[:1].lower() + what[1:]}"


def _line_of(text: str, message: str) -> int:
    key = message.partition(" ")[0].rstrip(":")
    lines = text.split("\n")
    return next((n + 1 for n, line in enumerate(lines) if line.startswith(f"{key}:")), 0)


def strongest(definitions: Iterable[AgentDefinition]) -> dict[str, AgentDefinition]:
    """By name, each the one that counts: of definitions in the order of their precedence, the last."""
    return {definition.name: definition for definition in definitions}
