"""Hooks that are functions of the program that uses the library."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio.to_thread

from tugline.extensions.hooks.runner import Given
from tugline.protocol.hooks import Hook, HookInput, HookOutput, HookReply

Answer = HookOutput | Mapping[str, Any] | None
"""What a function answers: nothing, the typed form, or the JSON that other hooks print as a dict."""
Callback = Callable[[HookInput], "Answer | Awaitable[Answer]"]

_FIELDS = frozenset(HookInput.__struct_fields__) - {"event", "data"}


class Callbacks:
    """Calls functions by name. Plain ones run in a thread, so that one that blocks holds nothing up."""

    def __init__(self, functions: Mapping[str, Callback]) -> None:
        self._functions = functions

    async def perform(self, hook: Hook, given: Given) -> HookReply:
        """Call it, and take what it answers. One that does not end when it is cancelled is left to itself."""
        function = self._functions[hook.callback]
        fields = {name: given.data[name] for name in _FIELDS & given.data.keys()}
        asked = HookInput(event=given.event, data=given.data, **fields)
        if not _is_async(function):
            answer: Any = await anyio.to_thread.run_sync(function, asked, abandon_on_cancel=True)
            if not inspect.isawaitable(answer):
                return _taken(answer)
        else:
            answer = function(asked)
        task = asyncio.ensure_future(answer)
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            task.cancel()
            task.add_done_callback(_forget)
            raise
        if task.cancelled():
            return HookReply(failure="it has cancelled itself")
        return _taken(task.result())


def _is_async(function: Callback) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def _taken(answer: Any) -> HookReply:
    if answer is None:
        return HookReply()
    if isinstance(answer, HookOutput | dict):
        return HookReply(answer=answer)
    if isinstance(answer, Mapping):
        return HookReply(answer=dict(answer))
    return HookReply(failure=f"it returned a {type(answer).__name__}; HookOutput, a dict or None was expected")


def _forget(task: "asyncio.Future[Any]") -> None:
    if not task.cancelled():
        task.exception()
