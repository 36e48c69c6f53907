"""What an agent works with: workspace, rules, tools."""

from collections.abc import Mapping, Sequence

from msgspec import structs

from tugline.app.config import real_folder
from tugline.app.policy import policy_of
from tugline.config.load import Config
from tugline.config.save import save_rules
from tugline.net.client import HttpClient
from tugline.options import Options
from tugline.ports import Tool, WorkspaceError
from tugline.protocol.errors import ConfigError
from tugline.rules.shell_footprint import is_read_only
from tugline.runtime.errands import Errands
from tugline.runtime.questions import Questions
from tugline.runtime.standing import Standing
from tugline.tools.builtin.ask_user_question import AskUserQuestion
from tugline.tools.builtin.bash import Bash
from tugline.tools.builtin.edit import Edit
from tugline.tools.builtin.glob import Glob
from tugline.tools.builtin.grep import Grep
from tugline.tools.builtin.notebook_edit import NotebookEdit
from tugline.tools.builtin.read import Read
from tugline.tools.builtin.todo_write import TodoWrite
from tugline.tools.builtin.tool_search import ToolSearch
from tugline.tools.builtin.web_fetch import WebFetch
from tugline.tools.builtin.write import Write
from tugline.tools.search import Hides
from tugline.tools.toolset import Toolset, chosen, joined
from tugline.workspaces.environment import child_environment
from tugline.workspaces.expansion import expand, survey
from tugline.workspaces.local import LocalWorkspace


def make_workspace(config: Config, environ: Mapping[str, str], kept: str) -> LocalWorkspace:
    """The folders and the environment that commands get."""
    settings = config.settings
    shell = settings.shell
    child = child_environment(
        environ,
        only=shell.keep_environment if shell.environment == "listed" else None,
        keep=shell.keep_environment,
    )
    roots = (config.cwd, *(real_folder(path) for path in settings.permissions.additional_directories))
    return LocalWorkspace(roots, spill_dir=kept, environment={**child, **settings.env})


def make_standing(config: Config, workspace: LocalWorkspace, kept: str) -> Standing:
    """The mode and rules that a session begins with."""
    policy = structs.replace(policy_of(config), readable=(kept,))

    def resolve(path: str, cwd: str) -> tuple[str, str] | None:
        try:
            return workspace.resolve(path, cwd)
        except WorkspaceError:
            return None

    return Standing(policy, resolve, expand=expand, survey=survey, save=lambda rules: _keep_rules(config, rules))


def _keep_rules(config: Config, rules: Sequence[str]) -> str:
    if not config.trusted:
        raise ConfigError("this folder is not trusted, so the rule counts for this session only (--trust).")
    return save_rules(config.project_root, rules)


def make_tools(
    options: Options,
    config: Config,
    questions: Questions,
    errands: Errands,
    environ: Mapping[str, str],
    hides: Hides,
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
        Bash(is_read_only, timeout=shell.timeout, max_timeout=shell.max_timeout),
        TodoWrite(),
        AskUserQuestion(questions),
        WebFetch(
            lambda check: HttpClient(environ=environ, check=check),
            errands,
            private=("*",) if fetch.allow_private else (),
        ),
    )
    tools = Toolset(builtin)
    if options.builtin_tools is not None:
        tools = chosen(tools, options.builtin_tools)
    tools = joined(tools, options.tools)
    waiting = [tool.spec for tool in tools if tool.deferred]
    return joined(tools, [ToolSearch(waiting)]) if waiting else tools
