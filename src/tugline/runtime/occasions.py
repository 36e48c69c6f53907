"""What happens to a session that hooks hear of: its beginning and end, prompts, questions, failures, files."""

import os
from collections.abc import Callable
from typing import Any

import anyio
from anyio.abc import TaskGroup

from tugline.extensions.hooks.runner import Hooks
from tugline.extensions.hooks.watching import Change, Watcher
from tugline.loop.executor import Gear
from tugline.loop.inbox import Letter
from tugline.loop.turn import PromptRefused
from tugline.protocol.blocks import Text
from tugline.protocol.events import (
    DirectoryAdded,
    Event,
    InquiryAsked,
    InstructionsLoaded,
    Notice,
    PermissionAsked,
    PlanAsked,
    TurnFinished,
)
from tugline.protocol.hooks import Outcome
from tugline.protocol.messages import User
from tugline.rules import wording
from tugline.rules.failures import error_word
from tugline.rules.hook_matching import file_names

_LOADED = {"started": "session_start", "resumed": "session_start", "compacted": "compact"}
_MEMORY = {"managed": "Managed", "user": "User", "project": "Project"}
_SOURCES = {"user": "user_settings", "project": "project_settings", "local": "local_settings"}


class HookOccasions:
    """Tells the hooks, and does what they answer. `model` and `source` say how the session began."""

    def __init__(
        self,
        hooks: Hooks,
        gear: Gear,
        *,
        source: str,
        model: str,
        settings: dict[str, str],
        apply_environment: Callable[[], Any],
    ) -> None:
        self.hooks = hooks
        self._gear = gear
        self._source = source
        self._model = model
        self._apply_environment = apply_environment
        self._settings = settings if hooks.wants("ConfigChange") else {}
        """Files of settings that are watched, with what they are."""
        self._watcher = Watcher(self._changed)
        self._opened = anyio.Event()
        self._waiting: list[str] = []
        self._refusal: str | None = None
        self._rename: Callable[[str], Any] = lambda title: None
        self._tasks: TaskGroup | None = None

    def begin(self, tasks: TaskGroup, wake: Callable[[str], None], rename: Callable[[str], Any]) -> None:
        """The session is open."""
        self._tasks, self._rename = tasks, rename
        self.hooks.begin(tasks, wake)
        tasks.start_soon(self._open)

    async def _open(self) -> None:
        try:
            await self._start(self._source)
        finally:
            self._opened.set()

    async def _start(self, source: str) -> None:
        outcome = await self.hooks.run("SessionStart", {"source": source, "model": self._model})
        self._waiting.extend(self.hooks.context("SessionStart", outcome))
        self._refusal = outcome.stop
        if outcome.title and not self._gear.transcript.title:
            self._rename(outcome.title)
        await self._apply_environment()
        self._watch(outcome)

    async def cleared(self) -> None:
        """The conversation begins anew."""
        await self._end("clear")
        await self._start("clear")

    async def branched(self) -> None:
        """The session goes on in a copy."""
        await self._start("fork")

    async def closing(self) -> None:
        """The session is about to be closed."""
        await self.hooks.settle()

    async def ended(self, reason: str) -> None:
        """The session is closed; nothing of it runs any more."""
        await self._end(reason)

    async def _end(self, reason: str) -> None:
        await self.hooks.run("SessionEnd", {"reason": reason})

    async def prompt(self, prompt: User) -> None:
        """A turn begins with this; what hooks have for the model goes before it. Raises `PromptRefused`."""
        hooks = self.hooks
        hooks.prompt = prompt.id
        await self._opened.wait()
        if self._refusal is not None:
            raise PromptRefused(self._refusal)
        words, self._waiting = [*self._waiting, *hooks.later()], []
        if prompt.source == "person" and hooks.wants("UserPromptSubmit"):
            text = "\n".join(part.text for part in prompt.content if isinstance(part, Text))
            outcome = await hooks.run("UserPromptSubmit", {"prompt": text})
            refusal = outcome.block if outcome.block is not None else outcome.stop
            if refusal is not None:
                self._waiting = words
                raise PromptRefused(refusal)
            if outcome.title:
                self._rename(outcome.title)
            words += hooks.context("UserPromptSubmit", outcome)
        for text in words:
            self._gear.inbox.put(Letter((Text(wording.reminder(text)),), hidden=True))

    def hear(self, event: Event) -> None:
        """What happens in the session; hooks of these events run beside it."""
        match event:
            case PermissionAsked(question=question):
                message = f"tugline needs your permission to use {question.tool}: {question.title}"
                self._notify(message, "permission_prompt")
            case InquiryAsked():
                self._notify("tugline has a question for you", "elicitation_dialog")
            case PlanAsked():
                self._notify("tugline has a plan for you to approve", "permission_prompt")
            case DirectoryAdded(path=path):
                self.hooks.start("DirectoryAdded", {"path": path})
            case InstructionsLoaded():
                self._loaded(event)
            case TurnFinished(reason="api_error") if event.failure is not None:
                kind = error_word(event.failure)
                fields = {"error": kind, "error_details": event.failure.message, "last_assistant_message": event.text}
                self.hooks.start("StopFailure", fields)
            case _:
                pass

    def _notify(self, message: str, kind: str) -> None:
        self.hooks.start("Notification", {"message": message, "title": "tugline", "notification_type": kind})

    def _loaded(self, event: InstructionsLoaded) -> None:
        if not self.hooks.wants("InstructionsLoaded"):
            return
        for file in event.files:
            touched = "path_glob_match" if file.why == "rule" else "nested_traversal"
            reason = "include" if file.why == "import" else _LOADED.get(event.reason, touched)
            fields: dict[str, Any] = {
                "file_path": file.path,
                "memory_type": _MEMORY[file.scope],
                "load_reason": reason,
            }
            if file.globs:
                fields["globs"] = list(file.globs)
            if file.parent:
                fields["parent_file_path"] = file.parent
            self.hooks.start("InstructionsLoaded", fields)

    # -- files

    def _watch(self, outcome: Outcome) -> None:
        """Keep an eye on the files that hooks want to hear of."""
        assert self._tasks is not None
        paths = [path for path in outcome.watch if os.path.isabs(path)]
        if len(paths) < len(outcome.watch):
            self._gear.voice.say(Notice, level="warning", text="watchPaths takes absolute paths only.")
        if self.hooks.wants("FileChanged"):
            named = (name for matcher in self.hooks.matchers("FileChanged") for name in file_names(matcher))
            paths += [os.path.join(self.hooks.cwd, name) for name in named]
        self._watcher.watch((*paths, *self._settings), self._tasks)

    async def _changed(self, change: Change) -> None:
        if change.path in self._settings:
            fields = {"source": self._settings[change.path], "file_path": change.path}
            outcome = await self.hooks.run("ConfigChange", fields)
            if outcome.block is not None:
                text = f"A hook objects to the change of {change.path}: {outcome.block}"
                self._gear.voice.say(Notice, level="warning", text=text)
            return
        fields = {"file_path": change.path, "event": change.kind, "file_name": os.path.basename(change.path)}
        outcome = await self.hooks.run("FileChanged", fields)
        await self._apply_environment()
        self._watch(outcome)
        for text in self.hooks.context("FileChanged", outcome):
            self._waiting.append(text)


def settings_kind(layer: str) -> str:
    """What ConfigChange calls a layer of settings."""
    return _SOURCES.get(layer, "policy_settings")
