"""AskUserQuestion."""

from typing import Any, cast

import pytest
from msgspec import Struct

from tugline.ports import ToolContext
from tugline.protocol.errors import ToolError
from tugline.protocol.ids import CallId
from tugline.protocol.permissions import Inquiry, InquiryAnswer, Option
from tugline.protocol.specs import Display, Footprint, Result
from tugline.tools.builtin.ask_user_question import AskUserQuestion


class Call(Struct):
    call: CallId = CallId("c1")


class Person:
    """Answers always the same."""

    def __init__(self, answer: InquiryAnswer | None) -> None:
        self.answer = answer
        self.asked: list[tuple[CallId, tuple[Inquiry, ...]]] = []

    async def inquire(self, call: CallId, inquiries: tuple[Inquiry, ...]) -> InquiryAnswer | None:
        self.asked.append((call, inquiries))
        return self.answer


COLOUR = {
    "question": "Which colour?",
    "header": "Colour",
    "options": [{"label": "Red", "description": "Warm"}, {"label": "Blue", "preview": "blue blue"}],
    "multiSelect": True,
}


async def ask(answer: InquiryAnswer | None, *questions: dict[str, Any]) -> tuple[Result, Person]:
    person = Person(answer)
    tool = AskUserQuestion(person)
    data = tool.parse({"questions": list(questions)})
    assert tool.footprint(data) == Footprint.NOTHING
    return await tool.run(data, cast(ToolContext, Call())), person


async def test_the_person_is_asked_and_the_answer_told() -> None:
    result, person = await ask(InquiryAnswer({"Which colour?": "Red, Blue"}), COLOUR, {"question": "Why?"})
    assert person.asked == [
        (
            "c1",
            (
                Inquiry("Which colour?", "Colour", (Option("Red", "Warm"), Option("Blue", preview="blue blue")), True),
                Inquiry("Why?"),
            ),
        )
    ]
    assert result == Result(
        "Question: Which colour?\nAnswer: Red, Blue\nQuestion: Why?\nAnswer: (none)",
        Display("Red, Blue; (none)", "Which colour? Red, Blue\nWhy? (none)"),
    )


async def test_with_nobody_there_the_reason_is_an_error() -> None:
    result, _ = await ask(None, COLOUR)
    assert result.is_error
    assert "Nobody is there to answer" in str(result.for_model)


async def test_a_person_may_decline() -> None:
    result, _ = await ask(InquiryAnswer(declined=True), COLOUR)
    assert (result.is_error, result.for_person) == (True, Display("Not answered"))


def test_the_title_is_the_first_question() -> None:
    tool = AskUserQuestion(Person(None))
    assert tool.title(tool.parse({"questions": [COLOUR, {"question": "Why?"}]})) == "Which colour? (and 1 more)"


@pytest.mark.parametrize(
    ("questions", "words"),
    [
        ([], "questions"),
        ([{"question": f"{n}?"} for n in range(5)], "questions"),
        ([COLOUR, COLOUR], "twice"),
        ([{"question": "A?", "options": [{"label": "x"}, {"label": "x"}]}], "twice"),
        ([{"question": ""}], "question"),
        ([{"question": "A?", "options": ["x"]}], r"options\[0\]"),
    ],
)
def test_wrong_input_is_a_clear_error(questions: list[Any], words: str) -> None:
    with pytest.raises(ToolError, match=words):
        AskUserQuestion(Person(None)).parse({"questions": questions})
