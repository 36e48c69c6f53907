"""The kinds of identifier. All are strings on the wire; the type says which is which."""

from typing import NewType

SessionId = NewType("SessionId", str)
AgentId = NewType("AgentId", str)
MessageId = NewType("MessageId", str)
ReplyId = NewType("ReplyId", str)
CallId = NewType("CallId", str)
QuestionId = NewType("QuestionId", str)
TaskId = NewType("TaskId", str)
