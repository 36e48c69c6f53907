"""What every tool must do: decide without running anything, and refuse what it cannot use in words for the model."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from tugline.ports import Tool, ToolContext, Workspace
from tugline.protocol import codec
from tugline.protocol.blocks import Document, Image, Text
from tugline.protocol.errors import ToolError
from tugline.protocol.ids import AgentId, CallId
from tugline.protocol.specs import (
    AgentState,
    CommandSubject,
    Cwd,
    DomainSubject,
    Footprint,
    ModelCard,
    NameSubject,
    PathSubject,
    Progress,
    Reminder,
    Result,
    Seen,
    Todos,
    ToolsLoaded,
)
from tugline.testing.validity import check_schema

HOSTILE: tuple[Any, ...] = (
    *(
        None,
        True,
        0,
        -1,
        10**30,
        1.5,
        1e308,
        "",
        " ",
        "\0",
        "\u202e",
        "x" * 100_000,
        "a\nb\x1b[31m",
        "../" * 50,
    ),
    *([], [None], {}, {"a": {"b": []}}, [[]] * 100),
)
"""Values that a model may send where a tool expects something else."""

TITLE_LIMIT = 200


def tool_context(workspace: Workspace, *, cwd: str | None = None, model: ModelCard | None = None) -> ToolContext:
    """What a call gets to see, for running a tool without a loop."""

    def report(progress: Progress) -> None:
        assert isinstance(progress, Progress)

    state = AgentState(cwd or workspace.roots[0])
    card = model or ModelCard(name="scripted")
    return ToolContext(CallId("call_1"), AgentId("main"), state, workspace, card, report)


class ToolConformance:
    """Subclass it and give `tool` and `inputs`; with `workspace`, the inputs are also run."""

    def tool(self) -> Tool:
        """A new tool."""
        raise NotImplementedError

    def inputs(self) -> Sequence[dict[str, Any]]:
        """Valid inputs: at least one, best one per way in which the tool is used."""
        raise NotImplementedError

    def workspace(self) -> AbstractAsyncContextManager[Workspace] | None:
        """Where the inputs can be run, set up anew each time; without one they are not run."""
        return None

    def test_the_model_can_be_told_what_it_does(self) -> None:
        """Name, description and schema are what the services take."""
        tool = self.tool()
        assert tool.name == tool.spec.name
        assert tool.spec.description.strip()
        check_schema(tool.spec.input_schema, "input_schema")
        assert codec.decode_json(codec.encode(tool.spec.input_schema)) == tool.spec.input_schema
        assert "$ref" not in codec.encode(tool.spec.input_schema).decode()

    def test_its_declarations_are_of_the_kinds_that_the_loop_knows(self) -> None:
        """Interrupt, limit, family."""
        tool = self.tool()
        assert tool.interrupt in ("cancel", "block")
        assert tool.result_limit > 0
        assert isinstance(tool.family, str)
        assert isinstance(tool.deferred, bool)

    def test_two_of_it_are_told_to_the_model_in_the_same_bytes(self) -> None:
        """Or the prompt cache would miss."""
        assert codec.encode(self.tool().spec) == codec.encode(self.tool().spec)

    def test_valid_inputs_are_decided_the_same_each_time(self) -> None:
        """Footprint, subjects and title are pure, and of their types."""
        tool = self.tool()
        assert self.inputs(), "inputs() gives nothing to try"
        for data in self.inputs():
            before = codec.encode(data)
            decided = [_decide(tool, tool.parse(data)) for _ in range(2)]
            assert decided[0][2].strip(), f"the title of {data!r} is empty"
            assert decided[0] == decided[1], f"{data!r} is not decided the same twice"
            assert codec.encode(data) == before, f"{data!r} was changed by deciding about it"

    def test_any_input_is_decided_or_refused_in_words_for_the_model(self) -> None:
        """Nothing but `ToolError` escapes from `parse`, and what parses can be decided."""
        tool = self.tool()
        for data in self._spoiled():
            words, parsed = _parse(tool, data)
            assert words is None or words.strip(), f"{_shown(data)} is refused without a word"
            if words is None:
                _decide(tool, parsed)

    async def test_running_gives_a_result_or_words_for_the_model(self) -> None:
        """Of the right types, with changes that the loop knows."""
        for data in self.inputs():
            tool = self.tool()
            place = self.workspace()
            if place is None:
                return
            async with place as workspace:
                result = await _run(tool, data, tool_context(workspace))
            if isinstance(result, ToolError):
                assert str(result).strip(), f"{_shown(data)} fails without a word"
            else:
                check_result(result)

    def _spoiled(self) -> Iterator[dict[str, Any]]:
        yield {}
        for value in HOSTILE:
            yield {"surprise": value}
        for data in self.inputs():
            yield {**data, "surprise": 1}
            for key in data:
                yield {other: value for other, value in data.items() if other != key}
                for value in HOSTILE:
                    yield {**data, key: value}


def check_result(result: Result) -> None:
    """Raise `AssertionError` unless a result is made of what the loop and the providers know."""
    assert isinstance(result, Result), f"run gave {type(result).__name__}, not Result"
    content = result.for_model
    if not isinstance(content, str):
        assert isinstance(content, tuple), "content is text or a tuple of parts"
        assert all(isinstance(part, Text | Image | Document) for part in content)
    for change in result.changes:
        assert isinstance(change, Cwd | Seen | Todos | ToolsLoaded | Reminder), f"{change!r} is no change"
    assert isinstance(result.is_error, bool)


def _parse(tool: Tool, data: dict[str, Any]) -> tuple[str | None, Any]:
    try:
        return None, tool.parse(data)
    except ToolError as error:
        return str(error), None


async def _run(tool: Tool, data: dict[str, Any], context: ToolContext) -> Result | ToolError:
    try:
        return await tool.run(tool.parse(data), context)
    except ToolError as error:
        return error


def _decide(tool: Tool, parsed: Any) -> tuple[Footprint, tuple[Any, ...], str]:
    footprint, subjects, title = tool.footprint(parsed), tool.subjects(parsed), tool.title(parsed)
    assert isinstance(footprint, Footprint)
    assert isinstance(subjects, tuple)
    assert all(isinstance(s, PathSubject | CommandSubject | DomainSubject | NameSubject) for s in subjects)
    assert isinstance(title, str)
    assert "\n" not in title, "the title is more than a line"
    assert len(title) <= TITLE_LIMIT, f"the title has {len(title)} characters"
    return footprint, subjects, title


def _shown(data: Any) -> str:
    text = repr(data)
    return text if len(text) < 200 else text[:200] + "…"
