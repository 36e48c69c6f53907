"""Reading script files: YAML, JSON, JSON Lines or Python into a `Script`, with errors that name the place."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn, TypeVar, get_args

from tugline.protocol import codec
from tugline.protocol.errors import ConfigError
from tugline.protocol.script import (
    Cut,
    CutKind,
    ErrorEvent,
    Garbage,
    Gate,
    HttpError,
    Lane,
    Match,
    Part,
    Pattern,
    Pause,
    Pings,
    SayCall,
    SayOpaque,
    SayText,
    SayThinking,
    Script,
    Step,
    Words,
)
from tugline.protocol.usage import Usage
from tugline.testing.places import BadText, Source

T = TypeVar("T")
SIZE_LIMIT = 64 << 20

PART_KINDS = ("text", "thinking", "call", "opaque", "pause", "gate", "ping", "garbage", "cut", "error_event")
SHORTHAND = ("text", "thinking", "call", "calls", "opaque")
STEP_KEYS = (
    *("reply", *SHORTHAND, "error", "when", "expect", "repeat", "stop", "usage", "model", "chunk"),
    *("pause", "pace", "gate", "cut", "split", "content_type", "literal"),
)
WORDS_KEYS = ("model", "purpose", "system", "first", "user", "last", "result")
MATCH_KEYS = (*WORDS_KEYS, "results", "is_error", "tools", "without", "stream")


def load_script(path: str) -> Script:
    """The script in this file, by its suffix: `.yaml`, `.yml`, `.json`, `.jsonl`, or `.py` with a variable `script`.

    Raises `ConfigError` that names file, line and column.
    """
    if path.endswith(".py"):
        return _run_python(path)
    try:
        file = Path(path)
        if not file.is_file():
            raise ConfigError(f"{path}: no such file" if not file.exists() else f"{path}: not a file")
        if file.stat().st_size > SIZE_LIMIT:
            raise ConfigError(f"{path}: larger than {SIZE_LIMIT >> 20} MiB")
        text = file.read_bytes().decode()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 at byte {error.start}") from None
    return parse_script(text, path)


def parse_script(text: str, name: str = "script.yaml") -> Script:
    """The script in this text; the suffix of `name` says what it is written in, and errors name it."""
    kind = "jsonl" if name.endswith(".jsonl") else "json" if name.endswith(".json") else "yaml"
    try:
        source = Source(text.removeprefix("\ufeff"), kind)
        return _script(_Value(source, name, source.data, ()))
    except BadText as bad:
        raise ConfigError(f"{name}:{bad.line}:{bad.column}: {bad}") from None


class _Value:
    """A piece of the file: what it is, and where it stands."""

    def __init__(self, source: Source, name: str, data: Any, path: tuple[str | int, ...]) -> None:
        self.data = data
        self._source = source
        self._name = name
        self._path = path

    def fail(self, message: str, *, key: bool = False) -> NoReturn:
        line, column = self._source.place(self._path, key=key)
        where = _where(self._path)
        raise ConfigError(f"{self._name}:{line}:{column}: {where + ': ' if where else ''}{message}")

    def fields(self, known: Sequence[str], what: str) -> "dict[str, _Value]":
        """The entries of a mapping that has only known keys."""
        if not isinstance(self.data, dict):
            self.fail(f"{what} must be a mapping, not {_kind(self.data)}")
        found = {}
        for key, value in self.data.items():
            entry = _Value(self._source, self._name, value, (*self._path, key))
            if known and key not in known:
                near = get_close_matches(str(key), known, 1, 0.5)
                hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
                entry.fail(f"{what} has no key {key!r}; {hint}", key=True)
            if not isinstance(key, str):
                entry.fail(f"a key must be a string, not {_kind(key)}", key=True)
            found[key] = entry
        return found

    def items(self, what: str) -> "Iterator[_Value]":
        """The entries of a list."""
        if not isinstance(self.data, list):
            self.fail(f"{what} must be a list, not {_kind(self.data)}")
        for n, value in enumerate(self.data):
            yield _Value(self._source, self._name, value, (*self._path, n))

    def text(self) -> str:
        if not isinstance(self.data, str):
            quotes = " (put it in quotes)" if isinstance(self.data, int | float | bool) else ""
            self.fail(f"must be a string, not {_kind(self.data)}{quotes}")
        return self.data

    def whole(self, least: int = 0) -> int:
        if type(self.data) is not int or self.data < least:
            self.fail(f"must be a whole number from {least} on, not {_shown(self.data)}")
        return self.data

    def number(self) -> float:
        if isinstance(self.data, bool) or not isinstance(self.data, int | float) or not 0 <= self.data < 1e9:
            self.fail(f"must be a number of seconds, not {_shown(self.data)}")
        return float(self.data)

    def flag(self) -> bool:
        if not isinstance(self.data, bool):
            self.fail(f"must be true or false, not {_shown(self.data)}")
        return self.data

    def plain(self) -> dict[str, Any]:
        """A mapping as JSON has it."""
        if not isinstance(self.data, dict):
            self.fail(f"must be a mapping, not {_kind(self.data)}")
        try:
            data = codec.decode_json(codec.encode(self.data))
        except (TypeError, ValueError) as error:
            self.fail(f"cannot be said in JSON: {error}")
        return data  # type: ignore[no-any-return]

    def one_of(self, allowed: Sequence[str]) -> str:
        if self.data not in allowed:
            self.fail(f"must be one of {', '.join(allowed)}, not {_shown(self.data)}")
        return self.data  # type: ignore[no-any-return]


def _where(path: tuple[str | int, ...]) -> str:
    """A path in words: `lanes, left, step 2, reply, item 1`."""
    words = []
    for n, step in enumerate(path):
        if isinstance(step, int):
            words.append(f"{'step' if n == 0 or path[n - 1] == 'steps' else 'item'} {step + 1}")
        elif step != "steps" or n == len(path) - 1:
            words.append(step)
    return ", ".join(map(str, words))


Fields = Mapping[str, _Value]


def _optional(fields: Fields, key: str, read: Callable[[_Value], T], default: T) -> T:
    return read(fields[key]) if key in fields else default


def _script(value: _Value) -> Script:
    if isinstance(value.data, list):
        return Script(_steps(value))
    if value.data is None:
        value.fail("the script is empty")
    fields = value.fields(("steps", "lanes", "chunk"), "a script")
    lanes = (
        {name: _lane(entry, name) for name, entry in fields["lanes"].fields((), "lanes").items()}
        if ("lanes" in fields)
        else {}
    )
    return Script(_optional(fields, "steps", _steps, ()), lanes, _optional(fields, "chunk", _Value.whole, 40))


def _steps(value: _Value) -> tuple[Step, ...]:
    return tuple(_step(entry) for entry in value.items("steps"))


def _lane(value: _Value, name: str) -> Lane:
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,40}", name):
        value.fail("a lane's name is made of letters, digits, - and _", key=True)
    fields = value.fields(("match", "steps", "each"), "a lane")
    for key in ("match", "steps"):
        if key not in fields:
            value.fail(f"a lane needs {key!r}")
    each = _optional(fields, "each", _Value.flag, False)
    return Lane(match=_match(fields["match"]), steps=_steps(fields["steps"]), each=each)


def _step(value: _Value) -> Step:
    if isinstance(value.data, str):
        return Step(parts=(SayText(value.data),))
    fields = value.fields(STEP_KEYS, "a step")
    spoken = [key for key in fields if key in ("reply", *SHORTHAND)]
    if "error" in fields and spoken:
        fields[spoken[0]].fail("a step has either an error or a reply", key=True)
    if "reply" in spoken and len(spoken) > 1:
        other = next(key for key in spoken if key != "reply")
        fields[other].fail(f"{other!r} belongs into the list under 'reply'", key=True)
    quiet = ("error", "cut", "gate", "pause", "stop", "content_type")
    if not spoken and not any(key in fields for key in quiet):
        value.fail("a step needs a 'reply', 'text', 'thinking', 'call', 'calls' or 'error'")
    parts = [part for key in spoken for part in _spoken(key, fields[key])]
    if "gate" in fields:
        parts.insert(0, Gate(fields["gate"].text()))
    return Step(
        parts=tuple(parts),
        error=_optional(fields, "error", _error, None),
        when=_optional(fields, "when", _match, None),
        expect=_optional(fields, "expect", _match, None),
        repeat=_repeat(fields["repeat"]) if "repeat" in fields else 1,
        stop=_optional(fields, "stop", _Value.text, None),
        usage=_optional(fields, "usage", _usage, None),
        model=_optional(fields, "model", _Value.text, None),
        chunk=_optional(fields, "chunk", _Value.whole, None),
        pause=_optional(fields, "pause", _Value.number, 0.0),
        pace=_optional(fields, "pace", _Value.number, 0.0),
        cut=_optional(fields, "cut", _cut_after, None),
        split=_optional(fields, "split", lambda v: v.whole(1), None),
        content_type=_optional(fields, "content_type", _header, None),
        literal=_optional(fields, "literal", _Value.flag, False),
    )


def _spoken(key: str, value: _Value) -> list[Part]:
    if key == "reply":
        return [_part(entry) for entry in value.items("reply")] if isinstance(value.data, list) else [_part(value)]
    if key == "calls":
        return [_call(entry) for entry in value.items("calls")]
    return [_kinds[key](value, {})]


def _part(value: _Value) -> Part:
    if isinstance(value.data, str):
        return SayText(value.data)
    options = ("signature", "chunk", "unclosed")
    fields = value.fields((*PART_KINDS, *options), "a part of a reply")
    kinds = [key for key in fields if key in PART_KINDS]
    if len(kinds) != 1:
        value.fail(f"a part of a reply has exactly one of {', '.join(PART_KINDS)}; this one has {len(kinds)}")
    allowed = {"text": ("chunk", "unclosed"), "thinking": options}.get(kinds[0], ())
    for key in fields:
        if key != kinds[0] and key not in allowed:
            fields[key].fail(f"{key!r} does not go with {kinds[0]!r}", key=True)
    return _kinds[kinds[0]](fields[kinds[0]], fields)


def _text(value: _Value, options: Fields) -> SayText:
    return SayText(value.text(), *_delivery(options))


def _thinking(value: _Value, options: Fields) -> SayThinking:
    signature = _optional(options, "signature", _Value.text, "scripted")
    return SayThinking(value.text(), signature, *_delivery(options))


def _delivery(options: Fields) -> tuple[int | None, bool]:
    return _optional(options, "chunk", _Value.whole, None), _optional(options, "unclosed", _Value.flag, False)


def _call(value: _Value, options: Fields | None = None) -> SayCall:
    if isinstance(value.data, str):
        return SayCall(value.data)
    fields = value.fields(("tool", "input", "id", "raw", "chunk", "unclosed"), "a call")
    if "tool" not in fields:
        value.fail("a call needs 'tool'")
    if "raw" in fields and "input" in fields:
        fields["raw"].fail("a call has either 'input' or 'raw'", key=True)
    return SayCall(
        fields["tool"].text(),
        _optional(fields, "input", _Value.plain, {}),
        _optional(fields, "id", _Value.text, None),
        _optional(fields, "raw", _Value.text, None),
        *_delivery(fields),
    )


def _opaque(value: _Value, options: Fields) -> SayOpaque:
    fields = value.fields(("provider", "data"), "an opaque part")
    for key in ("provider", "data"):
        if key not in fields:
            value.fail(f"an opaque part needs {key!r}")
    return SayOpaque(fields["provider"].text(), fields["data"].plain())


def _cut_here(value: _Value, options: Fields) -> Cut:
    return Cut(_how(value))


def _cut_after(value: _Value) -> Cut:
    fields = value.fields(("how", "events", "bytes"), "a cut")
    if ("events" in fields) == ("bytes" in fields):
        value.fail("a step's cut needs 'events' or 'bytes' (how many are sent before it)")
    how: CutKind = _how(fields["how"]) if "how" in fields else "end"
    return Cut(how, _optional(fields, "events", _Value.whole, None), _optional(fields, "bytes", _Value.whole, None))


def _how(value: _Value) -> CutKind:
    return value.one_of(get_args(CutKind))  # type: ignore[return-value]


def _error_event(value: _Value, options: Fields) -> ErrorEvent:
    fields = value.fields(("type", "message"), "an error event")
    plain = ErrorEvent()
    kind = _optional(fields, "type", _Value.text, plain.type)
    return ErrorEvent(kind, _optional(fields, "message", _Value.text, plain.message))


_kinds: dict[str, Callable[[_Value, Fields], Part]] = {
    "text": _text,
    "thinking": _thinking,
    "call": _call,
    "opaque": _opaque,
    "pause": lambda value, _: Pause(value.number()),
    "gate": lambda value, _: Gate(value.text()),
    "ping": lambda value, _: Pings(value.whole(1)),
    "garbage": lambda value, _: Garbage(value.text()),
    "cut": _cut_here,
    "error_event": _error_event,
}


def _error(value: _Value) -> HttpError:
    if not isinstance(value.data, dict):
        return HttpError(_status(value))
    fields = value.fields(("status", "message", "type", "retry_after", "headers", "body"), "an error")
    if "status" not in fields:
        value.fail("an error needs 'status'")
    headers = fields["headers"].fields((), "headers") if "headers" in fields else {}
    return HttpError(
        _status(fields["status"]),
        _optional(fields, "message", _Value.text, ""),
        _optional(fields, "type", _Value.text, ""),
        _optional(fields, "retry_after", _Value.number, None),
        {name: _header(entry) for name, entry in headers.items()},
        _optional(fields, "body", _Value.text, None),
    )


def _status(value: _Value) -> int:
    status = value.whole(300)
    if status > 599:
        value.fail(f"must be a status from 300 to 599, not {status}")
    return status


def _header(value: _Value) -> str:
    text = value.text()
    if not text.isprintable():
        value.fail("a header is one line")
    return text


def _repeat(value: _Value) -> int | None:
    return None if value.data == "forever" else value.whole(1)


def _usage(value: _Value) -> Usage:
    fields = value.fields(Usage.__struct_fields__, "usage")
    return Usage(**{key: entry.whole() for key, entry in fields.items()})


def _match(value: _Value) -> Match:
    if isinstance(value.data, str):
        return Match(user=value.data)
    fields = value.fields(MATCH_KEYS, "a condition")
    words = {key: _words(fields[key]) for key in WORDS_KEYS if key in fields}
    results = tuple(_words(entry) for entry in fields["results"].items("results")) if "results" in fields else None
    return Match(
        **words,
        results=results,
        is_error=_optional(fields, "is_error", _Value.flag, None),
        tools=_optional(fields, "tools", _names, ()),
        without=_optional(fields, "without", _names, ()),
        stream=_optional(fields, "stream", _Value.flag, None),
    )


def _names(value: _Value) -> tuple[str, ...]:
    return (value.data,) if isinstance(value.data, str) else tuple(entry.text() for entry in value.items("tools"))


def _words(value: _Value) -> Words:
    if not isinstance(value.data, dict):
        return value.text()
    fields = value.fields(("regexp", "is"), "words")
    if len(fields) != 1:
        value.fail("needs 'regexp' or 'is'")
    if "is" in fields:
        return Pattern(equal=fields["is"].text())
    pattern = fields["regexp"].text()
    try:
        re.compile(pattern)
    except re.error as error:
        fields["regexp"].fail(f"no regular expression: {error}")
    return Pattern(regexp=pattern)


def _kind(data: Any) -> str:
    names = {dict: "a mapping", list: "a list", str: "a string", bool: "true or false", type(None): "nothing"}
    return names.get(type(data), "a number" if isinstance(data, int | float) else type(data).__name__)


def _shown(data: Any) -> str:
    return json.dumps(data)[:60] if isinstance(data, str | int | float | bool) else _kind(data)


def _run_python(path: str) -> Script:
    import runpy  # noqa: PLC0415  imported here: only scripts written in Python need it

    try:
        found = runpy.run_path(path).get("script")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except SyntaxError as error:
        raise ConfigError(f"{path}:{error.lineno}:{error.offset}: {error.msg}") from None
    except Exception as error:
        trace = error.__traceback__
        line = 0
        while trace is not None:
            line = trace.tb_lineno if trace.tb_frame.f_code.co_filename == path else line
            trace = trace.tb_next
        raise ConfigError(f"{path}:{line}: {type(error).__name__}: {error}") from None
    if isinstance(found, list | tuple) and all(isinstance(step, Step) for step in found):
        return Script(tuple(found))
    if not isinstance(found, Script):
        raise ConfigError(f"{path}: needs a variable `script` that holds a tugline.testing.Script")
    return found
