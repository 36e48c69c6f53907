"""One source of settings: a file, the environment, flags. Reading it, and checking each value by itself."""

import difflib
import json
import os
import re
import stat
import types
import typing
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from tugline.config.place import locate
from tugline.config.settings import FOREIGN, FOREIGN_PERMISSIONS, FOREIGN_SANDBOX, OTHER_SPELLINGS, Settings
from tugline.rules.paths import inside
from tugline.rules.rule import Kind, RuleError, parse_rule, split_rules
from tugline.rules.terminal import clean

SIZE_LIMIT = 1_000_000
TOLD = 20
"""Problems of one source that are told one by one; a place and a hint cost a walk through the text each."""
Path = tuple[str, ...]
Layer = Literal["default", "user", "project", "local", "environment", "command line", "managed"]
Fields = Mapping[str, Any]
_RULES: dict[tuple[str, ...], Kind] = {("permissions", kind): kind for kind in typing.get_args(Kind)}
_HOSTS = (("sandbox", "network", "allowedDomains"), ("sandbox", "network", "deniedDomains"))
_FORBIDDING = (("permissions", "deny"), ("permissions", "ask"), _HOSTS[1])
HOOKS: Path = ("hooks",)


class Problem(Struct, frozen=True):
    """Something wrong with a source. `fatal`: a session must not start with it."""

    level: Literal["warning", "error"]
    text: str
    fatal: bool = False

    def __str__(self) -> str:
        return self.text


class Source(Struct, frozen=True):
    """The values of one source, checked. `name` is what people call it: a path, a variable, a flag."""

    layer: Layer
    name: str
    values: dict[Path, Any]
    names: dict[Path, str] = {}
    """Where a single value comes from, if not from `name`."""
    foreign: bool = False
    data: Mapping[str, Any] = {}
    """What it says in full, also what is not read as a setting."""


def leaves(kind: type = Settings, above: Path = ()) -> Iterator[tuple[Path, Any]]:
    """All settings with their types."""
    for name, annotation in _fields(kind).items():
        if _is_group(annotation):
            yield from leaves(annotation, (*above, name))
        else:
            yield (*above, name), annotation


def _fields(kind: Any) -> dict[str, Any]:
    return dict(zip(kind.__struct_encode_fields__, kind.__annotations__.values(), strict=True))


def _is_group(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Struct)


def check(
    data: Mapping[str, Any], layer: Layer, name: str, text: str, *, foreign: bool = False
) -> tuple[Source, list[Problem]]:
    """The values that are right, and problems for the rest. `text` is the JSON they stand in, for line and column."""
    values: dict[Path, Any] = {}
    problems: list[Problem] = []
    _walk(data, Settings, (), values, problems, _Where(name, text, foreign))
    return Source(layer=layer, name=name, values=values, foreign=foreign, data=data), _first(problems, name)


def _first(problems: list[Problem], name: str) -> list[Problem]:
    """So many as a person reads, and a word on the rest, which counts all the same."""
    rest = problems[TOLD:]
    if not rest:
        return problems
    level: Literal["warning", "error"] = "error" if any(one.level == "error" for one in rest) else "warning"
    summary = Problem(level, f"{name}: and {len(rest)} more problems of this kind", any(one.fatal for one in rest))
    return [*problems[:TOLD], summary]


class _Where(Struct):
    name: str
    text: str
    foreign: bool
    asked: int = 0

    def at(self, path: tuple[str | int, ...]) -> str:
        self.asked += 1
        found = locate(self.text, path) if self.text and not self.many else None
        return f"{self.name}:{found[0]}:{found[1]}" if found else self.name

    @property
    def many(self) -> bool:
        """Nobody will be told of this one."""
        return self.asked > TOLD


def _walk(
    data: Mapping[str, Any],
    kind: Any,
    above: Path,
    values: dict[Path, Any],
    problems: list[Problem],
    where: _Where,
) -> None:
    fields = _fields(kind)
    for key, value in data.items():
        path = (*above, key)
        annotation = fields.get(key)
        if key not in fields and _other_spelling(path, value, values, problems, where):
            continue
        if key not in fields:
            unknown = _unknown(path, fields, where)
            if unknown is not None:
                problems.append(unknown)
        elif _is_group(annotation):
            if isinstance(value, Mapping):
                _walk(value, annotation, path, values, problems, where)
            else:
                problems.append(_wrong(path, f"Expected `object`, got `{_kind(value)}`", where))
        elif path == HOOKS and isinstance(value, Mapping):
            values[path] = _hooks(value, problems, where)
        elif isinstance(value, Mapping) and typing.get_origin(_plain(annotation)) is dict:
            values[path] = _map(value, typing.get_args(_plain(annotation))[1], path, problems, where)
        elif isinstance(value, list) and typing.get_origin(_plain(annotation)) is tuple:
            values[path] = _list(value, typing.get_args(_plain(annotation))[0], path, problems, where)
        else:
            if path == ("permissions", "defaultMode") and value == "manual":
                value = "default"  # another tool's word for it
            if isinstance(value, str) and _HALF.search(value):
                problems.append(_wrong(path, "Half of a pair of \\u escapes stands alone", where))
                continue
            try:
                values[path] = msgspec.convert(value, annotation)
            except msgspec.ValidationError as error:
                problems.append(_wrong(path, str(error), where))


def _other_spelling(path: Path, value: Any, values: dict[Path, Any], problems: list[Problem], where: _Where) -> bool:
    """Whether the name is another tool's for a setting of ours, or the group that such names stand in."""
    if isinstance(value, Mapping) and any(name[: len(path)] == path for name in OTHER_SPELLINGS):
        for key, inner in value.items():
            known = _other_spelling((*path, key), inner, values, problems, where)
            if not known and not where.foreign and key not in FOREIGN_SANDBOX:
                problems.append(Problem("warning", _line(f"{where.at((*path, key))}: unknown setting {key}")))
        return True
    ours = OTHER_SPELLINGS.get(path)
    if ours is None:
        return False
    found: dict[Path, Any] = {}
    nested: Any = value
    for part in reversed(ours):
        nested = {part: nested}
    before = len(problems)
    _walk(nested, Settings, (), found, problems, where)
    # said by the name that stands there
    theirs, our_name = ".".join(path), ".".join(ours)
    problems[before:] = [
        Problem(each.level, each.text.replace(our_name, theirs, 1), each.fatal) for each in problems[before:]
    ]
    for our_path, read in found.items():
        values.setdefault(our_path, read)
    return True


def _map(data: Mapping[str, Any], kind: Any, path: Path, problems: list[Problem], where: _Where) -> dict[str, Any]:
    """The entries that are right, each checked by itself so that a problem names its key."""
    good: dict[str, Any] = {}
    for key, value in data.items():
        if _is_group(kind) and isinstance(value, Mapping):
            found: list[Problem] = []
            _walk(value, kind, (*path, key), {}, found, where)
            problems += found
            if any(problem.level == "error" for problem in found):
                continue
        try:
            good[key] = msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            problems.append(_wrong((*path, key), str(error), where))
    return good


def _hooks(data: Mapping[str, Any], problems: list[Problem], where: _Where) -> dict[str, Any]:
    from tugline.config.hooks import check_hooks  # noqa: PLC0415  imported here: start-up cost

    def tell(level: Literal["warning", "error"], spot: tuple[str | int, ...], text: str) -> None:
        dotted = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in spot).lstrip(".")
        problems.append(Problem(level, _line(f"{where.at(spot)}: {dotted}: {text}")))

    return check_hooks(data, tell, foreign=where.foreign)


def _list(data: list[Any], kind: Any, path: Path, problems: list[Problem], where: _Where) -> tuple[Any, ...]:
    """The entries that are right: one wrong deny rule must not take the others along."""
    good: list[Any] = []
    rules = _RULES.get(path)
    for position, value in enumerate(data):
        try:
            entry = msgspec.convert(value, kind)
            if rules is not None:
                parse_rule(entry, rules)
            if path in _HOSTS:
                _require_host(entry)
            good.append(entry)
        except msgspec.ValidationError as error:
            problems.append(_wrong((*path, position), str(error), where))
        except (RuleError, _WrongHost) as error:
            problems.append(Problem("error", _line(f"{where.at((*path, position))}: {error}"), path in _FORBIDDING))
    return tuple(good)


class _WrongHost(ValueError):
    """An entry that names no host."""


def _require_host(entry: str) -> None:
    from tugline.rules.hosts import HostError, read_pattern  # noqa: PLC0415  imported here: start-up cost

    try:
        read_pattern(entry)
    except HostError as error:
        raise _WrongHost(str(error)) from None


def _line(text: str) -> str:
    """One line, fit for a terminal: keys may be anything."""
    return clean(text).replace("\n", "\\n").replace("\t", "\\t")


def _unknown(path: Path, fields: Fields, where: _Where) -> Problem | None:
    key = path[-1]
    if where.foreign or (len(path) == 1 and key in FOREIGN):
        return None
    if path[:-1] == ("permissions",) and key in FOREIGN_PERMISSIONS:
        return None
    spot = where.at(path)
    if where.many:
        return Problem("warning", "")
    if path[0] == "sandbox" and key in FOREIGN_SANDBOX:
        return None
    close = difflib.get_close_matches(key, list(fields), n=1, cutoff=0.6)
    elsewhere = [".".join(leaf) for leaf, _ in leaves() if leaf[-1] == key and path[0] != "models"]
    if close:
        hint = f"; did you mean {'.'.join((*path[:-1], close[0]))}?"
    elif elsewhere:
        hint = f"; did you mean {elsewhere[0]}?"
    else:
        hint = ""
    return Problem("warning", _line(f"{spot}: unknown setting {'.'.join(path)[:200]}{hint}"))


_HALF = re.compile("[\ud800-\udfff]")
_SPOT = re.compile(r" - at `\$([^`]*)`\Z")


def _wrong(path: tuple[str | int, ...], message: str, where: _Where) -> Problem:
    """What msgspec says, at the very place that it means."""
    spot = _SPOT.search(message)
    deeper: list[str | int] = []
    if spot is not None:
        message = message[: spot.start()]
        for found in re.finditer(r"\[(\d+)\]|\.([^.\[]+)", spot[1]):
            deeper.append(int(found[1]) if found[1] else found[2])
    full = (*path, *deeper)
    dotted = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in full).lstrip(".")
    level: Literal["warning", "error"] = "warning" if where.foreign else "error"
    # without a rule that forbids something no session may start
    fatal = path[:2] in _FORBIDDING or path in _FORBIDDING
    return Problem(level, _line(f"{where.at(full)}: {dotted}: {message[:1].lower() + message[1:]}"), fatal)


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    return {bool: "bool", str: "str", int: "int", float: "float", list: "array"}.get(type(value), "object")


def read_file(
    path: str, layer: Layer, *, foreign: bool = False, within: str = ""
) -> tuple[Source | None, list[Problem]]:
    """A settings file; no source where there is none. What cannot be read is a problem, never an exception.

    `within`: a folder that it may not lead out of by links: what a project says of itself stands in the project.
    """
    try:
        found = os.stat(path)
        if within and not inside(os.path.realpath(path), within):
            where = os.path.realpath(path)
            return None, [Problem("error", _line(f"{path}: leads out of the project, to {where}; it does not count"))]
        if not stat.S_ISREG(found.st_mode):
            what = "a folder" if stat.S_ISDIR(found.st_mode) else "no regular file"
            return None, [Problem("error", f"{path}: cannot be read as settings: it is {what}")]
        if found.st_size > SIZE_LIMIT:
            return None, [
                Problem("error", f"{path}: too big for settings: {found.st_size} bytes, {SIZE_LIMIT} at most")
            ]
        # a pipe that took the file's place meanwhile must not hold us up
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            raw = file.read(SIZE_LIMIT + 1) or b""
    except (FileNotFoundError, NotADirectoryError):
        return None, []
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        return None, [Problem("error", f"{path}: cannot be read: {reason}")]
    return read_json(raw, layer, path, foreign=foreign)


def read_json(raw: bytes, layer: Layer, name: str, *, foreign: bool = False) -> tuple[Source | None, list[Problem]]:
    """Settings as JSON text."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        return None, [Problem("error", f"{name}:{line}: is not UTF-8 text")]
    if not text.strip():
        return None, []
    twice: dict[str, None] = {}

    def take(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            counts = Counter(key for key, _ in pairs)
            twice.update((key, None) for key, count in counts.items() if count > 1)
        return made

    try:
        data = json.loads(text, object_pairs_hook=take)
    except json.JSONDecodeError as error:
        return None, [Problem("error", f"{name}:{error.lineno}:{error.colno}: broken JSON: {error.msg}")]
    except (RecursionError, ValueError):
        return None, [Problem("error", f"{name}: broken JSON: nested too deeply, or a number that is too long")]
    if not isinstance(data, dict):
        return None, [Problem("error", f"{name}:1:1: expected an object with settings, got `{_kind(data)}`")]
    source, problems = check(data, layer, name, text, foreign=foreign)
    where = _Where(name, text, foreign)
    doubled = [
        Problem("warning", _line(f"{where.at((key,))}: {key[:200]!r} stands twice; only the last one counts"))
        for key in twice
    ]
    return source, [*problems, *_first(doubled, name)]


# -- the environment --------------------------------------------------------------------------------


def variable(path: Path) -> str:
    """The name of the variable that overrides a setting."""
    return "TUGLINE_" + "_".join(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", part).upper() for part in path)


OTHER_NAMES: dict[str, Path] = {
    "ANTHROPIC_BASE_URL": ("providers", "anthropic", "baseUrl"),
    "OPENAI_BASE_URL": ("providers", "openai", "baseUrl"),
}
"""Variables of other makers that say the same as a setting; our own name wins."""

NEGATED = {"CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": ("background", "enabled")}
"""Variables of other makers that switch off what a setting of ours switches on."""

NO_SETTINGS = frozenset({"TUGLINE_HOME", "TUGLINE_LINEAGE", "TUGLINE_REPORT", "TUGLINE_SANDBOX"})
"""Variables of ours that are no settings."""


def read_environment(environ: Mapping[str, str]) -> tuple[Source, list[Problem]]:
    """Settings from `TUGLINE_…` and the variables that everybody knows. An empty variable says nothing."""
    values: dict[Path, Any] = {}
    names: dict[Path, str] = {}
    problems: list[Problem] = []
    for name, path in OTHER_NAMES.items():
        if environ.get(name):
            if (problem := _unreadable(name, environ[name])) is not None:
                problems.append(problem)
            else:
                values[path], names[path] = environ[name], name
    for name, path in NEGATED.items():
        if environ.get(name, "").lower() in ("1", "true", "yes", "on"):
            values[path], names[path] = False, name
    ours = {
        name: text for name, text in environ.items() if name.startswith("TUGLINE_") and text and name not in NO_SETTINGS
    }
    if ours:
        types_of = {variable(path): (path, annotation) for path, annotation in leaves()}
        for name in sorted(ours):
            if name not in types_of:
                close = difflib.get_close_matches(name, list(types_of), n=1, cutoff=0.85)
                if close:
                    problems.append(Problem("warning", f"{name}: unknown variable; did you mean {close[0]}?"))
                continue
            path, annotation = types_of[name]
            if path == ("model",):
                continue  # chosen by a setting before the environment (decision 19)
            if (problem := _unreadable(name, ours[name], fatal=path in _FORBIDDING)) is not None:
                problems.append(problem)
                continue
            try:
                values[path] = _from_text(ours[name], annotation)
            except (msgspec.ValidationError, json.JSONDecodeError) as error:
                message = str(error)
                problems.append(
                    Problem("error", f"{name}: {message[:1].lower() + message[1:]}, as {ours[name]!r:.100}")
                )
            else:
                names[path] = name
    return Source(layer="environment", name="environment", values=values, names=names), problems


def read_model_variable(environ: Mapping[str, str]) -> tuple[Source | None, list[Problem]]:
    """`TUGLINE_MODEL`, else `ANTHROPIC_MODEL`: what is used where no setting names a model."""
    for name in ("TUGLINE_MODEL", "ANTHROPIC_MODEL"):
        if environ.get(name):
            if (problem := _unreadable(name, environ[name])) is not None:
                return None, [problem]
            return Source(layer="environment", name=name, values={("model",): environ[name]}), []
    return None, []


def _unreadable(name: str, text: str, *, fatal: bool = False) -> Problem | None:
    """Bytes that are no text can neither be sent nor written to a transcript."""
    return Problem("error", f"{name}: is not UTF-8 text", fatal) if _HALF.search(text) else None


def _from_text(text: str, annotation: Any) -> Any:
    plain = _plain(annotation)
    origin = typing.get_origin(plain) or plain
    if origin is dict:
        return msgspec.convert(json.loads(text), annotation)
    if origin is tuple:
        parts = json.loads(text) if text.lstrip().startswith("[") else split_rules(text, separators=",")
        return msgspec.convert(parts, annotation)
    if plain is bool and text.lower() in ("yes", "on", "no", "off"):
        return text.lower() in ("yes", "on")
    return msgspec.convert(text, annotation, strict=False)


def _plain(annotation: Any) -> Any:
    if typing.get_origin(annotation) is typing.Annotated:
        annotation = typing.get_args(annotation)[0]
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        kinds = [kind for kind in typing.get_args(annotation) if kind is not type(None)]
        return kinds[0] if len(kinds) == 1 else annotation
    return annotation
