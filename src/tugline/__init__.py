"""tugline: an agent harness.

The names below are the library; each is imported when it is first used, so that `import tugline` stays cheap.
"""

from typing import TYPE_CHECKING, Any

from tugline.version import __version__ as __version__

_HOMES = {
    "tugline.library": ("Session", "query"),
    "tugline.options": ("HookMatch",),
    "tugline.protocol.hooks": ("HookInput", "HookOutput"),
    "tugline.sessions": ("Sessions",),
    "tugline.tools.define": ("tool",),
    "tugline.ports": ("Provider", "Tool", "ToolContext"),
    "tugline.protocol.permissions": (
        "Allow", "ApprovePlan", "Deny", "Inquiry", "InquiryAnswer", "Option", "PermissionQuestion", "PermissionUpdate",
        "PlanQuestion", "RejectPlan", "UserQuestion",
    ),
    "tugline.protocol.trust": ("TrustAnswer", "TrustItem", "TrustQuestion"),
    "tugline.protocol.specs": (
        "CommandSubject", "Display", "DomainSubject", "FileStep", "Footprint", "ModelCard", "ModelRequest",
        "NameSubject", "PathSubject", "Price", "Progress", "Result", "ToolSpec",
    ),
    "tugline.protocol.blocks": ("Document", "Image", "Opaque", "Text", "Thinking", "ToolResult", "ToolUse"),
    "tugline.protocol.messages": ("Assistant", "Message", "User"),
    "tugline.protocol.usage": ("Spend", "Usage"),
    "tugline.protocol.errors": (
        "ConfigError", "Failure", "ProviderError", "SessionError", "ToolError", "TuglineError", "UsageError",
    ),
    "tugline.protocol.events": (
        "BlockBegan", "BlockFinished", "CallFinished", "CallProgress", "CallStarted", "CompactionFinished",
        "CompactionStarted", "Crashed", "DirectoryAdded", "Event", "FilesRewound", "HookFinished", "HookStarted",
        "InputDelta", "InquiryAsked", "InstructionsLoaded", "LimitReached", "ModeChanged", "ModelChanged", "Notice",
        "Origin", "PermissionAsked", "PermissionDecided", "PlanAsked", "QuestionClosed", "ReplyBegan", "ReplyFinished",
        "RequestStarted", "ResultAdded", "RetryWaiting", "SessionBranched", "SessionStarted", "TaskFinished",
        "TaskProgress", "TaskStarted", "TextDelta", "ThinkingDelta", "Tombstone", "TrustAsked", "TurnFinished",
        "TurnStarted", "UsageReported", "UserAdded",
    ),
    "tugline.protocol.instructions": ("LoadedFile",),
    "tugline.protocol.sessions": ("Hit", "Passage", "SessionSummary"),
    "tugline.protocol.records": ("Compacted",),
    "tugline.protocol.ids": ("CallId", "MessageId", "ReplyId", "TaskId"),
    "tugline.protocol.tasks": ("Task",),
    "tugline.protocol.commands": (
        "AddDirectory", "Background", "Interrupt", "Prompt", "Reply", "SetMode", "SetModel", "Steer", "StopTask",
    ),
}  # fmt: skip
_MODULES = {"chunks": "tugline.protocol.chunks"}
"""`tugline.chunks`: what a provider of one's own says."""
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = ["__version__", *sorted(_HOME_OF), *_MODULES]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None and name not in _MODULES:
        raise AttributeError(f"module 'tugline' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415  imported here: start-up cost

    value = getattr(import_module(home), name) if home else import_module(_MODULES[name])
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__


if TYPE_CHECKING:
    from tugline.library import Session as Session
    from tugline.library import query as query
    from tugline.options import HookMatch as HookMatch
    from tugline.ports import Provider as Provider
    from tugline.ports import Tool as Tool
    from tugline.ports import ToolContext as ToolContext
    from tugline.protocol import chunks as chunks
    from tugline.protocol.blocks import Document as Document
    from tugline.protocol.blocks import Image as Image
    from tugline.protocol.blocks import Opaque as Opaque
    from tugline.protocol.blocks import Text as Text
    from tugline.protocol.blocks import Thinking as Thinking
    from tugline.protocol.blocks import ToolResult as ToolResult
    from tugline.protocol.blocks import ToolUse as ToolUse
    from tugline.protocol.commands import AddDirectory as AddDirectory
    from tugline.protocol.commands import Background as Background
    from tugline.protocol.commands import Interrupt as Interrupt
    from tugline.protocol.commands import Prompt as Prompt
    from tugline.protocol.commands import Reply as Reply
    from tugline.protocol.commands import SetMode as SetMode
    from tugline.protocol.commands import SetModel as SetModel
    from tugline.protocol.commands import Steer as Steer
    from tugline.protocol.commands import StopTask as StopTask
    from tugline.protocol.errors import ConfigError as ConfigError
    from tugline.protocol.errors import Failure as Failure
    from tugline.protocol.errors import ProviderError as ProviderError
    from tugline.protocol.errors import SessionError as SessionError
    from tugline.protocol.errors import ToolError as ToolError
    from tugline.protocol.errors import TuglineError as TuglineError
    from tugline.protocol.errors import UsageError as UsageError
    from tugline.protocol.events import *  # noqa: F403
    from tugline.protocol.hooks import HookInput as HookInput
    from tugline.protocol.hooks import HookOutput as HookOutput
    from tugline.protocol.ids import CallId as CallId
    from tugline.protocol.ids import MessageId as MessageId
    from tugline.protocol.ids import ReplyId as ReplyId
    from tugline.protocol.ids import TaskId as TaskId
    from tugline.protocol.instructions import LoadedFile as LoadedFile
    from tugline.protocol.messages import Assistant as Assistant
    from tugline.protocol.messages import Message as Message
    from tugline.protocol.messages import User as User
    from tugline.protocol.permissions import Allow as Allow
    from tugline.protocol.permissions import ApprovePlan as ApprovePlan
    from tugline.protocol.permissions import Deny as Deny
    from tugline.protocol.permissions import Inquiry as Inquiry
    from tugline.protocol.permissions import InquiryAnswer as InquiryAnswer
    from tugline.protocol.permissions import Option as Option
    from tugline.protocol.permissions import PermissionQuestion as PermissionQuestion
    from tugline.protocol.permissions import PermissionUpdate as PermissionUpdate
    from tugline.protocol.permissions import PlanQuestion as PlanQuestion
    from tugline.protocol.permissions import RejectPlan as RejectPlan
    from tugline.protocol.permissions import UserQuestion as UserQuestion
    from tugline.protocol.records import Compacted as Compacted
    from tugline.protocol.sessions import Hit as Hit
    from tugline.protocol.sessions import Passage as Passage
    from tugline.protocol.sessions import SessionSummary as SessionSummary
    from tugline.protocol.specs import CommandSubject as CommandSubject
    from tugline.protocol.specs import Display as Display
    from tugline.protocol.specs import DomainSubject as DomainSubject
    from tugline.protocol.specs import Footprint as Footprint
    from tugline.protocol.specs import ModelCard as ModelCard
    from tugline.protocol.specs import ModelRequest as ModelRequest
    from tugline.protocol.specs import NameSubject as NameSubject
    from tugline.protocol.specs import PathSubject as PathSubject
    from tugline.protocol.specs import Price as Price
    from tugline.protocol.specs import Progress as Progress
    from tugline.protocol.specs import Result as Result
    from tugline.protocol.specs import ToolSpec as ToolSpec
    from tugline.protocol.tasks import Task as Task
    from tugline.protocol.trust import TrustAnswer as TrustAnswer
    from tugline.protocol.trust import TrustItem as TrustItem
    from tugline.protocol.trust import TrustQuestion as TrustQuestion
    from tugline.protocol.usage import Spend as Spend
    from tugline.protocol.usage import Usage as Usage
    from tugline.sessions import Sessions as Sessions
    from tugline.tools.define import tool as tool
