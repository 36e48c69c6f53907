"""The text of a script file as data, and where each piece of it stands."""

import json
from typing import Any

EXPANDED_LIMIT = 2_000_000
DEPTH_LIMIT = 100
_UNFINISHED = 0

Path = tuple[str | int, ...]


class BadText(Exception):
    """The text is no YAML or JSON."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


class Source:
    """A parsed text. `data` is plain data; for JSON Lines, a list of the lines' values."""

    def __init__(self, text: str, kind: str) -> None:
        self._text = text
        self._lines: list[int] = []
        """For JSON Lines: the line numbers of the values, from 0."""
        if kind == "jsonl":
            self.data: Any = self._read_lines()
        else:
            self.data = _read_json(text, 0) if kind == "json" else _read_yaml(text)

    def place(self, path: Path, *, key: bool = False) -> tuple[int, int]:
        """Line and column of what stands at `path`, or of its key."""
        import yaml  # noqa: PLC0415  imported here: start-up cost

        text, offset = self._text, 0
        if self._lines and path and isinstance(path[0], int):
            offset = self._lines[path[0]]
            text, path = text.split("\n")[offset], path[1:]
        try:
            mark = _find(yaml.compose(text, Loader=yaml.SafeLoader), path, key)
        except yaml.YAMLError:
            return offset + 1, 1
        return offset + mark.line + 1, mark.column + 1

    def _read_lines(self) -> list[Any]:
        values = []
        for number, line in enumerate(self._text.split("\n")):
            if line.strip():
                values.append(_read_json(line, number))
                self._lines.append(number)
        return values


def _read_json(text: str, offset: int) -> Any:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            twice = next(key for n, (key, _) in enumerate(pairs) if key in dict(pairs[:n]))
            raise BadText(f"the key {twice!r} stands twice in one mapping", offset + 1, 1)
        return found

    try:
        return json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        raise BadText(error.msg, offset + error.lineno, error.colno) from None
    except ValueError as error:
        raise BadText(str(error), offset + 1, 1) from None
    except RecursionError:
        raise BadText("nested too deeply", offset + 1, 1) from None


def _read_yaml(text: str) -> Any:
    import yaml  # noqa: PLC0415  imported here: start-up cost

    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        if node is None:
            return None
        _check(node, {}, 0)
        loader = _plain_loader(yaml)(text)
        try:
            return loader.get_single_data()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
        raise BadText(error.problem or "not YAML", line, column) from None
    except yaml.YAMLError as error:
        raise BadText(" ".join(str(error).split()), 1, 1) from None
    except RecursionError:
        raise BadText("nested too deeply", 1, 1) from None
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        # what the loader raises for a tag whose value is not of its kind, or a number of thousands of digits
        raise BadText(f"a value is not what its tag says: {error}", 1, 1) from None


def _plain_loader(yaml: Any) -> Any:
    """Like the safe loader, but a date stays the text that it is."""

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        yaml_implicit_resolvers = {
            first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
            for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

    return Loader


def _check(node: Any, sizes: dict[int, int], depth: int) -> int:
    """The number of values below this node with all aliases written out; refuses doubled keys and endless ones."""
    if depth > DEPTH_LIMIT:
        raise _bad(node, "nested too deeply")
    known = sizes.get(id(node))
    if known == _UNFINISHED:
        raise _bad(node, "contains itself")
    if known is not None:
        return known
    sizes[id(node)] = _UNFINISHED
    size = 1
    if node.id == "mapping":
        seen = set()
        for key, value in node.value:
            if key.id == "scalar" and key.value in seen and key.tag != "tag:yaml.org,2002:merge":
                raise _bad(key, f"the key {key.value!r} stands twice in one mapping")
            seen.add(key.value if key.id == "scalar" else id(key))
            size += _check(key, sizes, depth + 1) + _check(value, sizes, depth + 1)
    elif node.id == "sequence":
        size += sum(_check(value, sizes, depth + 1) for value in node.value)
    if size > EXPANDED_LIMIT:
        raise _bad(node, "too large with its aliases written out")
    sizes[id(node)] = size
    return size


class _START:
    line = 0
    column = 0


def _bad(node: Any, message: str) -> BadText:
    return BadText(message, node.start_mark.line + 1, node.start_mark.column + 1)


def _find(node: Any, path: Path, key: bool) -> Any:
    mark = node.start_mark if node is not None else _START
    for n, step in enumerate(path):
        if node.id == "sequence" and isinstance(step, int):
            node = node.value[step]
        elif node.id == "mapping":
            pair = next(((k, v) for k, v in node.value if k.value == str(step)), None)
            if pair is None:
                return mark
            if key and n == len(path) - 1:
                return pair[0].start_mark
            node = pair[1]
        else:
            return mark
        mark = node.start_mark
    return mark
