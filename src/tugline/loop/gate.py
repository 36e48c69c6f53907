"""The gate before every call: rules, hooks, mode, a question; what was judged and shown is what runs.

The order is that of the specification: deny rules, hooks, ask rules, safety checks, mode, allow rules, a question.
All but the hooks and the question is decided by `Judge`, which is pure.
"""

from collections.abc import Sequence
from typing import Any, Literal, Protocol

import anyio

from tugline.loop.executor import Passed, Refused
from tugline.loop.voice import Voice
from tugline.ports import HookAfter, HookVerdict, Tool, ToolHooks
from tugline.protocol.errors import ConfigError, ToolError
from tugline.protocol.events import Notice, PermissionDecided
from tugline.protocol.ids import CallId, QuestionId
from tugline.protocol.permissions import (
    Allow,
    Deny,
    PermissionAnswer,
    PermissionQuestion,
    Remember,
    Verdict,
    VerdictAllow,
    VerdictDeny,
)
from tugline.protocol.specs import AgentState, Result
from tugline.rules import wording
from tugline.rules.permission import Query
from tugline.rules.rule import RuleError

NOBODY = "it needs a permission, and nobody can be asked in this run"


HookOpinion = Literal["", "allow", "ask"]


class Judge(Protocol):
    """The standing rules and mode of a session."""

    def judge(self, query: Query) -> Verdict:
        """What they say now."""
        ...

    def remember(self, rules: Sequence[str], scope: Remember) -> None:
        """Allow these from now on."""
        ...


class Asker(Protocol):
    """Asks the person, if there is one."""

    def new_id(self) -> QuestionId: ...

    async def ask(self, question: PermissionQuestion) -> PermissionAnswer | None: ...


class Gate:
    """Decides about every call of one agent."""

    def __init__(self, judge: Judge, asker: Asker, voice: Voice, hooks: ToolHooks | None = None) -> None:
        self._judge = judge
        self._asker = asker
        self._voice = voice
        self._hooks = hooks
        self._one_question = anyio.Lock()

    async def check(
        self, call: CallId, tool: Tool, data: Any, given: dict[str, Any], state: AgentState
    ) -> Passed | Refused:
        """Whether the call may run, and with what input."""
        verdict = self._judge.judge(self._query(tool, data, given, state))
        if isinstance(verdict, VerdictDeny):
            return self._deny(call, tool, given, verdict.reason)
        words = ""
        opinion: HookOpinion = ""
        if self._hooks is not None:
            said = await self._hooks.before(tool.name, given, call)
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
            opinion = "ask" if said.decision == "ask" else "allow" if said.decision == "allow" else ""
            verdict = self._judge.judge(self._query(tool, data, given, state, opinion))
        if isinstance(verdict, VerdictDeny):
            return self._deny(call, tool, given, verdict.reason)
        if isinstance(verdict, VerdictAllow):
            self._decided(call, tool, given, True, verdict.reason)
            return Passed(given, data, words)
        async with self._one_question:
            # an answer given meanwhile may have settled this one too
            verdict = self._judge.judge(self._query(tool, data, given, state, opinion))
            if isinstance(verdict, VerdictAllow):
                self._decided(call, tool, given, True, verdict.reason)
                return Passed(given, data, words)
            return await self._ask(call, tool, data, given, state, verdict, words)

    async def after(self, call: CallId, tool: Tool, given: dict[str, Any], result: Result) -> HookAfter:
        """What hooks say once the call has ended."""
        if self._hooks is None:
            return HookAfter()
        return await self._hooks.after(tool.name, given, call, result)

    async def _ask(
        self,
        call: CallId,
        tool: Tool,
        data: Any,
        given: dict[str, Any],
        state: AgentState,
        verdict: Verdict,
        words: str,
    ) -> Passed | Refused:
        question = PermissionQuestion(
            id=self._asker.new_id(),
            call=call,
            tool=tool.name,
            input=given,
            title=_title(tool, data),
            reason=verdict.reason,
            suggestions=getattr(verdict, "suggestions", ()),
            agent=self._voice.origin.agent,
        )
        answer = await self._asker.ask(question)
        if answer is None:
            return self._deny(call, tool, given, f"{NOBODY} ({verdict.reason})")
        if isinstance(answer, Deny):
            reason = answer.words or "the user said no"
            refused = self._deny(call, tool, given, reason)
            return Refused(refused.text, stop=reason) if answer.stop else refused
        return self._allowed(call, tool, data, given, state, answer, words)

    def _allowed(
        self, call: CallId, tool: Tool, data: Any, given: dict[str, Any], state: AgentState, answer: Allow, words: str
    ) -> Passed | Refused:
        if answer.input is not None and answer.input != given:
            given = answer.input
            try:
                data = tool.parse(given)
            except ToolError as error:
                return Refused(wording.invalid_input(tool.name, f"the user changed it: {error}"), denial=False)
            verdict = self._judge.judge(self._query(tool, data, given, state))
            if isinstance(verdict, VerdictDeny):
                return self._deny(call, tool, given, verdict.reason)
        if answer.remember != "once" and answer.rules:
            try:
                self._judge.remember(answer.rules, answer.remember)
            except (ConfigError, RuleError) as error:
                self._voice.say(Notice, level="warning", text=f"The rule was not kept: {error}")
        self._decided(call, tool, given, True, "the user allowed it")
        return Passed(given, data, "\n".join(part for part in (words, answer.words) if part))

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
