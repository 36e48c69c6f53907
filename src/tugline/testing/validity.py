"""Whether a conversation is one that the services accept, said in the words of Anthropic Messages.

`ScriptedProvider` brings its requests into this form too, so that one set of rules judges both faces.
"""

import re
from collections.abc import Iterator
from typing import Any

NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
MARKERS_ALLOWED = 4

Json = dict[str, Any]


class Invalid(Exception):
    """The request breaks a rule of the protocol; the text names the place and the rule."""


def require(condition: object, text: str) -> None:
    """Raise `Invalid` unless `condition` holds."""
    if not condition:
        raise Invalid(text)


def check_conversation(messages: Any) -> None:
    """Raise `Invalid` unless this is a list of messages that Anthropic Messages accepts."""
    require(isinstance(messages, list), "messages: Input should be a valid list")
    require(messages, "messages: at least one message is required")
    for n, message in enumerate(messages):
        require(isinstance(message, dict), f"messages.{n}: Input should be an object")
        require(
            message.get("role") in ("user", "assistant"),
            f"messages.{n}.role: Input should be 'user' or 'assistant', not {message.get('role')!r}",
        )
        require("content" in message, f"messages.{n}.content: Field required")
        extra = sorted(set(message) - {"role", "content"})
        require(not extra, f"messages.{n}.{extra[0] if extra else ''}: Extra inputs are not permitted")
    require(messages[0]["role"] == "user", "messages: first message must use the user role")
    _check_pairs([(n, m["role"], list(_blocks(m["content"], n, m["role"]))) for n, m in enumerate(messages)])
    last = messages[-1]
    if last["role"] == "assistant" and isinstance(last["content"], str):
        require(last["content"] == last["content"].rstrip(), "messages: final assistant content ends with whitespace")


def _blocks(content: Any, n: int, role: str) -> Iterator[Json]:
    where = f"messages.{n}.content"
    if isinstance(content, str):
        require(content.strip(), f"{where}: text content must be non-empty")
        yield {"type": "text", "text": content}
        return
    require(isinstance(content, list), f"{where}: Input should be a string or a list")
    require(content, f"messages.{n}: all messages must have non-empty content")
    for k, block in enumerate(content):
        check_block(block, f"{where}.{k}", role)
        yield block


def check_block(block: Any, where: str, role: str) -> None:
    """Raise `Invalid` unless this block may stand in a message of this role."""
    require(isinstance(block, dict), f"{where}: Input should be an object")
    kind = block.get("type")
    allowed = (
        ("text", "image", "document", "tool_result", "search_result")
        if role == "user"
        else ("text", "thinking", "redacted_thinking", "tool_use", "server_tool_use", "web_search_tool_result")
    )
    require(kind in allowed, f"{where}.type: {kind!r} is not permitted in a message of role {role}")
    match kind:
        case "text":
            require(isinstance(block.get("text"), str), f"{where}.text: Input should be a valid string")
            require(block["text"].strip(), f"{where}: text content blocks must contain non-whitespace text")
        case "image" | "document":
            _check_source(block.get("source"), f"{where}.source")
        case "thinking":
            require(isinstance(block.get("thinking"), str), f"{where}.thinking: Field required")
            require(block.get("signature"), f"{where}.signature: Field required")
        case "redacted_thinking":
            require(isinstance(block.get("data"), str), f"{where}.data: Field required")
        case "tool_use":
            require(_is_name(block.get("id")), f"{where}.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
            require(
                _is_name(block.get("name")), f"{where}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
            )
            require(isinstance(block.get("input"), dict), f"{where}.input: Input should be a valid dictionary")
        case "tool_result":
            _check_result(block, where)


def _check_source(source: Any, where: str) -> None:
    require(isinstance(source, dict), f"{where}: Field required")
    kind = source.get("type")
    require(kind in ("base64", "url", "text", "file", "content"), f"{where}.type: {kind!r} is not permitted")
    if kind == "base64":
        require(isinstance(source.get("media_type"), str), f"{where}.media_type: Field required")
        require(isinstance(source.get("data"), str) and source["data"], f"{where}.data: cannot be empty")


def _check_result(block: Json, where: str) -> None:
    require(_is_name(block.get("tool_use_id")), f"{where}.tool_use_id: String should match pattern '^[a-zA-Z0-9_-]+$'")
    require(isinstance(block.get("is_error", False), bool), f"{where}.is_error: Input should be a valid boolean")
    content = block.get("content", "")
    if isinstance(content, str):
        return
    require(isinstance(content, list), f"{where}.content: Input should be a string or a list")
    for k, part in enumerate(content):
        kind = part.get("type") if isinstance(part, dict) else None
        require(kind in ("text", "image", "document", "search_result"), f"{where}.content.{k}.type: {kind!r}")
        check_block(part, f"{where}.content.{k}", "user")


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and NAME.fullmatch(value) is not None


def _check_pairs(messages: list[tuple[int, str, list[Json]]]) -> None:
    """Each call is answered by exactly one result directly after, and no result stands alone."""
    joined: list[tuple[int, str, list[Json]]] = []
    for n, role, blocks in messages:
        if joined and joined[-1][1] == role:
            joined[-1][2].extend(blocks)
        else:
            joined.append((n, role, blocks))
    seen: set[str] = set()
    open_calls: list[str] = []
    for n, role, blocks in joined:
        if role == "user":
            _check_answers(n, blocks, open_calls)
            open_calls = []
            continue
        open_calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
        for call in open_calls:
            require(call not in seen, f"messages.{n}: `tool_use` ids must be unique, {call} is not")
            seen.add(call)
    require(
        not open_calls,
        f"messages.{joined[-1][0]}: `tool_use` ids were found without `tool_result` blocks immediately after: "
        + ", ".join(open_calls),
    )


def _check_answers(n: int, blocks: list[Json], open_calls: list[str]) -> None:
    results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    for call in results:
        require(
            call in open_calls,
            f"messages.{n}: unexpected `tool_use_id` found in `tool_result` blocks: {call}. Each `tool_result` block "
            "must have a corresponding `tool_use` block in the previous message",
        )
        require(results.count(call) == 1, f"messages.{n}: each tool_use must have a single result, {call} has several")
    unanswered = [call for call in open_calls if call not in results]
    require(
        not unanswered,
        f"messages.{n}: `tool_use` ids were found without `tool_result` blocks immediately after: "
        + ", ".join(unanswered),
    )
    first_others = next((k for k, block in enumerate(blocks) if block["type"] != "tool_result"), len(blocks))
    require(
        all(block["type"] != "tool_result" for block in blocks[first_others:]),
        f"messages.{n}: `tool_result` blocks must come first in the message that answers calls",
    )


def check_schema(schema: Any, where: str) -> None:
    """Raise `Invalid` unless this can be a tool's input schema."""
    require(isinstance(schema, dict), f"{where}: Field required")
    require(schema.get("type") == "object", f"{where}.type: Input should be 'object'")
    properties = schema.get("properties", {})
    require(isinstance(properties, dict), f"{where}.properties: Input should be an object")
    required = schema.get("required", [])
    require(
        isinstance(required, list) and all(isinstance(name, str) and name in properties for name in required),
        f"{where}.required: names a property that does not exist",
    )


def check_tool_names(names: list[Any], limit: int) -> None:
    """Raise `Invalid` unless the tools' names are well formed and differ."""
    for n, name in enumerate(names):
        require(
            _is_name(name) and len(name) <= limit, f"tools.{n}.name: {name!r} does not match [a-zA-Z0-9_-]{{1,{limit}}}"
        )
    twice = sorted({name for name in names if names.count(name) > 1})
    require(not twice, f"tools: Tool names must be unique, these are not: {', '.join(twice)}")
