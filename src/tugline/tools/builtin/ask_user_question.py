"""AskUserQuestion: questions for the person in front, with options."""

from typing import Annotated

from msgspec import Meta, Struct

from tugline.ports import Questioner, ToolContext
from tugline.protocol.errors import ToolError
from tugline.protocol.permissions import Inquiry, InquiryAnswer, Option
from tugline.protocol.specs import Display, Footprint, Result
from tugline.tools.define import BuiltinTool, cut_line
from tugline.tools.plain import plain_text

_NOBODY = (
    "Nobody is there to answer: this session runs without a person in front. Decide by what you know, choose what can "
    "be undone, and say in your answer what you assumed."
)


class OptionInput(Struct, frozen=True, forbid_unknown_fields=True):
    """One answer to choose."""

    label: Annotated[str, Meta(description="One to five words", min_length=1, max_length=200)]
    description: Annotated[str, Meta(description="What choosing it means", max_length=2_000)] = ""
    preview: Annotated[str, Meta(description="What it would look like, as plain text", max_length=10_000)] = ""


class QuestionInput(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """One question."""

    question: Annotated[str, Meta(description="The whole question", min_length=1, max_length=2_000)]
    header: Annotated[str, Meta(description="A label of one or two words", max_length=40)] = ""
    options: Annotated[list[OptionInput], Meta(description="Two to four answers to choose from", max_length=10)] = []
    multi_select: Annotated[bool, Meta(description="Whether several may be chosen")] = False


class AskUserQuestionInput(Struct, frozen=True, forbid_unknown_fields=True):
    """What the model says."""

    questions: Annotated[list[QuestionInput], Meta(description="One to four questions", min_length=1, max_length=4)]


class AskUserQuestion(BuiltinTool[AskUserQuestionInput]):
    """Asks through `questioner`."""

    name = "AskUserQuestion"
    input = AskUserQuestionInput

    def __init__(self, questioner: Questioner) -> None:
        super().__init__()
        self._questioner = questioner

    def parse(self, data: dict[str, object]) -> AskUserQuestionInput:
        """The typed input; answers come by question and label, so none may stand there twice."""
        parsed = super().parse(data)
        _refuse_doubles("question", [question.question for question in parsed.questions])
        for question in parsed.questions:
            _refuse_doubles("option", [option.label for option in question.options])
        return parsed

    def footprint(self, data: AskUserQuestionInput) -> Footprint:
        """Nothing is touched."""
        return Footprint.NOTHING

    def title(self, data: AskUserQuestionInput) -> str:
        """The first question."""
        rest = len(data.questions) - 1
        return cut_line(plain_text(data.questions[0].question) + (f" (and {rest} more)" if rest else ""))

    async def run(self, data: AskUserQuestionInput, context: ToolContext) -> Result:
        """Ask, and wait for as long as it takes."""
        inquiries = tuple(
            Inquiry(
                question.question,
                question.header,
                tuple(Option(option.label, option.description, option.preview) for option in question.options),
                question.multi_select,
            )
            for question in data.questions
        )
        answer = await self._questioner.inquire(context.call, inquiries)
        if answer is None:
            return Result(_NOBODY, Display("Nobody is there to answer"), is_error=True)
        if answer.declined:
            text = (
                "The person did not want to answer. Do not ask the same again: go on without, or wait for their word."
            )
            return Result(text, Display("Not answered"), is_error=True)
        return Result(*_told(inquiries, answer))


def _refuse_doubles(what: str, texts: list[str]) -> None:
    for text in texts:
        if texts.count(text) > 1:
            raise ToolError(f"the {what} {cut_line(text)!r} stands there twice")


def _told(inquiries: tuple[Inquiry, ...], answer: InquiryAnswer) -> tuple[str, Display]:
    pairs = [(inquiry.question, answer.answers.get(inquiry.question, "")) for inquiry in inquiries]
    for_model = "\n".join(f"Question: {question}\nAnswer: {given or '(none)'}" for question, given in pairs)
    detail = "\n".join(f"{plain_text(question)} {plain_text(given) or '(none)'}" for question, given in pairs)
    return for_model, Display(cut_line(plain_text("; ".join(given or "(none)" for _, given in pairs))), detail)
