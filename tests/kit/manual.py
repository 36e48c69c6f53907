"""Reads the manual: its examples, its tables, its links; and says how types and schemas are written there."""

import enum
import re
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def page(name: str) -> str:
    """The text of a page below `docs/`."""
    return (DOCS / name).read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    """The fenced blocks of that language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S)


def sections(text: str, level: int) -> dict[str, str]:
    """The text below each heading of that level, up to the next one of it or of a higher one."""
    found: dict[str, str] = {}
    parts = re.split(rf"^(#{{1,{level}}}) (.+)$", _unfenced(text), flags=re.M)[1:]
    for marks, heading, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        if len(marks) == level:
            found[heading.strip("`")] = body
    return found


def tables(text: str) -> list[list[list[str]]]:
    """The tables, each a list of rows of cells, without their heads; `\\|` in a cell is a bar."""
    found = []
    for table in re.findall(r"(?:^\|.*\|\n)+", text + "\n", re.M):
        rows = [[_cell(cell) for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in table.splitlines()]
        found.append(rows[2:])
    return found


def _cell(text: str) -> str:
    return text.strip().replace("\\|", "|")


def codes(text: str) -> list[str]:
    """What stands between backticks."""
    return re.findall(r"`([^`]+)`", text)


def links(text: str) -> list[str]:
    """The targets of the links and pictures, without those in code."""
    plain = re.sub(r"`[^`\n]*`", "", _unfenced(text))
    return re.findall(r"\]\(([^)\s]+)[^)]*\)", plain)


def anchors(text: str) -> set[str]:
    """What the headings can be linked by."""
    headings = re.findall(r"^#+ (.+)$", _unfenced(text), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _unfenced(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)


def type_words(kind: Any) -> str:
    """A type as the manual writes it."""
    origin = get_origin(kind)
    if hasattr(kind, "__supertype__"):
        return type_words(kind.__supertype__)
    if origin is Literal:
        return " ".join(f"`{value}`" if value else "(empty)" for value in get_args(kind))
    if origin in (Union, UnionType):
        return " or ".join("nothing" if part is type(None) else type_words(part) for part in get_args(kind))
    if origin is tuple:
        return f"list of {type_words(get_args(kind)[0])}"
    if origin is dict:
        value = get_args(kind)[1]
        return "object" if value is Any else f"{type_words(value)} by name"
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct | enum.Enum):
        return f"`{kind.__name__}`"
    return {"str": "text", "int": "whole number", "float": "number", "bool": "true or false"}.get(
        getattr(kind, "__name__", ""), str(kind)
    )


def parameter_rows(schema: dict[str, Any], prefix: str = "") -> list[list[str]]:
    """The rows of a tool's table of parameters: name, type, default, meaning."""
    rows = []
    required = schema.get("required", ())
    for name, about in schema.get("properties", {}).items():
        default = "required" if name in required else _default(about)
        rows.append([f"`{prefix}{name}`", _kind(about), default, about.get("description", "")])
        inner: dict[str, Any] = next((part for part in [about, *about.get("anyOf", ())] if "items" in part), {})
        rows.extend(parameter_rows(inner.get("items", {}), f"{prefix}{name}[]."))
    return rows


def _default(about: dict[str, Any]) -> str:
    value = about.get("default")
    if value in (None, "", [], ()):
        return ""
    return f"`{msgspec.json.encode(value).decode()}`"


def _kind(about: dict[str, Any]) -> str:
    if "enum" in about:
        return " ".join(f"`{value}`" for value in about["enum"])
    names = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false",
             "array": "list", "object": "object"}  # fmt: skip
    kinds = [names.get(part.get("type", ""), "") for part in about.get("anyOf", (about,))]
    return " or ".join(kind for kind in kinds if kind)
