"""Where definitions of agents are found: ours, the user's, the project's; in our folders and those of other tools."""

import os
import stat
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from tugline.protocol.agents import AgentDefinition, AgentScope, SkippedAgent
from tugline.rules.agent_files import Malformed, read_agent, read_agent_file, strongest

SIZE_LIMIT = 200_000
"""Bytes of a definition."""
COUNT_LIMIT = 500
"""Definitions of one folder."""
_BUILTIN = os.path.join(os.path.dirname(__file__), "builtin_agents")
PROJECT = (".qwen/agents", ".gemini/agents", ".opencode/agents", ".agents/agents", ".claude/agents", ".tugline/agents")
"""Folders of a project, weakest first."""
USER = (".qwen/agents", ".gemini/agents", ".agents/agents")
"""Folders of other tools below the home folder, weakest first."""


class AgentTypes(Struct, frozen=True):
    """The agent types that there are, by name; what else was found and defines none, or is hidden by a stronger one."""

    types: Mapping[str, AgentDefinition]
    skipped: tuple[SkippedAgent, ...] = ()
    hidden: tuple[AgentDefinition, ...] = ()
    warnings: tuple[str, ...] = ()


class AgentFolders(Struct, frozen=True, kw_only=True):
    """Where to look. `project` is empty where the folder is not trusted. Weakest first."""

    user: tuple[str, ...] = ()
    project: tuple[str, ...] = ()
    managed: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()


def agent_folders(
    *, cwd: str, root: str, home: str, claude: str, config: str, trusted: bool, managed: Sequence[str] = ()
) -> AgentFolders:
    """The folders of a session: of the project from its root down to `cwd`, so that the nearest wins."""
    user = (
        *(os.path.join(home, name) for name in USER),
        os.path.join(claude, "agents"),
        os.path.join(config, "agents"),
    )
    project: list[str] = []
    if trusted:
        for folder in _down(root, cwd):
            project.extend(os.path.join(folder, name) for name in PROJECT)
    return AgentFolders(
        user=user,
        project=tuple(folder for folder in project if folder not in user),
        managed=tuple(os.path.join(os.path.dirname(path), "agents") for path in managed),
    )


def _down(root: str, cwd: str) -> list[str]:
    found = [cwd]
    while found[-1] != root and os.path.dirname(found[-1]) != found[-1]:
        found.append(os.path.dirname(found[-1]))
    return found[::-1] if found[-1] == root else [cwd]


def find_agents(folders: AgentFolders, given: Mapping[str, Any] | Sequence[AgentDefinition] = ()) -> AgentTypes:
    """All agent types; a broken file is reported, and the others still count. `given` come from the command line
    (by name, as JSON) or the library."""
    found: list[AgentDefinition] = []
    skipped: list[SkippedAgent] = []
    warnings: list[str] = []
    scopes: tuple[tuple[AgentScope, tuple[str, ...]], ...] = (
        ("builtin", (_BUILTIN,)),
        ("plugin", folders.plugins),
        ("user", folders.user),
        ("project", folders.project),
    )
    for scope, places in scopes:
        for folder in places:
            _read_folder(folder, scope, found, skipped, warnings)
    _take_given(given, found, skipped, warnings)
    for folder in folders.managed:
        _read_folder(folder, "managed", found, skipped, warnings)
    types = strongest(found)
    hidden = tuple(one for one in found if types[one.name] is not one)
    return AgentTypes(types, tuple(skipped), hidden, tuple(warnings))


def _take_given(
    given: Mapping[str, Any] | Sequence[AgentDefinition],
    found: list[AgentDefinition],
    skipped: list[SkippedAgent],
    warnings: list[str],
) -> None:
    if not isinstance(given, Mapping):
        found.extend(given)
        return
    for name, values in given.items():
        source = f"agents.{name}"
        try:
            if not isinstance(values, Mapping):
                raise Malformed("it must be an object with description and prompt")
            definition, words = read_agent({**values, "name": name}, source, "given")
        except Malformed as error:
            skipped.append(SkippedAgent(source, str(error)))
        else:
            found.append(definition)
            warnings.extend(words)


def _read_folder(
    folder: str,
    scope: AgentScope,
    found: list[AgentDefinition],
    skipped: list[SkippedAgent],
    warnings: list[str],
) -> None:
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".md"))
    except OSError:
        return
    if len(names) > COUNT_LIMIT:
        skipped.append(
            SkippedAgent(folder, f"it holds {len(names)} definitions; only the first {COUNT_LIMIT} are read")
        )
    for name in names[:COUNT_LIMIT]:
        path = os.path.join(folder, name)
        text = _read(path, skipped)
        if text is None:
            continue
        definition, words = read_agent_file(text, name.removesuffix(".md"), path, scope)
        warnings.extend(words)
        if isinstance(definition, SkippedAgent):
            skipped.append(definition)
        else:
            found.append(definition)


def _read(path: str, skipped: list[SkippedAgent]) -> str | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise OSError(0, "it is no regular file")
            data = file.read(SIZE_LIMIT + 1)
    except OSError as error:
        skipped.append(SkippedAgent(path, f"it cannot be read: {error.strerror}"))
        return None
    if len(data) > SIZE_LIMIT:
        skipped.append(SkippedAgent(path, f"it is larger than {SIZE_LIMIT} bytes"))
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        skipped.append(SkippedAgent(path, "it is not UTF-8 text"))
        return None
