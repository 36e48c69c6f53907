"""Hooks that are commands: JSON on stdin, exit status and stdout as the answer."""

import os
import shutil
from collections.abc import Callable, Mapping

from tugline.extensions.hooks.runner import Given
from tugline.ports import Output, Workspace, WorkspaceError
from tugline.protocol.hooks import Hook, HookReply
from tugline.rules.hook_events import ENV_FILE

KEEP = 500_000
"""Characters kept of each end of what a hook prints."""


class Commands:
    """Runs commands in the agent's folder, or in the project's where that is gone. `env_file` is where those of some
    events may leave variables for the shell."""

    def __init__(self, workspace: Workspace, project: str, env_file: Callable[[], str]) -> None:
        self._workspace = workspace
        self._project = project
        self._env_file = env_file

    async def perform(self, hook: Hook, given: Given) -> HookReply:
        """Run it to its end. What it started ends with it."""
        env = self._environment(hook, given.event)
        cwd = given.cwd if os.path.isdir(given.cwd) else self._project
        try:
            async with self._workspace.process(
                _argv(hook, env), cwd=cwd, env=env, stdin=given.json, spill=False, apart=True, keep=KEEP
            ) as process:
                end = await process.wait()
                out, err = _text(process.output()), _text(process.errors())
        except WorkspaceError as error:
            return HookReply(failure=f"it cannot be started: {error}")
        if end.flooded:
            return HookReply(failure="it printed more than is taken, and was ended", stderr=err[:KEEP])
        if end.status < 0:
            return HookReply(stdout=out, stderr=err, failure=f"it was ended by signal {-end.status}")
        return HookReply(stdout=out, stderr=err, status=end.status)

    def _environment(self, hook: Hook, event: str) -> dict[str, str]:
        env = {"CLAUDE_PROJECT_DIR": self._project, "TUGLINE_PROJECT_DIR": self._project}
        if hook.root:
            env |= {"CLAUDE_PLUGIN_ROOT": hook.root, "CLAUDE_PLUGIN_DATA": hook.data}
        if event in ENV_FILE:
            env["CLAUDE_ENV_FILE"] = self._env_file()
        return env


def _argv(hook: Hook, env: Mapping[str, str]) -> list[str]:
    if hook.args is not None:
        return [_filled(word, env) for word in (hook.command, *hook.args)]
    if hook.shell == "powershell":
        return ["pwsh", "-NoProfile", "-NonInteractive", "-Command", hook.command]
    return [shutil.which("bash") or "sh", "-c", hook.command]


def _filled(word: str, env: Mapping[str, str]) -> str:
    """A word that no shell sees, with our own variables put in."""
    for name, value in env.items():
        word = word.replace(f"${{{name}}}", value)
    return word


def _text(output: Output) -> str:
    if output.whole:
        return output.head + output.tail
    return f"{output.head}\n[... {output.size} bytes in all ...]\n{output.tail}"
