"""Questions to a person, and their answers; verdicts of the rules."""

from typing import Any, Literal

from msgspec import Struct

from tugline.protocol.ids import CallId, QuestionId

Remember = Literal["once", "session", "always"]


class Allow(Struct, frozen=True, tag="allow", omit_defaults=True):
    """Yes. `input` replaces the call's; `remember` with `rules` says what else to allow from now on; `words` go to
    the model."""

    input: dict[str, Any] | None = None
    remember: Remember = "once"
    rules: tuple[str, ...] = ()
    words: str = ""


class Deny(Struct, frozen=True, tag="deny", omit_defaults=True):
    """No. `words` tell the model why; `stop` ends the turn."""

    words: str = ""
    stop: bool = False


PermissionAnswer = Allow | Deny


class VerdictAllow(Struct, frozen=True, tag="allow"):
    """The rules allow the call."""

    reason: str


class VerdictDeny(Struct, frozen=True, tag="deny"):
    """The rules deny the call."""

    reason: str


class VerdictAsk(Struct, frozen=True, tag="ask", omit_defaults=True):
    """Somebody has to be asked. `suggestions` are rules that "always" would save."""

    reason: str
    suggestions: tuple[str, ...] = ()


Verdict = VerdictAllow | VerdictDeny | VerdictAsk


class PermissionQuestion(Struct, frozen=True, tag="permission", omit_defaults=True):
    """May this call run with this input? What is shown is what would run."""

    id: QuestionId
    call: CallId
    tool: str
    input: dict[str, Any]
    title: str
    reason: str
    suggestions: tuple[str, ...] = ()
    agent: str = ""


class Option(Struct, frozen=True, omit_defaults=True):
    """One answer to choose."""

    label: str
    description: str = ""
    preview: str = ""


class Inquiry(Struct, frozen=True, omit_defaults=True):
    """One question of the model's, with options; free text is always possible."""

    question: str
    header: str = ""
    options: tuple[Option, ...] = ()
    multi_select: bool = False


class UserQuestion(Struct, frozen=True, tag="inquiry"):
    """The model asks the person (AskUserQuestion)."""

    id: QuestionId
    call: CallId
    inquiries: tuple[Inquiry, ...]


class InquiryAnswer(Struct, frozen=True, tag="inquiry_answer", omit_defaults=True):
    """The person's answers, by question; several labels are joined with a comma. `declined`: they did not want to."""

    answers: dict[str, str] = {}
    declined: bool = False


Question = PermissionQuestion | UserQuestion
Answer = PermissionAnswer | InquiryAnswer
