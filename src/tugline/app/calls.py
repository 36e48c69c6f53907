"""Calls as outsiders write them: a tool's name and its public input, made ready for the rules.

What rules speak of in an input is a matter of its few fields here, not of the tools themselves: a call is judged before
its other fields are looked at, and also where the tool is not part of this version. A test holds this against the
`subjects` of every built-in tool.
"""

from collections.abc import Mapping
from typing import Any

from tugline.protocol.errors import UsageError
from tugline.protocol.specs import CommandSubject, DomainSubject, Footprint, NameSubject, PathSubject, Subject
from tugline.rules.globs import search_base
from tugline.rules.permission import Query

_NOTHING = frozenset(
    {
        "TodoWrite", "AskUserQuestion", "ToolSearch", "TaskCreate", "TaskGet", "TaskList", "TaskUpdate", "TaskOutput",
        "EnterPlanMode",
    }
)  # fmt: skip
"""Tools that touch nothing outside of the session."""
_FIELD = {
    "Bash": "command",
    "Read": "file_path",
    "Write": "file_path",
    "Edit": "file_path",
    "MultiEdit": "file_path",
    "NotebookEdit": "notebook_path",
    "Glob": "pattern",
    "Grep": "path",
    "WebFetch": "url",
    "Agent": "subagent_type",
    "Task": "subagent_type",
    "Skill": "skill",
}
"""The field of a tool's input that stands for the whole where a call is written `Tool(text)`."""
_OPTIONAL = frozenset(["Grep", "Agent", "Task"])
_EDITORS = frozenset(["Write", "Edit", "MultiEdit", "NotebookEdit"])
_READERS = frozenset(["Read", "Grep", "Glob"])


class BadCall(UsageError):
    """The call cannot be judged; the text says what is missing."""


def query_of(tool: str, given: Mapping[str, Any], cwd: str) -> Query:
    """The call as the rules take it; `BadCall` where the field that they speak of is missing or no text."""
    if not tool or not isinstance(tool, str):
        raise BadCall("the tool's name is missing")
    field = _FIELD.get(tool)
    value = given.get(field) if field is not None else None
    if field is not None and not isinstance(value, str) and not (value is None and tool in _OPTIONAL):
        raise BadCall(f"{tool} needs {field!r}, a text")
    text = value or ""
    folder = given.get("path")
    if folder is not None and not isinstance(folder, str):
        raise BadCall(f"{tool}: 'path' is no text")
    subjects: tuple[Subject, ...] = ()
    footprint = Footprint.NOTHING if tool in _NOTHING else Footprint.CHANGES
    if tool == "Bash":
        subjects = (CommandSubject(text),)
    elif tool in _EDITORS:
        subjects = (PathSubject(text, "edit"),)
    elif tool in _READERS:
        footprint = Footprint.READS
        path = search_base(text, folder or ".") if tool == "Glob" else text or "."
        subjects = (PathSubject(path),)
    elif tool == "WebFetch":
        footprint, subjects = Footprint.READS, (DomainSubject(_host(text)),)
    elif field is not None:
        subjects = (NameSubject(text or "general-purpose"),)
    return Query(tool, dict(given), footprint, subjects, cwd, filtered=tool in ("Grep", "Glob"))


def _host(url: str) -> str:
    from tugline.net.client import HttpError  # noqa: PLC0415  imported here: start-up cost
    from tugline.tools.web import read_url  # noqa: PLC0415  imported here: start-up cost

    try:
        return read_url(url).host
    except HttpError as error:
        raise BadCall(f"WebFetch: {error}") from None


def parse_call(text: str) -> tuple[str, dict[str, Any]]:
    """A call as people write it: `Bash(git push)`, `Read(./x)`, `TodoWrite`; the text stands for the main field."""
    stripped = text.strip()
    tool, opened, rest = stripped.partition("(")
    if not opened:
        return stripped, {}
    if not stripped.endswith(")"):
        raise BadCall(f"{text!r}: the closing ) is missing")
    inner = rest[:-1]
    field = _FIELD.get(tool)
    if tool == "WebFetch":
        host = inner.removeprefix("domain:")
        return tool, {"url": inner if "://" in inner else f"https://{host}/"}
    if field is None:
        if inner:
            raise BadCall(f"{tool or text!r}: its input is written as JSON: {tool} '{{…}}'")
        return tool, {}
    return tool, {field: inner}
