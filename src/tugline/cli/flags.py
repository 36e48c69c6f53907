"""The flags of the command, and what of them belongs to a later version: tables only."""

from typing import Literal, NamedTuple

Kind = Literal["switch", "text", "words", "folders", "whole", "money", "choice", "sources", "uuid", "maybe"]


class Flag(NamedTuple):
    """A flag: its spellings (the first is its name), the field of `Arguments` that it fills, and what it takes."""

    names: tuple[str, ...]
    field: str
    kind: Kind = "text"
    choices: tuple[str, ...] = ()
    empty: bool = False
    """An empty value has a meaning."""
    placeholder: str = ""


MODES = ("default", "acceptEdits", "plan", "auto", "dontAsk", "bypassPermissions")
SOURCES = ("user", "project", "local")

FLAGS = (
    Flag(("--print", "-p"), "headless", "switch"),
    Flag(("--model",), "model", placeholder="MODEL"),
    Flag(("--fallback-model",), "fallback_model", placeholder="MODEL"),
    Flag(("--output-format",), "output_format", "choice", ("text", "json", "stream-json"), placeholder="FORMAT"),
    Flag(("--input-format",), "input_format", "choice", ("text",), placeholder="FORMAT"),
    Flag(("--include-partial-messages",), "partial", "switch"),
    Flag(("--include-hook-events",), "hook_events", "switch"),
    Flag(("--verbose",), "verbose", "switch"),
    Flag(("--max-turns",), "max_turns", "whole", placeholder="N"),
    Flag(("--max-budget-usd",), "max_budget_usd", "money", placeholder="USD"),
    Flag(("--max-thinking-tokens",), "thinking_tokens", "whole", placeholder="N"),
    Flag(("--effort",), "effort", "choice", ("low", "medium", "high", "xhigh", "max"), placeholder="EFFORT"),
    Flag(("--allowed-tools", "--allowedTools"), "allowed_tools", "words", empty=True, placeholder="RULES"),
    Flag(("--disallowed-tools", "--disallowedTools"), "disallowed_tools", "words", empty=True, placeholder="RULES"),
    Flag(("--tools",), "tools", "words", empty=True, placeholder="TOOLS"),
    Flag(("--permission-mode",), "permission_mode", "choice", (*MODES, "manual"), placeholder="MODE"),
    Flag(("--dangerously-skip-permissions",), "skip_permissions", "switch"),
    Flag(("--add-dir",), "add_dirs", "folders", placeholder="FOLDER"),
    Flag(("--system-prompt",), "system_prompt", empty=True, placeholder="TEXT"),
    Flag(("--system-prompt-file",), "system_prompt_file", placeholder="FILE"),
    Flag(("--append-system-prompt",), "append_system_prompt", empty=True, placeholder="TEXT"),
    Flag(("--append-system-prompt-file",), "append_system_prompt_file", placeholder="FILE"),
    Flag(("--settings",), "settings", placeholder="FILE|JSON"),
    Flag(("--setting-sources",), "setting_sources", "sources", SOURCES, empty=True, placeholder="SOURCES"),
    Flag(("--continue", "-c"), "continue_session", "switch"),
    Flag(("--resume", "-r"), "resume", "maybe", placeholder="ID|WORDS"),
    Flag(("--fork-session",), "fork_session", "switch"),
    Flag(("--session-id",), "session_id", "uuid", placeholder="UUID"),
    Flag(("--name", "-n"), "name", placeholder="NAME"),
    Flag(("--trust",), "trust", "switch"),
    Flag(("--bare",), "bare", "switch"),
    Flag(("--debug",), "debug", "switch"),
    Flag(("--record",), "record", placeholder="FILE"),
    Flag(("--replay",), "replay", placeholder="FILE"),
    Flag(("--version", "-v"), "version", "switch"),
    Flag(("--help", "-h"), "help", "switch"),
)

BY_NAME = {name: flag for flag in FLAGS for name in flag.names}

LATER_FLAGS = (
    "--resume-session-at", "--resume-drops-turn",
    "--replay-user-messages", "--permission-prompt-tool", "--mcp-config", "--strict-mcp-config", "--agents",
    "--agent", "--json-schema", "--plugin-dir", "-w", "--worktree", "--plain", "--task-budget",
    "--thinking", "--thinking-display", "--betas", "--session-mirror", "--debug-to-stderr",
    "--detach",
)  # fmt: skip
"""Flags that are planned, and not there yet."""

COMMANDS = {
    "demo": "see it work on a small project, with a scripted model and no key",
    "config": "show the settings and where each comes from, their JSON schema, or the files of instructions",
    "doctor": "say what works on this machine, what does not, and the remedy",
    "sessions": "list, read, search, export, name, archive and clean up sessions",
    "trust": "what of a folder's own settings counts: show it and approve it",
    "policy": "say what the permission rules decide about a call, and why; test rules",
    "model-server": "serve a scripted model over HTTP, for tests",
    "completion": "print the completion script of a shell",
    "help": "print this text",
}
"""Sub-commands, with what they do."""

LATER_COMMANDS = (
    "acp", "agents", "fleet", "jobs", "mcp", "plugin", "run", "serve", "skills",
    "tasks", "team", "trace", "worker",
)  # fmt: skip
"""Sub-commands that are planned, and not there yet."""

TOOL_NAMES = frozenset(
    {
        "Read", "Write", "Edit", "NotebookEdit", "Glob", "Grep", "Bash", "TodoWrite", "WebFetch", "WebSearch",
        "AskUserQuestion", "ToolSearch", "Agent", "Task", "Skill", "TaskOutput", "TaskStop", "SendMessage",
    }
)  # fmt: skip
"""Words that are taken as one more tool after `--allowed-tools A`; any other word there is the prompt."""
