"""How a tool is made: from a class with a typed input (`BuiltinTool`), or from a function (`@tool`)."""

import functools
import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar, get_origin, get_type_hints, overload

import anyio.to_thread
import msgspec

from tugline.ports import ToolContext
from tugline.protocol.blocks import Document, Image, Text
from tugline.protocol.errors import ToolError
from tugline.protocol.specs import Content, Footprint, Result, Subject, ToolSpec
from tugline.tools.schema import input_schema, read_input

RESULT_LIMIT = 30_000
"""Characters for the model before the full text goes to a file, where a tool says nothing else."""
TITLE_LIMIT = 80

FootprintName = Literal["nothing", "reads", "changes"]
Interrupt = Literal["cancel", "block"]
Input = TypeVar("Input", bound=msgspec.Struct)

_FOOTPRINTS = {"nothing": Footprint.NOTHING, "reads": Footprint.READS, "changes": Footprint.CHANGES}
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ARGUMENTS = ("Args", "Arguments", "Parameters", "Params")
_SECTION = re.compile(
    r"^(?:(Args|Arguments|Parameters|Params|Returns?|Raises|Yields|Examples?|Notes?):\s*$|:(?:param|returns?|raises?|rtype)\b)",
    re.M,
)
_GOOGLE = re.compile(r"^\s*\*{0,2}(?P<name>\w+)\s*(?:\([^)]*\))?\s*:\s*(?P<text>.*?)\s*$")
_SPHINX = re.compile(r"^:param\s+(?:[^:\s]+\s+)?(?P<name>\w+)\s*:\s*(?P<text>.*?)\s*$")


class BuiltinTool(Generic[Input]):
    """The base of tools written as a class: name the tool, set `input` to its Struct, write `run`.

    The text for the model stands in a `.md` beside the module, or in `description`. What is not overridden is the
    safe choice: it changes, is not deferred, and rules match it by name alone.
    """

    name: str
    input: ClassVar[type[msgspec.Struct]]
    description: ClassVar[str] = ""
    deferred: bool = False
    result_limit: int = RESULT_LIMIT
    interrupt: str = "cancel"
    family: str = ""
    filtered: bool = False

    def __init__(self) -> None:
        kind: Any = type(self)
        self.spec = _spec_of(kind)

    def parse(self, data: dict[str, Any]) -> Input:
        """The typed input, or `ToolError` that names the field and what was expected."""
        parsed: Input = read_input(self.input, self.spec.input_schema, data)
        return parsed

    def footprint(self, data: Input) -> Footprint:
        """What a call with this input touches."""
        return Footprint.CHANGES

    def subjects(self, data: Input) -> tuple[Subject, ...]:
        """What permission rules match."""
        return ()

    def title(self, data: Input) -> str:
        """One short line for a person."""
        return self.name

    async def run(self, data: Input, context: ToolContext) -> Result:
        """Do it."""
        raise NotImplementedError


class FunctionTool:
    """A tool made of a function. Still callable as that function."""

    family = ""
    filtered = False

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        footprint: FootprintName | Callable[[Any], FootprintName | Footprint] = "changes",
        deferred: bool = False,
        result_limit: int = RESULT_LIMIT,
        interrupt: Interrupt = "cancel",
        title: str | Callable[[Any], str] | None = None,
        subjects: Callable[[Any], Sequence[Subject]] | None = None,
    ) -> None:
        self.name: str = name or str(getattr(function, "__name__", ""))
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"a tool needs a name of letters, digits, _ and -, at most 64, not {self.name!r}")
        if isinstance(footprint, str) and footprint not in _FOOTPRINTS:
            raise ValueError(f"footprint must be one of {', '.join(_FOOTPRINTS)} or a function, not {footprint!r}")
        words, about = _read_docstring(inspect.getdoc(function) or "")
        self._wants_context, self.input = _input_of(function, self.name, about)
        self.spec = ToolSpec(self.name, description or words or self.name, input_schema(self.input))
        self.deferred = deferred
        self.result_limit = result_limit
        self.interrupt: str = interrupt
        self._function = function
        self._footprint = footprint
        self._title = title
        self._subjects = subjects
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function itself."""
        return self._function(*args, **kwargs)

    def parse(self, data: dict[str, Any]) -> Any:
        """The typed input: an object with one attribute per parameter."""
        return read_input(self.input, self.spec.input_schema, data)

    def footprint(self, data: Any) -> Footprint:
        """As declared; one that declares nothing changes."""
        said = self._footprint(data) if callable(self._footprint) else self._footprint
        return said if isinstance(said, Footprint) else _FOOTPRINTS[said]

    def subjects(self, data: Any) -> tuple[Subject, ...]:
        """As declared, else none."""
        return tuple(self._subjects(data)) if self._subjects else ()

    def title(self, data: Any) -> str:
        """As declared, else the name with the first argument."""
        if callable(self._title):
            return cut_line(self._title(data))
        if self._title:
            return cut_line(self._title)
        values = [value for value in msgspec.structs.asdict(data).values() if value is not None]
        return cut_line(f"{self.name} {values[0]}") if values else self.name

    async def run(self, data: Any, context: ToolContext) -> Result:
        """Call the function; one that is not async runs in a worker thread."""
        arguments = msgspec.structs.asdict(data)
        before = (context,) if self._wants_context else ()
        if inspect.iscoroutinefunction(inspect.unwrap(self._function)):
            return to_result(await self._function(*before, **arguments))
        call = functools.partial(self._function, *before, **arguments)
        value = await anyio.to_thread.run_sync(call, abandon_on_cancel=True)
        return to_result(await value if inspect.isawaitable(value) else value)


@overload
def tool(function: Callable[..., Any], /) -> FunctionTool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    footprint: FootprintName | Callable[[Any], FootprintName | Footprint] = "changes",
    deferred: bool = False,
    result_limit: int = RESULT_LIMIT,
    interrupt: Interrupt = "cancel",
    title: str | Callable[[Any], str] | None = None,
    subjects: Callable[[Any], Sequence[Subject]] | None = None,
) -> Callable[[Callable[..., Any]], FunctionTool]: ...
def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a tool of a typed, documented function, sync or async.

    The schema comes from the signature, the descriptions from the docstring's `Args:` or from `Annotated[T, "…"]`.
    A first parameter annotated `ToolContext` gets the context. It may return text, `Result`, blocks, or anything that
    JSON can say. `footprint`, `title` and `subjects` may be functions of the input (one attribute per parameter).
    A tool that declares nothing counts as changing and is asked about.
    """
    if function is None:
        return lambda decorated: FunctionTool(decorated, **options)
    return FunctionTool(function)


def to_result(value: Any) -> Result:
    """What a function returned, as a result."""
    if isinstance(value, Result):
        return value
    return Result(_content(value))


def cut_line(text: str, limit: int = TITLE_LIMIT) -> str:
    """One line of at most `limit` characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _content(value: Any) -> Content:
    if isinstance(value, str):
        return value
    if value is None:
        return "Done."
    if isinstance(value, (Text, Image, Document)):
        return (value,)
    if isinstance(value, (list, tuple)) and value and all(isinstance(item, (Text, Image, Document)) for item in value):
        return tuple(value)
    try:
        return msgspec.json.encode(value, enc_hook=_plain).decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ToolError(f"the tool's answer of type {type(value).__name__} cannot be said in JSON: {error}") from None


def _plain(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    return dump(mode="json") if callable(dump) else str(value)


def _input_of(function: Callable[..., Any], name: str, about: Mapping[str, str]) -> tuple[bool, type[msgspec.Struct]]:
    """Whether the function wants the context, and a Struct with one field per other parameter."""
    try:
        hints = get_type_hints(function, include_extras=True)
    except NameError as error:
        raise TypeError(f"tool {name}: a type of its signature cannot be found: {error}") from None
    parameters = list(inspect.signature(function).parameters.values())
    wants_context = bool(parameters) and hints.get(parameters[0].name) is ToolContext
    fields: list[Any] = []
    for parameter in parameters[1:] if wants_context else parameters:
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(f"tool {name}: parameter {parameter.name!r} must be one that can be given by name")
        if parameter.name not in hints:
            raise TypeError(f"tool {name}: parameter {parameter.name!r} needs a type")
        kind = _described(hints[parameter.name], about.get(parameter.name, ""))
        if parameter.default is parameter.empty:
            fields.append((parameter.name, kind))
        else:
            fields.append((parameter.name, kind, _default(parameter.default)))
    made = msgspec.defstruct(f"{name}_input", fields, kw_only=True, frozen=True, forbid_unknown_fields=True)
    return wants_context, made


def _default(value: Any) -> Any:
    if isinstance(value, (list, dict, set, bytearray)):
        return msgspec.field(default_factory=lambda: value.copy())
    return value


def _described(kind: Any, text: str) -> Any:
    """The type with its description, said in the docstring or as a plain string in `Annotated`."""
    if get_origin(kind) is Annotated:
        base: Any = kind.__origin__
        extras: tuple[Any, ...] = kind.__metadata__
        text = next((extra for extra in extras if isinstance(extra, str)), text)
        kept = [extra for extra in extras if not isinstance(extra, str)]
        if any(isinstance(extra, msgspec.Meta) and extra.description for extra in kept):
            text = ""
        kind = Annotated[(base, *kept)] if kept else base
    return Annotated[kind, msgspec.Meta(description=text)] if text else kind


def _read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """The words before the first section, and what is said of each argument."""
    start = _SECTION.search(text)
    end = start.start() if start else len(text)
    about: dict[str, str] = {}
    current, depth, inside = "", sys.maxsize, False
    for line in text[end:].splitlines():
        if section := _SECTION.match(line):
            inside = section[1] in _ARGUMENTS
            current, depth = "", sys.maxsize
            if sphinx := _SPHINX.match(line):
                current, depth = sphinx["name"], 0
                about[current] = sphinx["text"]
            continue
        indent = len(line) - len(line.lstrip())
        entry = _GOOGLE.match(line) if inside and 0 < indent <= depth else None
        if entry:
            current, depth = entry["name"], indent
            about[current] = entry["text"]
        elif current and indent > depth:
            about[current] = f"{about[current]} {line.strip()}".strip()
    return text[:end].strip(), about


@functools.cache
def _spec_of(kind: type[Any]) -> ToolSpec:
    """The spec of a class of tools: made once, shared by all sessions."""
    return ToolSpec(kind.name, kind.description or _text_beside(kind), input_schema(kind.input))


def _text_beside(kind: type) -> str:
    """The `.md` beside the module of a tool."""
    module = sys.modules[kind.__module__].__file__
    if module is None:
        raise RuntimeError(f"{kind.__name__} needs a description: its module has no file")
    return Path(module).with_suffix(".md").read_text(encoding="utf-8").strip()
