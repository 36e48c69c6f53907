"""The engine's own words to the model: one fixed wording per cause, in a tag that tool output cannot forge."""

import re
from collections.abc import Sequence

from tugline.protocol.codec import mend_surrogates
from tugline.protocol.errors import UsageError
from tugline.rules.terminal import clean_controls

_RESERVED = re.compile(
    r"<(?=[^\w<>]{0,8}(?:tool_use_error|system-reminder|teammate-message|task-notification|instruction-file))",
    re.IGNORECASE,
)
"""The beginning of a tag that is the engine's, also in a spelling that a model may take for it."""


def sound(text: str) -> str:
    """The text without lone halves of surrogate pairs, which nothing that is written or sent can hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return mend_surrogates(text)
    return text


def session_name(text: str) -> str:
    """A session's name as it is kept; `UsageError` where nothing is left of it."""
    name = " ".join(clean_controls(sound(text)).split())[:200]
    if not name:
        raise UsageError("A session's name cannot be empty.")
    return name


def escape(text: str) -> str:
    """Tool output with the reserved tags made harmless, and no character that cannot be sent."""
    return _RESERVED.sub("&lt;", sound(text))


def engine_error(text: str) -> str:
    """An error that the engine made, not the tool."""
    return f"<tool_use_error>{text}</tool_use_error>"


def unknown_tool(name: str, closest: Sequence[str]) -> str:
    hint = f" Did you mean {' or '.join(closest)}?" if closest else ""
    return engine_error(f"There is no tool named {escape(name[:200])!r}.{hint}")


def invalid_input(tool: str, reason: str) -> str:
    return engine_error(f"The input of {tool} is invalid: {escape(reason).removesuffix('.')}. The call was not run.")


def denied(tool: str, reason: str) -> str:
    return engine_error(f"The use of {tool} was denied: {escape(reason).removesuffix('.')}. The call was not run.")


def interrupted(tool: str, *, started: bool) -> str:
    """Of a call that an interrupt ended, or that never began because of it."""
    if started:
        return engine_error(f"{tool} was interrupted by the user before it finished; what it did until then stands.")
    return engine_error(f"The user interrupted before {tool} was run; it was not run.")


def outcome_unknown(tool: str, *, started: bool) -> str:
    """Of a call that has no result because the program ended."""
    if started:
        return engine_error(
            f"{tool} was interrupted when the program ended: its outcome is unknown. Check what it did before you "
            "repeat it."
        )
    return engine_error(f"The program ended before {tool} was run; it was not run.")


def sibling_failed(tool: str) -> str:
    return engine_error(f"{tool} was cancelled because a command beside it in the same reply failed.")


def discarded(tool: str) -> str:
    return engine_error(f"{tool} was discarded with the reply that asked for it.")


def crashed(tool: str, error: str) -> str:
    """A tool raised what it should not have."""
    return engine_error(f"{tool} failed inside: {escape(error)}")


def not_recorded(tool: str, error: str) -> str:
    """The start of a call that changes could not be written down."""
    return engine_error(f"{tool} was not run: {escape(error)}")


BEGINNING_LOST = "[What was said before this could not be read from the transcript.]"
INTERRUPTED_REQUEST = "[Interrupted by the user]"
INTERRUPTED_TOOLS = "[Interrupted by the user during tool use]"
CONTINUE_CUT = (
    "<system-reminder>Your reply was cut off at the output limit. Go on directly where it stopped, without an apology "
    "or a recap. Work in smaller pieces; a tool call that was cut off has not been run.</system-reminder>"
)


REMINDER = "<system-reminder>"


def reminder(text: str) -> str:
    """Words of the engine inside the conversation."""
    return f"{REMINDER}{sound(text)}</system-reminder>"
