"""Hooks that are an agent with reading tools: it looks, and judges."""

from typing import Protocol

from tugline.extensions.hooks.prompts import question
from tugline.extensions.hooks.runner import Given
from tugline.protocol.hooks import Hook, HookReply
from tugline.rules.hook_replies import read_judgement


class Judge(Protocol):
    """Runs an agent of a few steps that has no hooks of its own."""

    async def __call__(self, prompt: str, model: str, cwd: str) -> str:
        """Its last words."""
        ...


class Agents:
    """Has an agent judge."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge

    async def perform(self, hook: Hook, given: Given) -> HookReply:
        """Its judgement."""
        return read_judgement(hook.event, await self._judge(question(hook, given), hook.model, given.cwd))
