"""The head of a Markdown file between two lines of dashes: YAML, or what people write who take it for YAML."""

import re
from typing import Any

from msgspec import Struct

LIMIT = 100_000
"""Characters of a head."""
_KEY = re.compile(r"([A-Za-z_][\w-]*)\s*:(?:\s+(.*))?\Z")


class FrontMatter(Struct, frozen=True):
    """The values of a head, the text behind it, and what is wrong with it, in which line of the file."""

    values: dict[str, Any]
    body: str
    problem: str = ""
    line: int = 0


def read_front_matter(text: str) -> FrontMatter:
    """Take a file apart. A head that is no YAML is read line by line: many descriptions hold a colon unquoted."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    first, _, rest = text.partition("\n")
    if first.rstrip() != "---":
        return FrontMatter({}, text)
    lines = rest.split("\n")
    end = next((n for n, line in enumerate(lines) if line.rstrip() in ("---", "...")), None)
    if end is None:
        return FrontMatter({}, text, "its front matter has no end (---)", 1)
    head, body = "\n".join(lines[:end]), "\n".join(lines[end + 1 :]).strip("\n")
    if len(head) > LIMIT:
        return FrontMatter({}, body, f"its front matter has more than {LIMIT} characters", 1)
    try:
        values = _as_yaml(head)
    except _NoYaml as error:
        plain = _line_by_line(lines[:end])
        if plain is None:
            return FrontMatter({}, body, f"its front matter is no YAML: {error}", error.line + 2)
        return FrontMatter(plain, body)
    if not isinstance(values, dict):
        return FrontMatter({}, body, "its front matter is no list of keys and values", 2)
    return FrontMatter({str(key): value for key, value in values.items()}, body)


class _NoYaml(Exception):
    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


def _as_yaml(head: str) -> Any:
    import yaml  # noqa: PLC0415  imported here: start-up cost

    try:
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(head, Loader=yaml.SafeLoader)):
            raise _NoYaml("aliases are not read", 0)
        return yaml.safe_load(head) or {}
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _NoYaml(error.problem or "not YAML", mark.line if mark is not None else 0) from None
    except (yaml.YAMLError, ValueError, RecursionError, TypeError, LookupError, AttributeError) as error:
        raise _NoYaml(" ".join(str(error).split())[:200] or "not YAML", 0) from None


def _line_by_line(lines: list[str]) -> dict[str, Any] | None:
    """`key: the rest of the line` each, lists with dashes below; `None` where something else stands there."""
    values: dict[str, Any] = {}
    key = ""
    for line in lines:
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found = _KEY.match(line.rstrip())
        if found is not None:
            key = found[1]
            values[key] = _plain(found[2] or "")
        elif key and line[0] in " \t-":
            _add_below(values, key, line.strip())
        else:
            return None
    return values


def _add_below(values: dict[str, Any], key: str, line: str) -> None:
    """A line that belongs to the key above: an item of a list, or more of a text."""
    if (line.startswith("- ") and values[key] in ("", [], None)) or isinstance(values[key], list):
        items = values[key] if isinstance(values[key], list) else []
        values[key] = [*items, _plain(line.removeprefix("- "))]
    else:
        values[key] = f"{values[key]} {line}".strip()


def _plain(text: str) -> Any:
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    if text in ("true", "false"):
        return text == "true"
    if text in ("|", ">", "|-", ">-"):
        return ""
    return int(text) if re.fullmatch(r"\d{1,9}", text) else text
