"""The events that hooks may name: what their matchers look at, what blocking means there. Tables only."""

from difflib import get_close_matches

from tugline.rules.names import names

MATCHED = {
    "PreToolUse": "tool_name",
    "PostToolUse": "tool_name",
    "PostToolUseFailure": "tool_name",
    "PermissionRequest": "tool_name",
    "PermissionDenied": "tool_name",
    "SessionStart": "source",
    "SessionEnd": "reason",
    "Setup": "trigger",
    "Notification": "notification_type",
    "SubagentStart": "agent_type",
    "SubagentStop": "agent_type",
    "PreCompact": "trigger",
    "PostCompact": "trigger",
    "ConfigChange": "source",
    "InstructionsLoaded": "load_reason",
    "StopFailure": "error",
    "UserPromptExpansion": "command_name",
    "FileChanged": "file_name",
    "Elicitation": "mcp_server_name",
    "ElicitationResult": "mcp_server_name",
}
"""The field that a matcher is compared with; events that are missing here have none, and every hook of theirs runs."""

EVENTS = frozenset(MATCHED) | names(
    "UserPromptSubmit PostToolBatch Stop MessageDisplay TaskCreated TaskCompleted TeammateIdle CwdChanged "
    "DirectoryAdded WorktreeCreate WorktreeRemove"
)
"""Every event that a hook may name, also those that have no occasion in this version."""

OCCASIONS = names(
    "SessionStart SessionEnd UserPromptSubmit PreToolUse PermissionRequest PermissionDenied PostToolUse "
    "PostToolUseFailure PostToolBatch Notification Stop StopFailure PreCompact PostCompact InstructionsLoaded "
    "ConfigChange CwdChanged DirectoryAdded FileChanged"
)
"""Those that have one."""

TOOL_EVENTS = names("PreToolUse PostToolUse PostToolUseFailure PermissionRequest PermissionDenied")
"""Events of one call, which a permission rule (`if`) can speak of."""

DECIDING = names("PreToolUse PermissionRequest")
"""Events where to block is to deny."""

BLOCKABLE = DECIDING | names(
    "PostToolUse PostToolUseFailure PostToolBatch UserPromptSubmit UserPromptExpansion Stop SubagentStop PreCompact "
    "ConfigChange TeammateIdle TaskCreated TaskCompleted Elicitation ElicitationResult"
)
"""Events where exit status 2 means something; elsewhere what the hook says on stderr is shown to the person."""

PLAIN_CONTEXT = names("SessionStart UserPromptSubmit UserPromptExpansion")
"""Events where plain text on stdout is for the model."""

ENV_FILE = names("SessionStart Setup CwdChanged FileChanged")
"""Events whose commands may set variables for the shell, through `CLAUDE_ENV_FILE`."""


def nearest(event: str) -> str:
    """The known event that comes closest to an unknown name; empty where none does."""
    lowered = {name.lower(): name for name in EVENTS}
    found = get_close_matches(event.lower(), sorted(lowered), 1, 0.6)
    return lowered[found[0]] if found else ""
