"""A conversation as a document that leaves its machine: Markdown, JSON, or one HTML page without a script.

Each is a stream of pieces. What looks like a key is masked in all of them. In HTML every character that was said is
text: nothing of it is markup, and the page may load nothing and run nothing.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from html import escape
from typing import Any

from tugline.protocol.blocks import Document, Image, Text, Thinking, ToolResult, ToolUse
from tugline.protocol.codec import to_plain
from tugline.protocol.messages import Assistant, User
from tugline.protocol.records import Compacted
from tugline.protocol.sessions import ExportFormat, Passage, SessionSummary
from tugline.rules.telling import as_json, block_text, call_line, content_text, moment, results_of
from tugline.rules.terminal import clean, clean_controls
from tugline.rules.wording import sound

ENDINGS: dict[ExportFormat, str] = {"markdown": ".md", "json": ".json", "html": ".html"}
"""How files of each format end."""

Mask = Callable[[str], str]
_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")


def exported(summary: SessionSummary, passages: Iterable[Passage], form: ExportFormat, mask: Mask) -> Iterator[str]:
    """The document, piece by piece. What was taken out of the conversation by a rewind is left out."""
    kept = (passage for passage in passages if not passage.aside)
    match form:
        case "markdown":
            return _markdown(summary, kept, mask)
        case "json":
            return _json(summary, kept, mask)
        case "html":
            return _html(summary, kept, mask)


def _name(summary: SessionSummary) -> str:
    return summary.title or summary.prompt or f"Session {summary.session}"


def _about(summary: SessionSummary) -> list[tuple[str, str]]:
    rows = [
        ("Session", summary.session),
        ("Begun", moment(summary.started)),
        ("Folder", summary.cwd),
        ("Branch", summary.branch),
        ("Cost", f"${summary.cost_usd:.4f}" if summary.cost_usd else ""),
    ]
    return [(name, value) for name, value in rows if value]


def _shows(passage: Passage) -> bool:
    """Whether a reader cares: not for what the engine told the model beside the conversation."""
    return not (isinstance(passage.said, User) and (passage.said.hidden or passage.said.source in ("context", "loop")))


# -- JSON


def _json(summary: SessionSummary, passages: Iterable[Passage], mask: Mask) -> Iterator[str]:
    about = {
        "session": summary.session,
        "title": summary.title,
        "started": summary.started,
        "cwd": summary.cwd,
        "branch": summary.branch,
        "cost_usd": summary.cost_usd,
    }
    yield f'{{"session":{as_json(_masked(about, mask))},"passages":['
    for count, passage in enumerate(passages):
        yield f"{',' if count else ''}\n{as_json(_masked(to_plain(passage), mask))}"
    yield "\n]}\n"


def _masked(value: Any, mask: Mask) -> Any:
    """Plain data with each of its texts masked by itself: what is masked never reaches over the end of one."""
    match value:
        case str():
            return mask(sound(value))
        case dict():
            return {mask(sound(name)): _masked(inner, mask) for name, inner in value.items()}
        case list() | tuple():
            return [_masked(inner, mask) for inner in value]
        case _:
            return value


# -- Markdown


def _markdown(summary: SessionSummary, passages: Iterable[Passage], mask: Mask) -> Iterator[str]:
    def told(text: str) -> str:
        return clean_controls(mask(sound(text)))

    yield f"# {_in_line(told(_name(summary)))}\n\n"
    yield "".join(f"- {name}: {_in_line(told(value))}\n" for name, value in _about(summary))
    for passage in passages:
        if _shows(passage):
            yield "".join(_markdown_passage(passage, told))


def _markdown_passage(passage: Passage, told: Mask) -> Iterator[str]:
    said = passage.said
    match said:
        case Compacted():
            yield f"\n---\n\n*{_compacted(said)}*\n"
        case Assistant(content=reply):
            for block in reply:
                if isinstance(block, Text) and block.text.strip():
                    yield f"\n{told(block.text).strip()}\n"
                elif isinstance(block, ToolUse):
                    yield f"\n**{_in_line(told(call_line(block)))}**\n\n{_fenced(told(_input(block)), 'json')}"
        case User(content=content, source=source):
            words = "\n".join(block_text(part) for part in content if not isinstance(part, ToolResult))
            if words.strip():
                heading = f"\n## {passage.turn}. {moment(passage.time)}\n" if source == "person" else ""
                quoted = "\n".join(f"> {line}".rstrip() for line in told(words).strip().split("\n"))
                yield f"{heading}\n{quoted}\n"
            for result in results_of(content):
                yield f"\n{_fenced(told(content_text(result.content)))}"


def _in_line(text: str) -> str:
    return " ".join(text.split())


def _fenced(text: str, language: str = "") -> str:
    """The text as a block of code that nothing in it can end."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}\n"


def _input(use: ToolUse) -> str:
    return use.malformed if use.malformed is not None else as_json(use.input)


def _compacted(boundary: Compacted) -> str:
    return f"Compacted here: about {boundary.tokens_before:,} tokens to {boundary.tokens_after:,}."


# -- HTML

_HEAD = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="referrer" content="no-referrer">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 50rem; margin: 2rem auto; padding: 0 1rem; color: #222;
  background: #fff }}
pre, .said {{ white-space: pre-wrap; overflow-wrap: anywhere }}
pre {{ font-size: 13px; background: #f4f4f4; padding: .6rem; margin: .4rem 0 }}
.person {{ border-left: 4px solid #2a6f97; padding-left: .8rem; margin: 1.6rem 0 .8rem }}
.model {{ margin: .8rem 0 }}
time, dt, .n {{ color: #666; font-size: 13px }}
dl {{ display: grid; grid-template-columns: max-content auto; gap: 0 1rem }}
dd {{ margin: 0; overflow-wrap: anywhere }}
summary {{ cursor: pointer; font-family: monospace; overflow-wrap: anywhere }}
.error > summary {{ color: #a4161a }}
img {{ max-width: 100% }}
@media (prefers-color-scheme: dark) {{
  body {{ color: #ddd; background: #1b1b1b }} pre {{ background: #262626 }} time, dt, .n {{ color: #999 }}
}}
</style>
"""


def _html(summary: SessionSummary, passages: Iterable[Passage], mask: Mask) -> Iterator[str]:
    def told(text: str) -> str:
        return escape(clean(mask(sound(text))), quote=True)

    name = told(_in_line(_name(summary)))
    yield _HEAD.format(title=name)
    yield f"<h1>{name}</h1>\n<dl>"
    yield "".join(f"<dt>{label}</dt><dd>{told(value)}</dd>" for label, value in _about(summary))
    yield "</dl>\n"
    for passage in passages:
        if _shows(passage):
            yield "".join(_html_passage(passage, told))
    yield "</html>\n"


def _html_passage(passage: Passage, told: Mask) -> Iterator[str]:
    said = passage.said
    match said:
        case Compacted():
            yield f"<hr><p class=n>{_compacted(said)}</p>\n"
        case Assistant(content=reply):
            for block in reply:
                yield _html_reply(block, told)
        case User(content=content, source=source):
            words = "".join(_html_part(part, told) for part in content if not isinstance(part, ToolResult))
            if words:
                time = f"<time>{passage.turn} · {moment(passage.time)}</time>" if source == "person" else ""
                yield f"<div class=person>{time}{words}</div>\n"
            for result in results_of(content):
                yield _html_result(result, told)


def _html_reply(block: object, told: Mask) -> str:
    match block:
        case Text(text=text) if text.strip():
            return f'<div class="model said">{told(text.strip())}</div>\n'
        case Thinking(thinking=text) if text.strip():
            return f"<details><summary>Thinking</summary><pre>{told(text)}</pre></details>\n"
        case ToolUse():
            return f"<details><summary>{told(call_line(block))}</summary><pre>{told(_input(block))}</pre></details>\n"
        case _:
            return ""


def _html_result(result: ToolResult, told: Mask) -> str:
    kind = " class=error" if result.is_error else ""
    content = (Text(result.content),) if isinstance(result.content, str) else result.content
    inside = "".join(_html_part(block, told, "pre") for block in content)
    return f"<details{kind}><summary>{'Error' if result.is_error else 'Result'}</summary>{inside}</details>\n"


def _html_part(block: Text | Image | Document, told: Mask, tag: str = "div") -> str:
    if isinstance(block, Image) and block.media_type in _PICTURES and _BASE64.fullmatch(block.data):
        return f'<img alt="" src="data:{block.media_type};base64,{block.data}">'
    text = block_text(block)
    return f"<{tag} class=said>{told(text)}</{tag}>" if text.strip() else ""
