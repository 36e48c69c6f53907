"""Questions to a person, and their answers; verdicts of the rules."""

from typing import Any, Literal

from msgspec import Struct

from tugline.protocol.blocks import Document, Image
from tugline.protocol.ids import CallId, QuestionId
from tugline.protocol.specs import Mode
from tugline.protocol.trust import TrustAnswer, TrustQuestion

Remember = Literal["once", "session", "always"]
Behavior = Literal["allow", "ask", "deny"]
UpdateKind = Literal["addRules", "replaceRules", "removeRules", "setMode", "addDirectories", "removeDirectories"]
Destination = Literal["session", "localSettings", "projectSettings", "userSettings"]


class PermissionUpdate(Struct, frozen=True, omit_defaults=True):
    """A change of what stands, that goes with an answer: rules of one behaviour, the mode, or allowed directories."""

    kind: UpdateKind
    rules: tuple[str, ...] = ()
    behavior: Behavior = "allow"
    mode: Mode = "default"
    directories: tuple[str, ...] = ()
    destination: Destination = "session"


class Allow(Struct, frozen=True, tag="allow", omit_defaults=True):
    """Yes. `input` replaces the call's; `remember` with `rules` says what else to allow from now on, `updates` what
    else changes (one that is wrong voids all of them, not the yes); `words` and `content` go to the model."""

    input: dict[str, Any] | None = None
    remember: Remember = "once"
    rules: tuple[str, ...] = ()
    words: str = ""
    updates: tuple[PermissionUpdate, ...] = ()
    content: tuple[Image | Document, ...] = ()


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
    """Somebody has to be asked. `suggestions` are rules that "always" would save. `person`: a person, because a rule,
    a hook or a danger says so; no model may settle it."""

    reason: str
    suggestions: tuple[str, ...] = ()
    person: bool = False


Verdict = VerdictAllow | VerdictDeny | VerdictAsk


class PermissionQuestion(Struct, frozen=True, tag="permission", omit_defaults=True):
    """May this call run with this input? What is shown is what would run. `saved_in` is the file where the answer
    "always" keeps the suggestions; empty where it would count for the session only."""

    id: QuestionId
    call: CallId
    tool: str
    input: dict[str, Any]
    title: str
    reason: str
    suggestions: tuple[str, ...] = ()
    agent: str = ""
    saved_in: str = ""


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


class PlanQuestion(Struct, frozen=True, tag="plan"):
    """May this plan be carried out? `file` holds it; `modes` are those that the work may go on in, the first is the one
    that was on before."""

    id: QuestionId
    call: CallId
    plan: str
    file: str
    modes: tuple[Mode, ...]


class ApprovePlan(Struct, frozen=True, tag="approve_plan", omit_defaults=True):
    """Yes, in that mode (`None`: the one from before). `plan` is the plan as the person changed it; `words` go to the
    model."""

    mode: Mode | None = None
    plan: str | None = None
    words: str = ""


class RejectPlan(Struct, frozen=True, tag="reject_plan", omit_defaults=True):
    """Not like this. The words tell the model why; plan mode goes on."""

    words: str = ""


PlanAnswer = ApprovePlan | RejectPlan

Question = PermissionQuestion | UserQuestion | PlanQuestion | TrustQuestion
Answer = PermissionAnswer | InquiryAnswer | PlanAnswer | TrustAnswer
