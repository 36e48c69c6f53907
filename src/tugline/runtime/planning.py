"""Plan mode: entered by the person or the model, left with an approved plan; the model is always told which it is."""

from tugline.loop.inbox import Inbox, Letter
from tugline.loop.transcript import Transcript
from tugline.protocol.blocks import Text
from tugline.protocol.errors import SessionError, ToolError
from tugline.protocol.ids import CallId
from tugline.protocol.permissions import PlanQuestion, RejectPlan
from tugline.protocol.specs import Display, Mode, ModelCard, Result
from tugline.rules import planning, wording
from tugline.runtime.questions import Questions
from tugline.runtime.standing import Standing
from tugline.stores.plan import PlanFile

WORK_MODES: tuple[Mode, ...] = ("acceptEdits", "default", "auto")
"""The modes that a plan may be carried out in, beside the one that was on before."""


class Planning:
    """The plan of a session, and what its model knows of plan mode.

    A reminder waits in the inbox until the next request; one that was not delivered yet is taken back when the mode
    changes again, so that the model is never told of a change that is none.
    """

    def __init__(
        self, standing: Standing, questions: Questions, file: PlanFile, inbox: Inbox, transcript: Transcript
    ) -> None:
        self.file = file
        self._standing = standing
        self._questions = questions
        self._inbox = inbox
        self._transcript = transcript
        self._epoch = -1
        self._before: Mode = "default"
        self._known = False
        self._pending: tuple[Letter, bool] | None = None

    def refresh(self) -> None:
        """Before a prompt. Where the conversation has become another one (resumed, shortened, rewound), what it tells
        is what the model knows."""
        transcript = self._transcript
        if self._epoch == transcript.epoch:
            return
        self._epoch = transcript.epoch
        if self._pending is not None:
            self._inbox.take_back(self._pending[0])
            self._pending = None
        self._known = planning.told_on(transcript.messages)
        if self._standing.mode == "plan":
            self.file.prepare()
        self._tell()

    def mode_changed(self, before: Mode, after: Mode) -> None:
        """The mode is another one."""
        if after == "plan" and before != "plan":
            self._before = before
            self.file.prepare()
        self._tell()

    def _tell(self) -> None:
        """See to it that the model learns whether plan mode is on, if it believes otherwise."""
        if self._pending is not None:
            letter, told = self._pending
            self._pending = None
            if not self._inbox.take_back(letter):
                self._known = told
        on = self._standing.mode == "plan"
        if on != self._known:
            text = planning.entered(self.file.path) if on else planning.left(self._standing.mode)
            letter = Letter((Text(wording.reminder(text)),), hidden=True)
            self._inbox.put(letter)
            self._pending = (letter, on)

    def _knows(self, on: bool) -> None:
        """The model learns it by a result."""
        if self._pending is not None:
            self._inbox.take_back(self._pending[0])
            self._pending = None
        self._known = on

    # -- for the tools

    def enter(self) -> str:
        """Begin plan mode; what the model is told."""
        if self._standing.mode == "plan":
            raise ToolError("plan mode is on already: find out what you need, then present the plan with ExitPlanMode")
        if not self._questions.attended:
            raise ToolError("nobody can approve a plan in this run: go on without one")
        self._standing.set_mode("plan")
        self._knows(True)
        return planning.entered(self.file.path)

    async def present(self, call: CallId, plan: str) -> Result:
        """Ask the person; what the model is told of the answer."""
        if self._standing.mode != "plan":
            raise ToolError("plan mode is not on: if the plan was approved, carry it out")
        if plan.strip():
            self._keep(plan)
        plan = (plan.strip() and plan) or self.file.read()
        if not plan.strip():
            raise ToolError(f"there is no plan yet: give it in `plan`, or write it to {self.file.path}")
        modes = self._modes()
        answer = await self._questions.approve(
            PlanQuestion(self._questions.new_id(), call, plan, self.file.path, modes)
        )
        if answer is None:
            return Result(planning.nobody(self.file.path), Display("Nobody can approve the plan", plan), is_error=True)
        if isinstance(answer, RejectPlan):
            return Result(planning.rejected(answer.words), Display("The plan was not approved", plan), is_error=True)
        changed = answer.plan is not None and answer.plan != plan
        if answer.plan is not None and changed:
            plan = answer.plan
            self._keep(plan)
        mode = answer.mode if answer.mode in modes else modes[0]
        if self._standing.mode == "plan":
            self._standing.set_mode(mode)
        self._knows(False)
        said = planning.approved(self._standing.mode, plan, changed=changed, words=answer.words, file=self.file.path)
        return Result(said, Display("The plan is approved", plan, "markdown"))

    def _keep(self, plan: str) -> None:
        try:
            self.file.write(plan)
        except SessionError as error:
            raise ToolError(str(error)) from error

    def _modes(self) -> tuple[Mode, ...]:
        wanted = (self._before, *WORK_MODES)
        return tuple(dict.fromkeys(mode for mode in wanted if mode not in self._standing.forbidden))


class KeptMode:
    """That plan mode is on, for the head of a conversation that is shortened."""

    def __init__(self, standing: Standing, file: PlanFile) -> None:
        self._standing = standing
        self._file = file

    async def recall(self, room: int, card: ModelCard) -> str:
        """What the model is told of it."""
        return planning.entered(self._file.path) if self._standing.mode == "plan" else ""


class KeptPlan:
    """The plan, for the head of a conversation that is shortened."""

    def __init__(self, file: PlanFile) -> None:
        self._file = file

    async def recall(self, room: int, card: ModelCard) -> str:
        """The plan; where there is no room for it, its beginning."""
        plan = self._file.read().strip()
        fitting = plan if len(plan) <= 3 * room else plan[: 3 * room] + "\n[The rest stands in the file.]"
        return planning.restored(wording.escape(fitting), self._file.path) if plan else ""
