"""An agent's state, changed by what its calls return."""

from collections.abc import Iterable

from msgspec import structs

from tugline.protocol.specs import AgentState, Change, Cwd, FileSeen, Instructed, Seen, Todos, ToolsLoaded
from tugline.rules.instructions import key

FILES_KEPT = 1_000
"""How many files an agent remembers; the longest untouched is forgotten first."""


def apply(state: AgentState, changes: Iterable[Change]) -> AgentState:
    """The state after these changes, in their order. Reminders are no part of it."""
    cwd, todos, loaded, told = state.cwd, state.todos, state.loaded_tools, state.told
    files: dict[str, FileSeen] | None = None
    for change in changes:
        match change:
            case Cwd(path):
                cwd = path
            case Todos(entries):
                todos = entries
            case ToolsLoaded(names):
                loaded = loaded | frozenset(names)
            case Instructed(instructions):
                told = told | {key(one.file.path) for one in instructions}
            case Seen(path, file):
                files = dict(state.files) if files is None else files
                files.pop(path, None)
                if file is not None:
                    files[path] = file
                    if len(files) > FILES_KEPT:
                        del files[next(iter(files))]
            case _:
                pass
    return AgentState(cwd, state.files if files is None else files, todos, loaded, told)


def forget_views(state: AgentState) -> AgentState:
    """The state after results left the conversation: a file that is read again is shown again, though it is the
    same."""
    if not any(file.view for file in state.files.values()):
        return state
    files = {path: structs.replace(file, view="") for path, file in state.files.items()}
    return structs.replace(state, files=files)
