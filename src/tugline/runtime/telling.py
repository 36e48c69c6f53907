"""Tells person and model what changed in what is permitted."""

from collections.abc import Callable

from tugline.loop.inbox import Inbox, Letter
from tugline.loop.voice import Voice
from tugline.protocol.blocks import Text
from tugline.protocol.events import DirectoryAdded, ModeChanged, Notice
from tugline.protocol.specs import Mode
from tugline.rules import wording
from tugline.rules.permission import Policy
from tugline.runtime.planning import Planning

AS_ROOT = "Running as root with the mode bypassPermissions: nothing will be asked about."


class Telling:
    """Hears of each change of mode and folders. `warn` says what a person should know of a mode; `grow` lets the
    workspace know its folders."""

    def __init__(
        self,
        voice: Voice,
        inbox: Inbox,
        planning: Planning,
        *,
        warn: Callable[[Mode], str],
        grow: Callable[[tuple[str, ...]], None],
    ) -> None:
        self._voice = voice
        self._inbox = inbox
        self._planning = planning
        self._warn = warn
        self._grow = grow

    def changed(self, before: Policy, after: Policy) -> None:
        """The policy is another one."""
        if before.directories != after.directories:
            self._folders(before.directories, after.directories)
            return
        self._planning.mode_changed(before.mode, after.mode)
        self._voice.say(ModeChanged, mode=after.mode)
        if before.mode != after.mode and (warning := self._warn(after.mode)):
            self._voice.say(Notice, level="warning", text=warning)

    def _folders(self, before: tuple[str, ...], after: tuple[str, ...]) -> None:
        self._grow(after)
        new = [path for path in after if path not in before]
        for path in new:
            self._voice.say(DirectoryAdded, path=path)
        gone = [path for path in before if path not in after]
        lines = [f"{path} is a working directory now, too." for path in new]
        lines += [f"{path} is no working directory any more." for path in gone]
        text = Text(wording.reminder("\n".join(lines)))
        self._inbox.put(Letter((text,), hidden=True))
