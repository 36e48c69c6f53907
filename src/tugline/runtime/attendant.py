"""Answers a session's questions by callbacks: the library's way of being in front of it."""

import inspect
import traceback
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from anyio.abc import TaskGroup

from tugline.loop.executor import is_cancelled
from tugline.loop.voice import Voice
from tugline.protocol.events import Crashed, Event, InquiryAsked, PermissionAsked, PlanAsked, QuestionClosed
from tugline.protocol.ids import QuestionId
from tugline.protocol.permissions import (
    Allow,
    Answer,
    ApprovePlan,
    Deny,
    InquiryAnswer,
    PermissionAnswer,
    PermissionQuestion,
    PlanAnswer,
    PlanQuestion,
    RejectPlan,
    UserQuestion,
)
from tugline.rules.permission import Query
from tugline.runtime.questions import Questions

PermissionCallback = Callable[[PermissionQuestion], "PermissionAnswer | bool | Awaitable[PermissionAnswer | bool]"]
"""Says whether a call may run: `Allow`, `Deny`, or plain true and false. May be async."""
InquiryCallback = Callable[[UserQuestion], "InquiryAnswer | dict[str, str] | Awaitable[InquiryAnswer | dict[str, str]]"]
"""Answers the model's questions, with `InquiryAnswer` or a dict from question to answer. May be async."""

PermissionTool = Callable[
    [PermissionQuestion], "PermissionAnswer | bool | Awaitable[PermissionAnswer | bool | None] | None"
]
"""Answers in a person's place, or has no opinion: `None`. May be async."""
PlanCallback = Callable[[PlanQuestion], "PlanAnswer | bool | Awaitable[PlanAnswer | bool]"]
"""Says whether a plan is carried out: `ApprovePlan`, `RejectPlan`, or plain true and false. May be async."""


async def call_back(callback: Callable[[Any], Any], question: Any, name: str, voice: Voice) -> Any:
    """What a callback of the user's answers; `None`, and a line about it, where it fails."""
    try:
        answer = callback(question)
        return await answer if inspect.isawaitable(answer) else answer
    except anyio.get_cancelled_exc_class() as cancelled:
        if is_cancelled():
            raise
        error: BaseException = cancelled  # the callback's own: nobody has withdrawn the question
    except Exception as raised:  # hook boundary: a callback of the user's must not end the session
        error = raised
    trace = "".join(traceback.format_exception(error))[-20_000:]
    voice.say(Crashed, where=name, error=f"{type(error).__name__}: {error}", traceback=trace)
    return None


class FunctionResponder:
    """A function that answers permission questions in a person's place; one that fails or answers nonsense has no
    opinion."""

    name = "the permission tool"

    def __init__(self, respond: PermissionTool, voice: Voice) -> None:
        self._respond = respond
        self._voice = voice

    async def respond(self, question: PermissionQuestion, query: Query) -> PermissionAnswer | None:
        """Its answer; `None`: none."""
        answer = await call_back(self._respond, question, self.name, self._voice)
        if isinstance(answer, bool):
            return Allow() if answer else Deny()
        return answer if isinstance(answer, Allow | Deny) else None


class Attendant:
    """Runs the callback of each question beside the session; one that fails or answers nonsense is a denial."""

    def __init__(
        self,
        questions: Questions,
        voice: Voice,
        tasks: TaskGroup,
        *,
        permission: PermissionCallback | None,
        inquiry: InquiryCallback | None,
        plan: PlanCallback | None = None,
    ) -> None:
        self._questions = questions
        self._voice = voice
        self._tasks = tasks
        self._permission = permission
        self._inquiry = inquiry
        self._plan = plan
        self._running: dict[QuestionId, anyio.CancelScope] = {}

    def hear(self, event: Event) -> None:
        """Take note of a question, or of its end."""
        match event:
            case PermissionAsked(question=question):
                self._tasks.start_soon(self._answer, question, self._decide)
            case InquiryAsked(question=question):
                self._tasks.start_soon(self._answer, question, self._respond)
            case PlanAsked(question=question):
                self._tasks.start_soon(self._answer, question, self._weigh)
            case QuestionClosed(question=identity):
                scope = self._running.pop(identity, None)
                if scope is not None:
                    scope.cancel()
            case _:
                pass

    async def _answer(self, question: Any, respond: Callable[[Any], Awaitable[Answer]]) -> None:
        with anyio.CancelScope() as scope:
            self._running[question.id] = scope
            answer = await respond(question)
            self._running.pop(question.id, None)
            self._questions.answer(question.id, answer)

    async def _decide(self, question: PermissionQuestion) -> Answer:
        if self._permission is None:
            return Deny("there is nobody to ask")
        answer = await call_back(self._permission, question, "permission callback", self._voice)
        if isinstance(answer, bool):
            return Allow() if answer else Deny()
        if isinstance(answer, Allow | Deny):
            return answer
        return Deny("the permission callback did not answer")

    async def _respond(self, question: UserQuestion) -> Answer:
        if self._inquiry is None:
            return InquiryAnswer(declined=True)
        answer = await call_back(self._inquiry, question, "inquiry callback", self._voice)
        if isinstance(answer, dict):
            return InquiryAnswer({str(question): str(words) for question, words in answer.items()})
        return answer if isinstance(answer, InquiryAnswer) else InquiryAnswer(declined=True)

    async def _weigh(self, question: PlanQuestion) -> Answer:
        if self._plan is None:
            return RejectPlan(
                "there is nobody to approve a plan: go on without one, or end with the plan as the answer"
            )
        answer = await call_back(self._plan, question, "plan callback", self._voice)
        if isinstance(answer, bool):
            return ApprovePlan() if answer else RejectPlan()
        return (
            answer if isinstance(answer, ApprovePlan | RejectPlan) else RejectPlan("the plan callback did not answer")
        )
