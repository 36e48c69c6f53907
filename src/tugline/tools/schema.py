"""From types to JSON Schema that a model reads, and from what a model sent to typed data with plain errors."""

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from tugline.protocol.errors import ToolError

_KINDS = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "null": "null",
    "array": "a list",
    "object": "an object",
    "bytes": "base64 text",
}
_SCHEMA_KINDS = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
}
_EXPECTED = re.compile(r"^Expected `(?P<want>[^`]+)`(?P<limit>[^,`]*)(?:, got `(?P<got>[^`]+)`)?$")
_MISSING = re.compile(r"^Object missing required field `(?P<name>[^`]+)`$")
_UNKNOWN = re.compile(r"^Object contains unknown field `(?P<name>[^`]+)`$")
_PLACE = re.compile(r"^(?P<what>.*) - at `(?:key in )?\$\.?(?P<place>.*)`$", re.DOTALL)


def input_schema(kind: type) -> dict[str, Any]:
    """The JSON Schema of a tool's input, with nothing behind `$ref` and without what a model need not read."""
    schema = msgspec.json.schema(kind, schema_hook=_foreign_schema)
    plain: dict[str, Any] = _inline(schema, schema.get("$defs", {}), ())
    return plain


def read_input(kind: type, schema: Mapping[str, Any], data: Mapping[str, Any]) -> Any:
    """What a model sent as `kind`, laxly converted ("3" is 3); `ToolError` names the field and what was expected."""
    properties: Mapping[str, Any] = schema.get("properties", {})
    unknown = [key for key in data if key not in properties]
    if unknown:
        raise ToolError(_unknown_field(unknown[0], properties))
    try:
        return msgspec.convert(_unquote(data, properties), kind, strict=False, dec_hook=_foreign_value)
    except msgspec.ValidationError as error:
        raise ToolError(_reworded(str(error), schema)) from None


def closest(name: str, names: Sequence[str], limit: int = 3) -> list[str]:
    """The names that come closest, whatever their case."""
    lowered = {known.lower(): known for known in reversed(names)}
    return [lowered[hit] for hit in difflib.get_close_matches(name.lower(), list(lowered), limit, 0.6)]


def _foreign_schema(kind: Any) -> dict[str, Any]:
    """Models of pydantic, and what else can describe itself that way, without knowing that package."""
    describe = getattr(kind, "model_json_schema", None)
    if callable(describe) and callable(getattr(kind, "model_validate", None)):
        schema: dict[str, Any] = describe()
        plain: dict[str, Any] = _inline(schema, schema.get("$defs", {}), ())
        return plain
    raise NotImplementedError


def _foreign_value(kind: Any, value: Any) -> Any:
    validate = getattr(kind, "model_validate", None)
    if callable(validate):
        return value if isinstance(value, kind) else validate(value)
    raise NotImplementedError


def _inline(node: Any, definitions: Mapping[str, Any], inside: tuple[str, ...]) -> Any:
    if isinstance(node, list):
        return [_inline(item, definitions, inside) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        name = node["$ref"].rsplit("/", 1)[-1]
        if name in inside:
            raise TypeError(f"the type {name} contains itself: a tool's input must have an end")
        target = definitions.get(name) or definitions[_unescaped(name)]
        rest = {key: value for key, value in node.items() if key != "$ref"}
        return _inline({**target, **rest}, definitions, (*inside, name))
    plain = {}
    for key, value in node.items():
        if key == "$defs" or (key == "title" and isinstance(value, str)):
            continue
        if key == "properties":
            plain[key] = {name: _inline(schema, definitions, inside) for name, schema in value.items()}
        elif key in ("default", "enum", "const", "examples"):
            plain[key] = value
        else:
            plain[key] = _inline(value, definitions, inside)
    return _without_null(plain)


def _unescaped(name: str) -> str:
    return name.replace("~1", "/").replace("~0", "~")


def _without_null(node: dict[str, Any]) -> dict[str, Any]:
    """`X | None = None` is just an X that may be left out: the model need not read more."""
    branches = node.get("anyOf")
    if not branches or "default" not in node or node["default"] is not None:
        return node
    rest = [branch for branch in branches if branch != {"type": "null"}]
    if len(rest) == len(branches):
        return node
    plain = {key: value for key, value in node.items() if key not in ("anyOf", "default")}
    return {**plain, **rest[0]} if len(rest) == 1 else {**plain, "anyOf": rest}


def _unquote(data: Mapping[str, Any], properties: Mapping[str, Any]) -> dict[str, Any]:
    """Lists and objects that a model wrote as a string of JSON."""
    plain = dict(data)
    for key, value in data.items():
        if not isinstance(value, str) or properties[key].get("type") not in ("array", "object"):
            continue
        try:
            plain[key] = msgspec.json.decode(value)
        except (msgspec.DecodeError, UnicodeEncodeError):
            continue
    return plain


def _reworded(message: str, schema: Mapping[str, Any]) -> str:
    found = _PLACE.match(message)
    what, place = (found["what"], found["place"]) if found else (message, "")
    node = _at(schema, place)
    if missing := _MISSING.match(what):
        return _missing_field(missing["name"], place, node)
    if unknown := _UNKNOWN.match(what):
        prefix = f"in `{place}`: " if place else ""
        return prefix + _unknown_field(unknown["name"], node.get("properties", {}))
    name = f"`{place}`" if place else "the input"
    if what.startswith("Invalid enum value"):
        allowed = ", ".join(repr(value) for value in _allowed(node))
        return f"{name} must be one of {allowed}, not {what.removeprefix('Invalid enum value ')}"
    if expected := _EXPECTED.match(what):
        return f"{name} must be {_kind_words(expected['want'])}{expected['limit']}{_not(expected['got'])}"
    return f"{name}: {what}" if place else what


def _missing_field(name: str, place: str, node: Mapping[str, Any]) -> str:
    about = node.get("properties", {}).get(name, {})
    kind = _SCHEMA_KINDS.get(about.get("type", ""), "")
    words = ": ".join(word for word in (kind, about.get("description", "")) if word)
    full = f"{place}.{name}" if place else name
    return f"`{full}` is missing" + (f" ({words})" if words else "")


def _unknown_field(name: str, properties: Mapping[str, Any]) -> str:
    near = closest(name, list(properties), 1)
    if near:
        return f"there is no `{name}`; did you mean `{near[0]}`?"
    if not properties:
        return f"there is no `{name}`; it takes no input"
    return f"there is no `{name}`; it takes {', '.join(f'`{known}`' for known in properties)}"


def _kind_words(kinds: str) -> str:
    words = [_KINDS.get(kind.strip(), kind.strip()) for kind in kinds.split("|") if kind.strip() != "null"]
    return " or ".join(words) or "null"


def _not(got: str | None) -> str:
    return f", not {_KINDS.get(got, got)}" if got else ""


def _at(schema: Mapping[str, Any], place: str) -> Mapping[str, Any]:
    """The part of a schema that describes a place such as `edits[0].old_string`."""
    node = schema
    for step in re.findall(r"\[[^\]]*\]|[^.\[\]]+", place):
        options = [node, *node.get("anyOf", ())]
        finder = _item if step.startswith("[") else _property(step)
        node = next((hit for option in options if (hit := finder(option)) is not None), {})
    return node


def _item(node: Mapping[str, Any]) -> Mapping[str, Any] | None:
    found = node.get("items") or node.get("additionalProperties")
    return found if isinstance(found, dict) else None


def _property(name: str) -> Callable[[Mapping[str, Any]], Mapping[str, Any] | None]:
    return lambda node: node.get("properties", {}).get(name)


def _allowed(node: Mapping[str, Any]) -> list[Any]:
    values = list(node.get("enum", ()))
    for branch in node.get("anyOf", ()):
        values += _allowed(branch)
    return values
