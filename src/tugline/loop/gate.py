"""The gate before every call: rules, hooks, mode, a question; what was judged and shown is what runs.

The order is that of the specification: deny rules, hooks, ask rules, safety checks, mode, allow rules, a question,
which hooks may answer too.
All but the hooks and the question is decided by `Judge`, which is pure.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

import anyio
from msgspec import structs

from tugline.loop.executor import Passed, Refused
from tugline.loop.voice import Voice
from tugline.ports import HookAfter, HookVerdict, Responder, Tool, ToolHooks
from tugline.protocol.errors import ConfigError, ToolError, UsageError
from tugline.protocol.events import Notice, PermissionDecided
from tugline.protocol.ids import CallId, QuestionId
from tugline.protocol.permissions import (
    Allow,
    Deny,
    Destination,
    PermissionAnswer,
    PermissionQuestion,
    PermissionUpdate,
    Remember,
    Verdict,
    VerdictAllow,
    VerdictAsk,
    VerdictDeny,
)
from tugline.protocol.specs import AgentState, Mode, Result
from tugline.rules import wording
from tugline.rules.permission import Query
from tugline.rules.rule import RuleError

NOBODY = "it needs a permission, and nobody can be asked in this run"
INSTEAD = "Do without it, or end and say what would have to be allowed"


HookOpinion = Literal["", "allow", "ask"]


class Judge(Protocol):
    """The standing rules and mode of a session."""

    def judge(self, query: Query) -> Verdict:
        """What they say now."""
        ...

    @property
    def mode(self) -> Mode:
        """The permission mode now."""
        ...

    def remember(self, rules: Sequence[str], scope: Remember) -> None:
        """Allow these from now on."""
        ...

    def update(self, updates: Sequence[PermissionUpdate]) -> None:
        """Change what stands."""
        ...

    def kept_in(self, destination: Destination) -> str:
        """The file where such a change is kept."""
        ...


class Asker(Protocol):
    """Asks the person, if there is one."""

    def new_id(self) -> QuestionId: ...

    async def ask(self, question: PermissionQuestion) -> PermissionAnswer | None: ...


class Classifying(Responder, Protocol):
    """The model of the mode auto."""

    def allowed_by_person(self) -> None:
        """The person has allowed a call."""
        ...


class Gate:
    """Decides about every call of one agent.

    Hooks, then `responders`, are asked before a person is, or, for the main agent, while the person is asked too: the
    first answer counts. The classifier stands before them in the mode auto, and is made when it is first needed.
    """

    def __init__(
        self,
        judge: Judge,
        asker: Asker,
        voice: Voice,
        hooks: ToolHooks | None = None,
        *,
        responders: Sequence[Responder] = (),
        make_classifier: Callable[[], Classifying] | None = None,
    ) -> None:
        self._judge = judge
        self._asker = asker
        self._voice = voice
        self._hooks = hooks
        self._responders = (*(() if hooks is None else (hooks,)), *responders)
        self._make_classifier = make_classifier
        self._classifier: Classifying | None = None
        self._one_question = anyio.Lock()

    async def check(
        self, call: CallId, tool: Tool, data: Any, given: dict[str, Any], state: AgentState
    ) -> Passed | Refused:
        """Whether the call may run, and with what input."""
        query = self._query(tool, data, given, state)
        verdict = self._judge.judge(query)
        if isinstance(verdict, VerdictDeny):
            return await self._rule_out(call, tool, query, verdict.reason)
        words = ""
        if self._hooks is not None:
            said = await self._hooks.before(call, query)
            refused = self._heed(call, tool, given, said)
            if refused is not None:
                return refused
            if said.input is not None:
                given = said.input
                try:
                    data = tool.parse(given)
                except ToolError as error:
                    return Refused(wording.invalid_input(tool.name, f"a hook changed it: {error}"), denial=False)
            words = "\n".join(said.context)
            opinion: HookOpinion = "ask" if said.decision == "ask" else "allow" if said.decision == "allow" else ""
            query = self._query(tool, data, given, state, opinion)
            verdict = self._judge.judge(query)
        settled = await self._settled(call, tool, data, query, verdict, words)
        if settled is not None:
            return settled
        async with self._one_question:
            # an answer given meanwhile may have settled this one too
            verdict = self._judge.judge(query)
            settled = await self._settled(call, tool, data, query, verdict, words)
            return settled or await self._ask(call, tool, data, query, state, verdict, words)

    async def after(self, call: CallId, passed: Passed, result: Result, duration: float) -> HookAfter:
        """What hooks say once the call has ended."""
        if self._hooks is None or passed.query is None:
            return HookAfter()
        return await self._hooks.after(call, passed.query, result, duration)

    async def batch(self) -> HookAfter:
        """What hooks say once all calls of a reply have ended."""
        return HookAfter() if self._hooks is None else await self._hooks.batch()

    async def _settled(
        self, call: CallId, tool: Tool, data: Any, query: Query, verdict: Verdict, words: str
    ) -> Passed | Refused | None:
        """What comes of a verdict that asks nobody."""
        match verdict:
            case VerdictDeny(reason):
                return await self._rule_out(call, tool, query, reason)
            case VerdictAllow(reason):
                self._decided(call, tool, query.input, True, reason)
                return Passed(query.input, data, words, query=query)
            case _:
                return None

    async def _ask(
        self, call: CallId, tool: Tool, data: Any, query: Query, state: AgentState, verdict: Verdict, words: str
    ) -> Passed | Refused:
        given = query.input
        question = PermissionQuestion(
            id=self._asker.new_id(),
            call=call,
            tool=tool.name,
            input=given,
            title=_title(tool, data),
            reason=verdict.reason,
            suggestions=getattr(verdict, "suggestions", ()),
            agent=self._voice.origin.agent,
            saved_in=self._judge.kept_in("localSettings"),
        )
        answer, by = await self._answer(question, query, self._before_person(verdict))
        if by is not None and isinstance(answer, Allow) and answer.input not in (None, given):
            again = self._rejudged(tool, answer, given, state)
            if isinstance(again, VerdictAsk) and again.person:
                # somebody else than the person has made it a call that only a person may allow
                changed = structs.replace(question, input=answer.input or given, reason=again.reason, suggestions=())
                answer, by = await self._asker.ask(changed), None
        if answer is None:
            return await self._rule_out(call, tool, query, f"{NOBODY} ({verdict.reason}). {INSTEAD}")
        if isinstance(answer, Deny):
            return await self._denied(call, tool, query, answer, by)
        if by is None and self._classifier is not None:
            self._classifier.allowed_by_person()
        return await self._allowed(call, tool, data, query, state, answer, words, by)

    def _before_person(self, verdict: Verdict) -> tuple[Responder, ...]:
        """Who may answer before a person does. What a rule or a danger asks about is not for a model to settle."""
        settled = isinstance(verdict, VerdictAsk) and verdict.person
        if self._make_classifier is None or settled or self._judge.mode != "auto":
            return self._responders
        if self._classifier is None:
            self._classifier = self._make_classifier()
        return (self._classifier, *self._responders)

    async def _answer(
        self, question: PermissionQuestion, query: Query, responders: Sequence[Responder]
    ) -> tuple[PermissionAnswer | None, Responder | None]:
        """The answer that counts, and who gave it; `None` for the person."""
        if not responders:
            return await self._asker.ask(question), None
        if self._voice.origin.depth:
            # a person is not bothered for an agent in the background before these had no answer
            return await self._first_of(responders, question, query) or (await self._asker.ask(question), None)
        found: list[tuple[PermissionAnswer | None, Responder | None]] = []
        async with anyio.create_task_group() as tasks:

            async def consult() -> None:
                answered = await self._first_of(responders, question, query)
                if answered is not None and not found:
                    found.append(answered)
                    tasks.cancel_scope.cancel()

            tasks.start_soon(consult)
            answer = await self._asker.ask(question)
            if answer is not None and not found:
                found.append((answer, None))
                tasks.cancel_scope.cancel()
        return found[0] if found else (None, None)

    @staticmethod
    async def _first_of(
        responders: Sequence[Responder], question: PermissionQuestion, query: Query
    ) -> tuple[PermissionAnswer, Responder] | None:
        for responder in responders:
            answer = await responder.respond(question, query)
            if answer is not None:
                return answer, responder
        return None

    def _rejudged(self, tool: Tool, answer: Allow, given: dict[str, Any], state: AgentState) -> Verdict | None:
        given = answer.input if answer.input is not None else given
        try:
            return self._judge.judge(self._query(tool, tool.parse(given), given, state))
        except ToolError:
            return None  # said when it is looked at for the last time

    async def _denied(self, call: CallId, tool: Tool, query: Query, answer: Deny, by: Responder | None) -> Refused:
        """What somebody answered with no. Of what neither a person nor a hook has denied, hooks hear."""
        who = "the user" if by is None else by.name
        reason = answer.words or f"{who} said no"
        shown = f"{who}: {reason}" if by is not None and answer.words else reason
        if by is None or by is self._hooks:
            refused = self._deny(call, tool, query.input, shown)
        else:
            refused = await self._rule_out(call, tool, query, shown)
        return Refused(refused.text, stop=reason) if answer.stop else refused

    async def _allowed(
        self,
        call: CallId,
        tool: Tool,
        data: Any,
        query: Query,
        state: AgentState,
        answer: Allow,
        words: str,
        by: Responder | None,
    ) -> Passed | Refused:
        given, who = query.input, "the user" if by is None else by.name
        if answer.input is not None and answer.input != given:
            given = answer.input
            try:
                data = tool.parse(given)
            except ToolError as error:
                return Refused(wording.invalid_input(tool.name, f"{who} changed it: {error}"), denial=False)
        # the input may be another one, and rules and mode may have changed while the question stood
        query = self._query(tool, data, given, state)
        verdict = self._judge.judge(query)
        if isinstance(verdict, VerdictDeny):
            return await self._rule_out(call, tool, query, verdict.reason)
        self._keep(answer)
        self._decided(call, tool, given, True, f"{who} allowed it")
        said = "\n".join(part for part in (words, answer.words) if part)
        return Passed(given, data, said, answer.content, query)

    def _keep(self, answer: Allow) -> None:
        """What else the answer changes. What is wrong with it does not touch the yes."""
        try:
            if answer.remember != "once" and answer.rules:
                self._judge.remember(answer.rules, answer.remember)
        except (ConfigError, RuleError) as error:
            self._voice.say(Notice, level="warning", text=f"The rule was not kept: {error}")
        try:
            if answer.updates:
                self._judge.update(answer.updates)
        except (ConfigError, RuleError, UsageError) as error:
            self._voice.say(Notice, level="warning", text=f"The change of permissions was not kept: {error}")

    @staticmethod
    def _query(tool: Tool, data: Any, given: dict[str, Any], state: AgentState, hook: HookOpinion = "") -> Query:
        subjects, filtered = tuple(tool.subjects(data)), getattr(tool, "filtered", False)
        return Query(tool.name, given, tool.footprint(data), subjects, state.cwd, hook, filtered)

    def _heed(self, call: CallId, tool: Tool, given: dict[str, Any], said: HookVerdict) -> Refused | None:
        if said.decision == "deny" or said.stop is not None:
            reason = said.reason or said.stop or "a hook denied it"
            refused = self._deny(call, tool, given, reason)
            return Refused(refused.text, stop=said.stop, denial=said.stop is None)
        return None

    async def _rule_out(self, call: CallId, tool: Tool, query: Query, reason: str) -> Refused:
        """What rules, mode, a responder or nobody's answer deny; hooks hear of it, and may have words for the model."""
        refused = self._deny(call, tool, query.input, reason)
        words = () if self._hooks is None else await self._hooks.denied(call, query, reason)
        return Refused("\n".join((refused.text, *map(wording.reminder, words)))) if words else refused

    def _deny(self, call: CallId, tool: Tool, given: dict[str, Any], reason: str) -> Refused:
        self._decided(call, tool, given, False, reason)
        return Refused(wording.denied(tool.name, reason))

    def _decided(self, call: CallId, tool: Tool, given: dict[str, Any], allowed: bool, reason: str) -> None:
        self._voice.say(PermissionDecided, call=call, tool=tool.name, input=given, allowed=allowed, reason=reason)


def _title(tool: Tool, data: Any) -> str:
    try:
        return tool.title(data)
    except Exception:  # tool boundary: a title is not worth a failure
        return tool.name
