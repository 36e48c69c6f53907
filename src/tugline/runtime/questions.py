"""Questions to a person: an event with an id goes out, an answer with that id comes in, over any wire."""

from anyio import Event as Signal

from tugline.loop.voice import Voice
from tugline.ports import Ids
from tugline.protocol.events import InquiryAsked, PermissionAsked, PlanAsked, QuestionClosed, TrustAsked
from tugline.protocol.ids import CallId, QuestionId
from tugline.protocol.permissions import (
    Allow,
    Answer,
    ApprovePlan,
    Deny,
    Inquiry,
    InquiryAnswer,
    PermissionAnswer,
    PermissionQuestion,
    PlanAnswer,
    PlanQuestion,
    Question,
    RejectPlan,
    UserQuestion,
)
from tugline.protocol.trust import TrustAnswer, TrustQuestion

_ANSWERS: dict[type[Question], tuple[type[Answer], ...]] = {
    PermissionQuestion: (Allow, Deny),
    UserQuestion: (InquiryAnswer,),
    PlanQuestion: (ApprovePlan, RejectPlan),
    TrustQuestion: (TrustAnswer,),
}


class Questions:
    """What is asked and not answered yet. `attended` says whether there is somebody to ask."""

    def __init__(self, voice: Voice, ids: Ids, *, attended: bool) -> None:
        self.attended = attended
        self._voice = voice
        self._ids = ids
        self._open: dict[QuestionId, tuple[Question, Signal]] = {}
        self._answers: dict[QuestionId, Answer] = {}

    def open(self) -> tuple[Question, ...]:
        """The questions that wait for an answer, oldest first."""
        return tuple(question for question, _ in self._open.values())

    def answer(self, question: QuestionId, answer: Answer) -> bool:
        """Give an answer; false if nothing waits for it any more, or it does not fit the question."""
        waiting = self._open.get(question)
        if waiting is None or question in self._answers:
            return False
        asked, signal = waiting
        if not isinstance(answer, _ANSWERS[type(asked)]):
            return False
        self._answers[question] = answer
        signal.set()
        return True

    def new_id(self) -> QuestionId:
        """An id for a question."""
        return QuestionId(self._ids.new("question"))

    async def ask(self, question: PermissionQuestion) -> PermissionAnswer | None:
        """Ask for a permission; `None` if there is nobody to ask."""
        if not self.attended:
            return None
        answer = await self._wait(question)
        assert isinstance(answer, Allow | Deny)
        return answer

    async def approve(self, question: PlanQuestion) -> PlanAnswer | None:
        """Ask whether a plan is to be carried out; `None` if there is nobody to ask."""
        if not self.attended:
            return None
        answer = await self._wait(question)
        assert isinstance(answer, ApprovePlan | RejectPlan)
        return answer

    async def trust(self, question: TrustQuestion) -> TrustAnswer:
        """Ask whether a folder is trusted."""
        answer = await self._wait(question)
        assert isinstance(answer, TrustAnswer)
        return answer

    async def inquire(self, call: CallId, inquiries: tuple[Inquiry, ...]) -> InquiryAnswer | None:
        """Ask the model's questions; `None` if there is nobody to ask."""
        if not self.attended:
            return None
        answer = await self._wait(UserQuestion(self.new_id(), call, inquiries))
        assert isinstance(answer, InquiryAnswer)
        return answer

    async def _wait(self, question: Question) -> Answer:
        signal = Signal()
        self._open[question.id] = (question, signal)
        match question:
            case PermissionQuestion():
                self._voice.say(PermissionAsked, question=question)
            case UserQuestion():
                self._voice.say(InquiryAsked, question=question)
            case PlanQuestion():
                self._voice.say(PlanAsked, question=question)
            case TrustQuestion():
                self._voice.say(TrustAsked, question=question)
        try:
            await signal.wait()
            return self._answers[question.id]
        finally:
            del self._open[question.id]
            answered = self._answers.pop(question.id, None) is not None
            outcome = "answered" if answered else "withdrawn"
            self._voice.say(QuestionClosed, question=question.id, outcome=outcome)
