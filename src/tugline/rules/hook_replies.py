"""What a hook answered, read: exit status, plain text, and the JSON that hooks of several tools agree on. Pure."""

from collections.abc import Mapping
from typing import Any, get_args

import msgspec

from tugline.protocol.hooks import Decision, HookOutput, HookReply
from tugline.protocol.permissions import Destination, PermissionUpdate, UpdateKind
from tugline.protocol.specs import Mode
from tugline.rules.hook_events import BLOCKABLE, DECIDING, PLAIN_CONTEXT
from tugline.rules.rule import RuleError, parse_rule

BLOCK = 2
"""The exit status that blocks."""

NO_REASON = "a hook blocked it without a word"


def read_reply(event: str, reply: HookReply, *, block_on_failure: bool = False) -> tuple[HookOutput, str]:
    """What the hook says, and what the person should know of how it went; never raises."""
    if reply.answer is not None:
        return _read_answer(event, reply.answer)
    problem = reply.failure
    if not problem and reply.status == BLOCK:
        return _blocked(event, reply)
    if not problem and reply.status:
        problem = f"it ended with exit status {reply.status}: {_first_line(reply.stderr) or 'it said nothing'}"
    if problem:
        if block_on_failure and event in BLOCKABLE:
            return _block(event, f"a hook failed: {problem}"), problem
        return HookOutput(), problem
    return _read_text(event, reply.stdout.strip())


def _blocked(event: str, reply: HookReply) -> tuple[HookOutput, str]:
    reason = reply.stderr.strip()
    if not reason and reply.stdout.strip().startswith("{"):
        said, _ = _read_text(event, reply.stdout.strip())
        reason = said.block or said.reason or said.stop or ""
    if event not in BLOCKABLE:
        return HookOutput(), f"it says: {reason or 'exit status 2, which blocks nothing here'}"
    return _block(event, reason or reply.stdout.strip() or NO_REASON), ""


def _block(event: str, reason: str) -> HookOutput:
    if event in DECIDING:
        return HookOutput(decision="deny", reason=reason)
    return HookOutput(block=reason)


def _read_text(event: str, text: str) -> tuple[HookOutput, str]:
    if not text.startswith("{"):
        return HookOutput(context=text if event in PLAIN_CONTEXT else ""), ""
    try:
        data = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        return HookOutput(), f"what it printed begins like JSON, but is none: {error}"
    return _read_answer(event, data)


def _read_answer(event: str, answer: Any) -> tuple[HookOutput, str]:
    if isinstance(answer, HookOutput):
        return answer, ""
    if not isinstance(answer, Mapping):
        return HookOutput(), f"its answer is no object, but a {type(answer).__name__}"
    return _Reading(event, answer).read()


def read_judgement(event: str, text: str) -> HookReply:
    """What a model answered to a hook's question: `{"ok": true}`, or `{"ok": false, "reason": "..."}`."""
    found: Any = None
    start, end = text.find("{"), text.rfind("}")
    if 0 <= start < end:
        try:
            found = msgspec.json.decode(text[start : end + 1])
        except (msgspec.DecodeError, RecursionError):
            found = None
    if not isinstance(found, dict) or not isinstance(found.get("ok"), bool):
        return HookReply(failure=f"the model's answer is no judgement: {_first_line(text) or 'it is empty'}")
    if found["ok"]:
        return HookReply(answer=HookOutput())
    return HookReply(answer=_block(event, str(found.get("reason") or NO_REASON)))


class _Reading:
    """Takes one JSON answer apart. A field that is wrong is named, and the rest counts."""

    def __init__(self, event: str, data: Mapping[str, Any]) -> None:
        self._event = event
        self._data = data
        self._wrong: list[str] = []

    def read(self) -> tuple[HookOutput, str]:
        data, given = self._data, self._specific()
        decision, reason = self._decision(given)
        answer = self._take(given, "decision", dict) if self._event == "PermissionRequest" else None
        said = HookOutput(
            decision=decision,
            reason=reason,
            block=self._block(),
            stop=self._stop(),
            message=self._take(data, "systemMessage", str) or "",
            context=self._take(given, "additionalContext", str) or "",
            input=self._take(answer or given, "updatedInput", dict),
            output=given.get("updatedToolOutput", given.get("updatedMCPToolOutput")),
            updates=self._updates(answer or {}),
            interrupt=bool(self._take(answer or {}, "interrupt", bool)),
            retry=bool(self._take(given, "retry", bool)),
            title=self._take(given, "sessionTitle", str) or "",
            watch=tuple(path for path in self._take(given, "watchPaths", list) or () if isinstance(path, str)),
            hide_output=bool(self._take(data, "suppressOutput", bool)),
            background=bool(self._take(data, "async", bool)),
        )
        return said, "; ".join(self._wrong)

    def _take(self, data: Mapping[str, Any], name: str, kind: type) -> Any:
        value = data.get(name)
        if value is None or isinstance(value, kind):
            return value
        self._wrong.append(f"{name} is not of type {_NAMES[kind]}, and does not count")
        return None

    def _specific(self) -> Mapping[str, Any]:
        given = self._take(self._data, "hookSpecificOutput", dict) or {}
        name = given.get("hookEventName", self._event)
        if name != self._event:
            self._wrong.append(f"its hookSpecificOutput is for {name}, and does not count")
            return {}
        return dict(given)

    def _decision(self, given: Mapping[str, Any]) -> tuple[Decision, str]:
        if self._event == "PreToolUse":
            said = self._take(given, "permissionDecision", str)
            why = self._take(given, "permissionDecisionReason", str) or ""
            if said in ("allow", "ask", "defer", "deny"):
                return said, why
            if said is not None:
                self._wrong.append(f"permissionDecision {said!r:.40} is none of allow, ask, defer, deny")
            # an older form of the same
            older = {"approve": "allow", "allow": "allow", "block": "deny", "deny": "deny", "ask": "ask"}
            found: Any = older.get(str(self._data.get("decision")), "")
            return found, self._take(self._data, "reason", str) or ""
        if self._event == "PermissionRequest":
            answer = self._take(given, "decision", dict) or {}
            said = answer.get("behavior")
            if said in ("allow", "deny"):
                return said, self._take(answer, "message", str) or ""
            if answer:
                self._wrong.append(f"the behavior {said!r:.40} is none of allow, deny")
            if self._data.get("decision") == "block":
                return "deny", self._take(self._data, "reason", str) or NO_REASON
        return "", ""

    def _block(self) -> str | None:
        said = self._data.get("decision")
        if self._event in DECIDING or said is None:
            return None
        if said == "block":
            return self._take(self._data, "reason", str) or NO_REASON
        if said != "approve":
            self._wrong.append(f"the decision {said!r:.40} is not block")
        return None

    def _stop(self) -> str | None:
        if self._take(self._data, "continue", bool) is not False:
            return None
        return self._take(self._data, "stopReason", str) or self._take(self._data, "reason", str) or "a hook stopped it"

    def _updates(self, answer: Mapping[str, Any]) -> tuple[PermissionUpdate, ...]:
        given = self._take(answer, "updatedPermissions", list) or ()
        try:
            return read_updates(given)
        except ValueError as error:
            self._wrong.append(f"updatedPermissions do not count: {error}")
            return ()


_NAMES: dict[type, str] = {str: "string", bool: "boolean", dict: "object", list: "array"}


def read_updates(given: Any) -> tuple[PermissionUpdate, ...]:
    """Changes of permissions, as hosts and hooks write them; `ValueError` if any of them is malformed."""
    return tuple(_update(one) for one in given)


def _update(one: Any) -> PermissionUpdate:
    if not isinstance(one, Mapping) or one.get("type") not in get_args(UpdateKind):
        raise ValueError("one of them has no type that is known")
    destination = one.get("destination", "session")
    if destination not in get_args(Destination):
        raise ValueError(f"the destination {destination!r:.40} is not known")
    kind: UpdateKind = one["type"]
    if kind == "setMode":
        mode: Any = "default" if one.get("mode") == "manual" else one.get("mode")
        if mode not in get_args(Mode):
            raise ValueError(f"there is no mode {mode!r:.40}")
        return PermissionUpdate(kind, mode=mode, destination=destination)
    if kind in ("addDirectories", "removeDirectories"):
        folders = one.get("directories")
        if not isinstance(folders, list) or not all(isinstance(folder, str) and folder for folder in folders):
            raise ValueError("directories are no list of paths")
        return PermissionUpdate(kind, directories=tuple(folders), destination=destination)
    behavior: Any = one.get("behavior")
    rules = one.get("rules")
    if behavior not in ("allow", "ask", "deny") or not isinstance(rules, list):
        raise ValueError("rules need a behavior (allow, ask, deny) and a list")
    return PermissionUpdate(
        kind, rules=tuple(_rule(rule, behavior) for rule in rules), behavior=behavior, destination=destination
    )


def _rule(rule: Any, behavior: Any) -> str:
    name = rule.get("toolName") if isinstance(rule, Mapping) else None
    content = rule.get("ruleContent") if isinstance(rule, Mapping) else None
    if not isinstance(name, str) or not (content is None or isinstance(content, str)):
        raise ValueError("a rule needs a toolName, and a ruleContent that is text or missing")
    text = name if content is None else f"{name}({content})"
    try:
        return parse_rule(text, behavior).text
    except RuleError as error:
        raise ValueError(str(error)) from None


def _first_line(text: str) -> str:
    return " ".join(text.strip().partition("\n")[0].split())[:300]
