"""Hooks around calls and at the end of a reply, as the loop knows them."""

from typing import Any

from tugline.extensions.hooks.runner import Hooks
from tugline.ports import CompactionVerdict, HookAfter, HookVerdict
from tugline.protocol.hooks import Outcome
from tugline.protocol.ids import CallId
from tugline.protocol.permissions import Allow, Deny, PermissionAnswer, PermissionQuestion
from tugline.protocol.specs import Result
from tugline.rules.hook_tools import plain, replaced, response
from tugline.rules.permission import Query
from tugline.rules.rule import parse_rule

_NO_VERDICT = HookVerdict()
_NOTHING_AFTER = HookAfter()
RETRY = "A hook says that it may be tried again."


class CallHooks:
    """Answers `ports.ToolHooks`, `ports.StopHook` and `ports.CompactionHooks` with the session's hooks."""

    name = "a hook"

    def __init__(self, hooks: Hooks, cwd: str, model: str) -> None:
        self._hooks = hooks
        self._cwd = cwd
        self._model = model
        self._ran: list[dict[str, Any]] = []

    # -- calls

    async def before(self, call: CallId, query: Query) -> HookVerdict:
        """PreToolUse."""
        hooks = self._hooks
        if not hooks.wants("PreToolUse"):
            return _NO_VERDICT
        said = await hooks.run("PreToolUse", _about(call, query), query)
        reason, decision, stop = hooks.fit(said.reason), said.decision, said.stop
        if decision == "defer":
            decision = "deny"
            reason = f"a hook deferred it{f': {reason}' if reason else ''}; ask for it again once that is settled"
            stop = stop or reason
        if decision == "deny" and not reason:
            reason = "a hook denied it"
        return HookVerdict(decision, reason, said.input, hooks.context("PreToolUse", said), stop)

    async def respond(self, question: PermissionQuestion, query: Query) -> PermissionAnswer | None:
        """PermissionRequest."""
        hooks = self._hooks
        if not hooks.wants("PermissionRequest"):
            return None
        fields = {
            **_about(question.call, query),
            "permission_suggestions": [_suggestion(rule) for rule in question.suggestions],
        }
        said = await hooks.run("PermissionRequest", fields, query)
        if said.stop is not None:
            return Deny(hooks.fit(said.stop), stop=True)
        if said.decision == "allow":
            words = "\n".join(hooks.context("PermissionRequest", said))
            return Allow(input=said.input, words=words, updates=said.updates)
        if said.decision == "deny":
            return Deny(hooks.fit(said.reason), stop=said.interrupt)
        return None

    async def denied(self, call: CallId, query: Query, reason: str) -> tuple[str, ...]:
        """PermissionDenied."""
        if not self._hooks.wants("PermissionDenied"):
            return ()
        said = await self._hooks.run("PermissionDenied", {**_about(call, query), "reason": reason}, query)
        return (*self._hooks.context("PermissionDenied", said), *((RETRY,) if said.retry else ()))

    async def after(self, call: CallId, query: Query, result: Result, duration: float) -> HookAfter:
        """PostToolUse, or PostToolUseFailure."""
        hooks = self._hooks
        event = "PostToolUseFailure" if result.is_error else "PostToolUse"
        batch = hooks.wants("PostToolBatch")
        if not batch and not hooks.wants(event):
            return _NOTHING_AFTER
        fields = {**_about(call, query), "tool_response": response(query.tool, query.input, result)}
        if batch:
            self._ran.append(dict(fields))
        if result.is_error:
            fields = {**_about(call, query), "error": plain(result.for_model), "is_interrupt": False}
        said = await hooks.run(event, {**fields, "duration_ms": round(duration * 1_000)}, query)
        output = None if said.output is None or result.is_error else replaced(said.output)
        if isinstance(output, str):
            output = hooks.fit(output)
        return HookAfter(self._words(event, said), said.stop, output)

    async def batch(self) -> HookAfter:
        """PostToolBatch, CwdChanged, and what hooks beside the turn have left."""
        hooks = self._hooks
        words: list[str] = []
        stop = hooks.stopped()
        ran, self._ran = self._ran, []
        if ran:
            said = await hooks.run("PostToolBatch", {"tool_calls": ran})
            words.extend(hooks.context("PostToolBatch", said))
            stop = stop or said.stop or said.block
        moved = await self._moved()
        if moved is not None:
            words.extend(hooks.context("CwdChanged", moved))
            stop = stop or moved.stop
        words.extend(hooks.later())
        return HookAfter(tuple(words), stop) if words or stop else _NOTHING_AFTER

    async def _moved(self) -> Outcome | None:
        before, now = self._cwd, self._hooks.cwd
        if before == now:
            return None
        self._cwd = now
        return await self._hooks.run("CwdChanged", {"old_cwd": before, "new_cwd": now})

    def _words(self, event: str, said: Outcome) -> tuple[str, ...]:
        feedback = (f"{event} hook: {self._hooks.fit(said.block)}",) if said.block is not None else ()
        return (*feedback, *self._hooks.context(event, said))

    # -- compactions

    async def before_compaction(self, trigger: str, words: str) -> CompactionVerdict:
        """PreCompact."""
        hooks = self._hooks
        if not hooks.wants("PreCompact"):
            return CompactionVerdict()
        said = await hooks.run("PreCompact", {"trigger": trigger, "custom_instructions": words})
        block = said.block if said.block is not None else said.stop
        return CompactionVerdict(tuple(map(hooks.fit, said.context)), block)

    async def additions(self) -> tuple[str, ...]:
        """SessionStart, for the conversation that is left."""
        hooks = self._hooks
        fields = {"source": "compact", "model": self._model}
        return hooks.context("SessionStart", await hooks.run("SessionStart", fields))

    async def after_compaction(self, trigger: str, summary: str) -> None:
        """PostCompact."""
        self._hooks.start("PostCompact", {"trigger": trigger, "compact_summary": summary})

    # -- rest

    async def on_stop(self, text: str, active: bool) -> str | None:
        """Stop."""
        hooks = self._hooks
        if not hooks.wants("Stop"):
            return None
        fields = {
            "stop_hook_active": active,
            "last_assistant_message": text,
            "background_tasks": [],
            "session_crons": [],
        }
        said = await hooks.run("Stop", fields)
        if said.stop is not None:
            return None
        feedback = (f"Stop hook feedback: {hooks.fit(said.block)}",) if said.block is not None else ()
        return "\n".join((*feedback, *hooks.context("Stop", said))) or None


def _about(call: CallId, query: Query) -> dict[str, Any]:
    return {"tool_name": query.tool, "tool_input": query.input, "tool_use_id": call}


def _suggestion(text: str) -> dict[str, Any]:
    rule = parse_rule(text, "allow")
    named = {"toolName": rule.tool} if rule.spec is None else {"toolName": rule.tool, "ruleContent": rule.spec}
    return {"type": "addRules", "rules": [named], "behavior": "allow", "destination": "localSettings"}
