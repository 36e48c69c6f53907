"""Calls and their results in the shapes that hooks know: what `tool_response` holds, and what may take its place."""

from collections.abc import Mapping
from typing import Any

import msgspec

from tugline.protocol.blocks import Text
from tugline.protocol.specs import Content, Result

_TEXT_FIELDS = ("stdout", "content", "result", "text", "output")


def response(tool: str, given: Mapping[str, Any], result: Result) -> Any:
    """A result as hooks read it: an object whose fields are those that people's hooks look at."""
    text = plain(result.for_model)
    match tool:
        case "Bash":
            return {"stdout": text, "stderr": "", "interrupted": False, "isImage": False}
        case "Write":
            return {"success": not result.is_error, "filePath": given.get("file_path", ""), "message": text}
        case "Edit" | "NotebookEdit":
            path = given.get("file_path", given.get("notebook_path", ""))
            changed = {"oldString": given.get("old_string", ""), "newString": given.get("new_string", "")}
            whole = {"success": not result.is_error, "filePath": path, **changed}
            return {**whole, "replaceAll": bool(given.get("replace_all")), "message": text}
        case "Read":
            return {"type": "text", "file": {"filePath": given.get("file_path", ""), "content": text}}
        case _:
            if not isinstance(result.for_model, str):
                return {"content": [msgspec.to_builtins(part) for part in result.for_model]}
            return {"content": text}


def plain(content: Content) -> str:
    """The text of a result."""
    if isinstance(content, str):
        return content
    return "\n".join(part.text for part in content if isinstance(part, Text))


def replaced(output: Any) -> Content:
    """What the model reads in place of a result: text as it is, the text of an object's usual field, blocks of text,
    and anything else as JSON."""
    if isinstance(output, str):
        return output
    if isinstance(output, Mapping):
        for name in _TEXT_FIELDS:
            if isinstance(output.get(name), str | list):
                return replaced(output[name])
        inner = output.get("file")
        if isinstance(inner, Mapping) and isinstance(inner.get("content"), str):
            return str(inner["content"])
    if isinstance(output, list) and output and all(_is_text(part) for part in output):
        return "\n".join(part["text"] for part in output)
    return msgspec.json.encode(output).decode()


def _is_text(part: Any) -> bool:
    return isinstance(part, Mapping) and part.get("type") == "text" and isinstance(part.get("text"), str)
