"""Tools out of functions and classes: the schema a model reads, the input it may send, the answers it gets."""

import dataclasses
import threading
from typing import Annotated, Any, Literal, TypedDict

import anyio
import msgspec
import pytest
from desk import Desk
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, Struct

from tugline.ports import Tool, ToolContext
from tugline.protocol.blocks import Image, Text
from tugline.protocol.errors import ToolError
from tugline.protocol.specs import Footprint, NameSubject, Result, ToolSpec
from tugline.tools.builtin.edit import Edit
from tugline.tools.builtin.glob import Glob
from tugline.tools.builtin.grep import Grep
from tugline.tools.builtin.notebook_edit import NotebookEdit
from tugline.tools.builtin.read import Read
from tugline.tools.builtin.write import Write
from tugline.tools.define import BuiltinTool, FunctionTool, tool


@dataclasses.dataclass
class Spot:
    """A place."""

    lat: float
    name: str = "here"


class Flags(TypedDict, total=False):
    loud: bool


class Wish(Struct, forbid_unknown_fields=True):
    what: str


class Tree(Struct):
    branches: list["Tree"] = []


@tool
def weather(
    city: str,
    days: int = 3,
    unit: Literal["c", "f"] = "c",
    spot: Spot | None = None,
    tags: Annotated[list[str], "labels to add"] = [],  # noqa: B006  # what people write
    limit: Annotated[int, Meta(ge=1, description="how many")] = 5,
) -> str:
    """Tell the weather.

    In two paragraphs.

    Args:
        city: where,
            by its name
        days (int): how far ahead
        unit: Celsius or Fahrenheit

    Returns:
        city: not a parameter.
    """
    return f"{city} {days} {unit} {spot} {tags} {limit}"


def test_the_schema_comes_from_signature_and_docstring() -> None:
    assert weather.spec == ToolSpec(
        "weather",
        "Tell the weather.\n\nIn two paragraphs.",
        {
            "type": "object",
            "properties": {
                "city": {"description": "where, by its name", "type": "string"},
                "days": {"description": "how far ahead", "type": "integer", "default": 3},
                "unit": {"description": "Celsius or Fahrenheit", "enum": ["c", "f"], "default": "c"},
                "spot": {
                    "type": "object",
                    "description": "A place.",
                    "properties": {"lat": {"type": "number"}, "name": {"type": "string", "default": "here"}},
                    "required": ["lat"],
                },
                "tags": {"description": "labels to add", "type": "array", "items": {"type": "string"}},
                "limit": {"description": "how many", "type": "integer", "minimum": 1, "default": 5},
            },
            "required": ["city"],
            "additionalProperties": False,
        },
    )


def test_a_tool_that_declares_nothing_changes_and_is_not_deferred() -> None:
    data = weather.parse({"city": "Rome"})
    assert weather.footprint(data) == Footprint.CHANGES
    assert weather.subjects(data) == ()
    assert (weather.deferred, weather.interrupt, weather.family) == (False, "cancel", "")
    assert weather.title(data) == "weather Rome"
    checked: Tool = weather
    assert checked.name == "weather"


def test_what_is_declared_counts() -> None:
    made = tool(
        name="other",
        description="words",
        footprint=lambda data: "reads" if data.dry else "changes",
        deferred=True,
        result_limit=7,
        interrupt="block",
        title=lambda data: f"do it\n{data.dry}",
        subjects=lambda data: [NameSubject("x")],
    )(lambdas)
    dry = made.parse({"dry": True})
    assert made.footprint(dry) == Footprint.READS
    assert made.footprint(made.parse({"dry": False})) == Footprint.CHANGES
    assert made.subjects(dry) == (NameSubject("x"),)
    assert made.title(dry) == "do it True"
    assert (made.name, made.spec.description, made.deferred, made.result_limit) == ("other", "words", True, 7)
    assert made.interrupt == "block"
    assert tool(footprint="nothing")(lambdas).footprint(dry) == Footprint.NOTHING


def lambdas(dry: bool) -> str:
    return "x"


async def test_a_function_is_still_a_function(tmp_path: Any) -> None:
    assert weather("Rome", days=1) == "Rome 1 c None [] 5"
    assert weather.__doc__ is not None
    text = await Desk(tmp_path).text(weather, city="Rome", spot={"lat": "1.5"})
    assert text == "Rome 3 c Spot(lat=1.5, name='here') [] 5"


async def test_defaults_are_not_shared_between_calls(tmp_path: Any) -> None:
    @tool
    def grow(items: list[str] = []) -> list[str]:  # noqa: B006  # what people write
        items.append("x")
        return items

    desk = Desk(tmp_path)
    assert await desk.text(grow) == '["x"]'
    assert await desk.text(grow) == '["x"]'


async def test_async_functions_run_on_the_loop_and_others_beside_it(tmp_path: Any) -> None:
    @tool
    async def here() -> bool:
        await anyio.lowlevel.checkpoint()
        return threading.current_thread() is threading.main_thread()

    @tool
    def there() -> bool:
        return threading.current_thread() is threading.main_thread()

    desk = Desk(tmp_path)
    assert await desk.text(here) == "true"
    assert await desk.text(there) == "false"


async def test_a_sync_function_that_hangs_does_not_hold_up_an_interrupt(tmp_path: Any) -> None:
    release = threading.Event()

    @tool
    def hang() -> None:
        release.wait(20)

    try:
        with anyio.move_on_after(0.05) as scope:
            await Desk(tmp_path).call(hang)
        assert scope.cancelled_caught
    finally:
        release.set()


async def test_the_context_is_given_to_who_asks_for_it(tmp_path: Any) -> None:
    @tool
    async def where(context: ToolContext, sub: str = "") -> str:
        return context.state.cwd + sub

    assert "context" not in where.spec.input_schema["properties"]
    desk = Desk(tmp_path)
    assert await desk.text(where, sub="/x") == f"{desk.root}/x"


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("text", "text"),
        (None, "Done."),
        ({"a": [1, None]}, '{"a":[1,null]}'),
        (Spot(1.0), '{"lat":1.0,"name":"here"}'),
        (Text("x"), (Text("x"),)),
        ([Text("x"), Image("image/png", "")], (Text("x"), Image("image/png", ""))),
        ([], "[]"),
        (float("nan"), "null"),
        ({3 + 4j}, '["(3+4j)"]'),
    ],
)
async def test_whatever_json_can_say_is_an_answer(tmp_path: Any, value: Any, content: Any) -> None:
    @tool
    def answer() -> Any:
        return value

    assert (await Desk(tmp_path).call(answer)).for_model == content


async def test_a_result_goes_through_as_it_is(tmp_path: Any) -> None:
    @tool
    async def fail() -> Result:
        return Result("no", is_error=True)

    assert await Desk(tmp_path).call(fail) == Result("no", is_error=True)


async def test_what_json_cannot_say_is_a_plain_error(tmp_path: Any) -> None:
    @tool
    def loop() -> Any:
        made: list[Any] = []
        made.append(made)
        return made

    with pytest.raises(ToolError, match="cannot be said in JSON"):
        await Desk(tmp_path).call(loop)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({}, "`city` is missing (text: where, by its name)"),
        ({"city": 3}, "`city` must be text, not a whole number"),
        ({"city": "x", "days": "three"}, "`days` must be a whole number, not text"),
        ({"city": "x", "days": 1.5}, "`days` must be a whole number, not a number"),
        ({"city": "x", "dayz": 1}, "there is no `dayz`; did you mean `days`?"),
        ({"city": "x", "zzz": 1}, "there is no `zzz`; it takes `city`, `days`"),
        ({"city": "x", "unit": "k"}, "`unit` must be one of 'c', 'f', not 'k'"),
        ({"city": "x", "limit": 0}, "`limit` must be a whole number >= 1"),
        ({"city": "x", "tags": ["a", 1]}, "`tags[1]` must be text, not a whole number"),
        ({"city": "x", "tags": "a"}, "`tags` must be a list, not text"),
        ({"city": "x", "spot": {}}, "`spot.lat` is missing (a number)"),
        ({"city": "x", "spot": 3}, "`spot` must be an object, not a whole number"),
        ({"city": None}, "`city` must be text, not null"),
    ],
)
def test_wrong_input_names_the_field_and_what_was_expected(data: dict[str, Any], words: str) -> None:
    with pytest.raises(ToolError) as caught:
        weather.parse(data)
    assert str(caught.value).startswith(words)


@pytest.mark.parametrize(
    ("given_", "field", "value"),
    [
        ({"days": "3"}, "days", 3),
        ({"days": 3.0}, "days", 3),
        ({"tags": '["a"]'}, "tags", ["a"]),
        ({"spot": '{"lat": 2}'}, "spot", Spot(2.0)),
        ({"spot": None}, "spot", None),
    ],
)
def test_what_is_meant_is_understood(given_: dict[str, Any], field: str, value: Any) -> None:
    assert getattr(weather.parse({"city": "x", **given_}), field) == value


def test_nested_types_are_spelled_out() -> None:
    @tool
    def take(flags: Flags, wishes: list[Wish], either: int | str | None = None) -> None: ...

    properties = take.spec.input_schema["properties"]
    assert properties["flags"] == {"type": "object", "properties": {"loud": {"type": "boolean"}}, "required": []}
    assert properties["wishes"]["items"]["required"] == ["what"]
    assert properties["either"] == {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    assert "$ref" not in msgspec.json.encode(take.spec.input_schema).decode()
    with pytest.raises(ToolError, match=r"in `wishes\[0\]`: there is no `wat`; did you mean `what`\?"):
        take.parse({"flags": {}, "wishes": [{"what": "x", "wat": 1}]})


def test_models_that_describe_themselves_are_taken() -> None:
    pydantic = pytest.importorskip("pydantic", reason="pydantic is no dependency")
    part: Any = pydantic.create_model("Part", n=(int, 1))
    model = pydantic.create_model("Order", item=(str, ...), parts=(list[part], []))

    def order(order: Any) -> Any:
        return order

    order.__annotations__["order"] = model
    made = tool(order)
    schema = made.spec.input_schema["properties"]["order"]
    assert schema["required"] == ["item"]
    assert schema["properties"]["parts"]["items"]["properties"] == {"n": {"default": 1, "type": "integer"}}
    assert made.parse({"order": {"item": "x", "parts": [{}]}}).order == model(item="x", parts=[{}])
    with pytest.raises(ToolError, match=r"^`order`: "):
        made.parse({"order": {}})


def test_functions_that_cannot_be_a_tool_say_so_at_once() -> None:
    def untyped(a) -> None: ...  # type: ignore[no-untyped-def]
    def spread(*a: int) -> None: ...
    def bag(**a: int) -> None: ...
    def endless(a: Tree) -> None: ...
    def place(a: int, /) -> None: ...

    for function, words in (
        (untyped, "needs a type"),
        (spread, "given by name"),
        (bag, "given by name"),
        (place, "given by name"),
        (endless, "contains itself"),
    ):
        with pytest.raises(TypeError, match=words):
            tool(function)
    with pytest.raises(ValueError, match="a tool needs a name"):
        tool(lambda: None)
    with pytest.raises(ValueError, match="footprint must be one of"):
        tool(footprint="maybe")(lambdas)  # type: ignore[call-overload]


def test_other_styles_of_docstring_are_understood() -> None:
    @tool
    def sphinx(a: int, b: str) -> None:
        """Words.

        :param a: the first
            of them
        :param str b: the second
        :returns: nothing
        """

    properties = sphinx.spec.input_schema["properties"]
    assert [properties[name]["description"] for name in "ab"] == ["the first of them", "the second"]
    assert sphinx.spec.description == "Words."


def test_methods_and_closures_become_tools() -> None:
    class Shop:
        def sell(self, what: str) -> str:
            """Sell it."""
            return what

    made = FunctionTool(Shop().sell)
    assert list(made.spec.input_schema["properties"]) == ["what"]


@pytest.mark.parametrize("made", [Read(), Write(), Edit(), NotebookEdit(), Glob(), Grep()], ids=lambda made: made.name)
def test_every_built_in_tool_describes_itself_in_plain_schema(made: BuiltinTool[Any]) -> None:
    assert len(made.spec.description) > 200
    text = msgspec.json.encode(made.spec.input_schema).decode()
    assert "$ref" not in text
    assert '"additionalProperties":false' in text
    assert all("description" in schema for schema in made.spec.input_schema["properties"].values())
    checked: Tool = made
    assert checked.spec.name == checked.name


def test_the_inputs_have_the_names_that_people_know() -> None:
    names = {
        made.name: list(made.spec.input_schema["properties"]) for made in (Read(), Write(), Edit(), Glob(), Grep())
    }
    assert names == {
        "Read": ["file_path", "offset", "limit", "pages"],
        "Write": ["file_path", "content"],
        "Edit": ["file_path", "old_string", "new_string", "replace_all", "edits"],
        "Glob": ["pattern", "path"],
        "Grep": [
            "pattern", "path", "glob", "type", "output_mode", "-A", "-B", "-C", "-n", "-i", "multiline",
            "head_limit", "offset",
        ],
    }  # fmt: skip


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
fields = st.sampled_from(["city", "days", "unit", "spot", "tags", "limit", "lat", "x"])


@given(st.dictionaries(fields | st.text(max_size=4), values, max_size=5))
def test_any_input_is_parsed_or_refused_in_words(data: dict[str, Any]) -> None:
    for made in (weather, Edit(), Grep()):
        said = ""
        try:
            made.parse(data)
        except ToolError as error:
            said = str(error) or "nothing said"
        assert said != "nothing said"
        assert "$" not in said or "$" in str(data)
