"""What an agent works with: workspace, rules, tools."""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import structs

from tugline.app.config import real_folder
from tugline.app.core import Core
from tugline.app.settings_keeper import SettingsKeeper
from tugline.app.standing_policy import policy_of
from tugline.config.load import Config
from tugline.loop.gate import Classifying, Gate
from tugline.loop.transcript import Transcript
from tugline.net.client import HttpClient
from tugline.options import Options
from tugline.ports import Planner, Tool, ToolHooks, WorkspaceError
from tugline.rules.permission import Policy
from tugline.runtime.attendant import FunctionResponder
from tugline.runtime.errands import Errands
from tugline.runtime.questions import Questions
from tugline.runtime.standing import Standing
from tugline.runtime.tasks import Tasks
from tugline.tools.builtin.ask_user_question import AskUserQuestion
from tugline.tools.builtin.bash import Bash, InSandbox
from tugline.tools.builtin.edit import Edit
from tugline.tools.builtin.enter_plan_mode import EnterPlanMode
from tugline.tools.builtin.exit_plan_mode import ExitPlanMode
from tugline.tools.builtin.glob import Glob
from tugline.tools.builtin.grep import Grep
from tugline.tools.builtin.monitor import Monitor
from tugline.tools.builtin.notebook_edit import NotebookEdit
from tugline.tools.builtin.read import Read
from tugline.tools.builtin.task_output import TaskOutput
from tugline.tools.builtin.task_stop import TaskStop
from tugline.tools.builtin.todo_write import TodoWrite
from tugline.tools.builtin.tool_search import ToolSearch
from tugline.tools.builtin.web_fetch import WebFetch
from tugline.tools.builtin.write import Write
from tugline.tools.search import Hides
from tugline.tools.toolset import Toolset, chosen, joined
from tugline.workspaces.environment import child_environment
from tugline.workspaces.expansion import expand, survey
from tugline.workspaces.local import LocalWorkspace
from tugline.workspaces.roster import Roster

if TYPE_CHECKING:
    from tugline.workspaces.sandbox import Sandbox


def make_workspace(
    config: Config,
    environ: Mapping[str, str],
    kept: str,
    sandbox: "Sandbox | None" = None,
    roster: Roster | None = None,
) -> LocalWorkspace:
    """The folders and the environment that commands get, and the sandbox that holds them."""
    settings = config.settings
    shell = settings.shell
    child = child_environment(
        environ,
        only=shell.keep_environment if shell.environment == "listed" else None,
        keep=shell.keep_environment,
    )
    roots = allowed_directories(config)
    environment = {**child, **settings.env}
    if sandbox is None:
        return LocalWorkspace(roots, spill_dir=kept, environment=environment, roster=roster)
    from tugline.workspaces.sandbox import SandboxWorkspace  # noqa: PLC0415  imported here: start-up cost

    required = settings.sandbox.required
    return SandboxWorkspace(roots, sandbox, required=required, spill_dir=kept, environment=environment, roster=roster)


def allowed_directories(config: Config) -> tuple[str, ...]:
    """The working folder and those that the settings add, resolved."""
    return (config.cwd, *(real_folder(path) for path in config.settings.permissions.additional_directories))


def make_policy(config: Config, kept: str, plan: str = "") -> Policy:
    """The mode and rules that a session begins with; `plan` is the file of its plan."""
    return structs.replace(
        policy_of(config),
        directories=allowed_directories(config),
        readable=tuple(path for path in (kept, plan) if path),
        own=(os.path.realpath(config.folders.config),),
        plan_file=plan,
    )


def make_standing(
    config: Config, workspace: LocalWorkspace, kept: str, plan: str = "", *, sandboxed: bool = False
) -> Standing:
    """Who judges by them. `sandboxed`: commands run in a sandbox that works, and need no question there."""
    policy = structs.replace(make_policy(config, kept, plan), sandboxed=sandboxed)

    def resolve(path: str, cwd: str) -> tuple[str, str] | None:
        try:
            return workspace.resolve(path, cwd)
        except WorkspaceError:
            return None

    keeper = SettingsKeeper(config)
    return Standing(policy, resolve, expand=expand, survey=survey, keeper=keeper, forbidden=config.forbidden_modes)


def make_gate(
    options: Options,
    core: Core,
    standing: Standing,
    questions: Questions,
    errands: Errands,
    transcript: Transcript,
    hooks: ToolHooks | None,
) -> Gate:
    """The gate of the main agent: who is asked, and in which order."""

    def make_classifier() -> Classifying:
        from tugline.runtime.classifier import Classifier  # noqa: PLC0415  imported here: start-up cost

        given = core.config.settings.auto_mode
        return Classifier(
            errands,
            lambda: transcript.messages,
            core.voice,
            small=given.model or "",
            seconds=given.timeout,
            in_row=given.denials_in_row,
            total=given.denials_in_all,
        )

    responders = () if options.permission_tool is None else (FunctionResponder(options.permission_tool, core.voice),)
    return Gate(standing, questions, core.voice, hooks, responders=responders, make_classifier=make_classifier)


def make_tools(
    options: Options,
    config: Config,
    questions: Questions,
    errands: Errands,
    environ: Mapping[str, str],
    hides: Hides,
    planner: Planner,
    tasks: Tasks,
    sandbox: InSandbox | None = None,
) -> Toolset:
    """The built-in tools that were chosen, and the caller's."""
    shell, fetch = config.settings.shell, config.settings.web_fetch
    builtin: Sequence[Tool] = (
        Read(),
        Write(),
        Edit(),
        NotebookEdit(),
        Glob(hides),
        Grep(hides),
        Bash(
            _only_reads,
            timeout=shell.timeout,
            max_timeout=shell.max_timeout,
            tasks=tasks,
            background=tasks.enabled,
            release_late=shell.background_on_timeout and options.attended,
            sandbox=sandbox,
        ),
        TodoWrite(),
        AskUserQuestion(questions),
        EnterPlanMode(planner),
        ExitPlanMode(planner),
        WebFetch(
            lambda check: HttpClient(environ=environ, check=check),
            errands,
            private=("*",) if fetch.allow_private else (),
        ),
    )
    if tasks.enabled:
        builtin = (*builtin, TaskOutput(tasks), TaskStop(tasks), Monitor(tasks, tasks.tell_lines))
    tools = Toolset(builtin)
    if options.builtin_tools is not None:
        tools = chosen(tools, options.builtin_tools)
    tools = joined(tools, options.tools)
    waiting = [tool.spec for tool in tools if tool.deferred]
    return joined(tools, [ToolSearch(waiting)]) if waiting else tools


def _only_reads(command: str) -> bool:
    """Whether a shell command certainly changes nothing."""
    from tugline.rules.shell_footprint import is_read_only  # noqa: PLC0415  imported here: start-up cost

    return is_read_only(command)
