"""The engine behind both faces of the scripted model: which step answers a request, and what was not as scripted."""

from collections.abc import Sequence

from msgspec import Struct

from tugline.protocol.script import HttpError, SayCall, SayText, SayThinking, Script, Step
from tugline.testing.gates import Gates
from tugline.testing.view import View, differences, shorten

PROBLEMS_KEPT = 100


class ScriptMismatch(AssertionError):
    """What was asked of the scripted model is not what the script foresaw."""


class UnexpectedRequest(Exception):
    """No step answers this request, or the step that does expected another one. The text says which."""


class Taken(Struct, frozen=True, eq=False):
    """A step that answers a request. `lane` is empty for the script's own steps; `use` counts its uses from 1;
    `number` counts the replies of the lane; `view` is the request."""

    step: Step
    lane: str
    use: int
    number: int
    chunk: int
    view: View

    @property
    def prefix(self) -> str:
        """A name for what is numbered in this lane."""
        return f"{self.lane}_" if self.lane else ""


class _Sequence:
    """The steps of one lane, or of one conversation of a lane, and how far they are used up."""

    def __init__(self, name: str, steps: Sequence[Step]) -> None:
        self.name = name
        self.replies = 0
        self._steps = tuple(steps)
        self._used = [0] * len(self._steps)
        self._start = 0
        self._conditional = any(step.when is not None for step in self._steps)

    def take(self, view: View) -> tuple[Step, int] | None:
        index = self._choose(view)
        if index is None:
            return None
        self._used[index] += 1
        self.replies += 1
        while self._start < len(self._steps) and self._spent(self._start):
            self._start += 1
        return self._steps[index], self._used[index]

    def unconsumed(self) -> list[str]:
        where = f" of lane {self.name}" if self.name else ""
        return [
            f"step {index + 1}{where}: {describe(step)}" + (f" ({used} of {step.repeat} times)" if used else "")
            for index, (step, used) in enumerate(zip(self._steps, self._used, strict=True))
            if step.repeat is not None and used < step.repeat
        ]

    def _choose(self, view: View) -> int | None:
        unspent = [n for n in range(self._start, len(self._steps)) if not self._spent(n)] if self._conditional else None
        for n in unspent or ():
            when = self._steps[n].when
            if when is not None and not differences(when, view):
                return n
        if unspent is None:
            return self._start if self._start < len(self._steps) else None
        return next((n for n in unspent if self._steps[n].when is None), None)

    def _spent(self, index: int) -> bool:
        repeat = self._steps[index].repeat
        return repeat is not None and self._used[index] >= repeat


class Engine:
    """Hands out a script's steps, and keeps what did not fit."""

    def __init__(self, script: Script) -> None:
        self.gates = Gates()
        self.answered = 0
        self.problems: list[str] = []
        self._problem_count = 0
        self._script = script
        self._main = _Sequence("", script.steps)
        self._lanes = {name: _Sequence(name, lane.steps) for name, lane in script.lanes.items() if not lane.each}
        self._each: dict[str, dict[int, _Sequence]] = {name: {} for name, lane in script.lanes.items() if lane.each}

    def take(self, view: View) -> Taken:
        """The step that answers this request; `UnexpectedRequest` if there is none or it expects another request."""
        sequence = self._sequence(view)
        found = sequence.take(view)
        if found is None:
            raise self._unexpected(f"no step is left for {_request(view)}", sequence)
        step, use = found
        if step.expect is not None and (lacks := differences(step.expect, view)):
            raise self._unexpected(f"reply {sequence.replies} expected " + "; and ".join(lacks), sequence)
        self.answered += 1
        chunk = self._script.chunk if step.chunk is None else step.chunk
        return Taken(step, sequence.name, use, sequence.replies, chunk, view)

    def report(self, problem: str) -> None:
        """Note something that the script did not foresee."""
        self._problem_count += 1
        if len(self.problems) < PROBLEMS_KEPT:
            self.problems.append(problem)

    def unconsumed(self) -> list[str]:
        """The steps that nobody asked for, one line each."""
        lines = self._main.unconsumed()
        for sequence in self._lanes.values():
            lines += sequence.unconsumed()
        for name, copies in self._each.items():
            if not copies:
                lines += _Sequence(name, self._script.lanes[name].steps).unconsumed()
            for sequence in copies.values():
                lines += sequence.unconsumed()
        return lines

    def check(self) -> None:
        """Raise `ScriptMismatch` unless each step was asked for and nothing else was."""
        if text := self.summary():
            raise ScriptMismatch(text)

    def summary(self) -> str:
        """What was not as scripted, as lines; empty if all was."""
        lines = list(self.problems)
        if self._problem_count > len(lines):
            lines.append(f"and {self._problem_count - len(lines)} more like these")
        lines += [f"never asked for: {line}" for line in self.unconsumed()]
        return "\n".join(lines)

    def _sequence(self, view: View) -> _Sequence:
        for name, lane in self._script.lanes.items():
            if differences(lane.match, view):
                continue
            if not lane.each:
                return self._lanes[name]
            copies, key = self._each[name], hash(view.first)
            if key not in copies:
                copies[key] = _Sequence(f"{name}_{len(copies) + 1}", lane.steps)
            return copies[key]
        return self._main

    def _unexpected(self, text: str, sequence: _Sequence) -> UnexpectedRequest:
        where = f" (lane {sequence.name})" if sequence.name else ""
        problem = f"unexpected request: {text}{where}"
        self.report(problem)
        return UnexpectedRequest(problem)


def _request(view: View) -> str:
    purpose = f"purpose {view.purpose}, " if view.purpose not in ("", "main") else ""
    latest = f", latest result {shorten(view.results[-1].text)}" if view.results else ""
    return f"a request ({purpose}model {view.model}, user {shorten(view.user)}{latest})"


def describe(step: Step) -> str:
    """A step in a few words."""
    if step.error is not None:
        return f"error {step.error.status}"
    for part in step.parts:
        if isinstance(part, SayCall):
            return f"call of {part.tool}"
    for part in step.parts:
        if isinstance(part, SayText):
            return f"text {shorten(part.text, 40)}"
        if isinstance(part, SayThinking):
            return f"thinking {shorten(part.thinking, 40)}"
    return "an empty reply"


def error_kind(error: HttpError) -> str:
    """The service's word for an error of this status, where the script says none."""
    if error.type:
        return error.type
    named = {
        400: "invalid_request_error",
        401: "authentication_error",
        402: "billing_error",
        403: "permission_error",
        404: "not_found_error",
        408: "timeout_error",
        409: "conflict_error",
        413: "request_too_large",
        429: "rate_limit_error",
        529: "overloaded_error",
    }
    return named.get(error.status, "api_error")
