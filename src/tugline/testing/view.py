"""What a script can see of a request, whatever protocol it came by."""

import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from tugline.protocol.script import Match, Pattern, Words
from tugline.providers.record import without_reminders

_CWD = re.compile(r"^\W*(?:current )?(?:working (?:directory|folder)|cwd)\W*[:=]\s*`?([^\n`]+?)`?\s*$", re.I | re.M)


class SeenResult(Struct, frozen=True):
    """A result of a call as the model reads it; pictures and documents leave no text."""

    call: str
    text: str
    is_error: bool | None = None


class Said(Struct, frozen=True):
    """One message: who, its texts, and the results in it."""

    role: str
    texts: tuple[str, ...] = ()
    results: tuple[SeenResult, ...] = ()


class View(Struct, frozen=True, eq=False):
    """A request, without what belongs to one protocol only."""

    model: str
    system: str
    first: str
    user: str
    last: str
    results: tuple[SeenResult, ...]
    tools: tuple[str, ...]
    stream: bool
    characters: int
    purpose: str = ""
    said: Sequence[Said] = ()

    def found(self, pattern: str) -> str | None:
        """The newest text of the conversation that matches, or what the pattern's first group holds of it."""
        for message in reversed(self.said):
            for text in (*(result.text for result in reversed(message.results)), *reversed(message.texts)):
                matches = list(re.finditer(pattern, text))
                if matches:
                    return matches[-1].group(1 if matches[-1].re.groups else 0)
        return None

    def cwd(self) -> str | None:
        """The working directory that the request names, if it does."""
        for text in (self.system, self.last, self.first):
            if found := _CWD.search(text):
                return found.group(1).strip()
        return None


def view_of(
    said: Sequence[Said],
    *,
    model: str,
    system: str,
    tools: tuple[str, ...],
    stream: bool,
    characters: int,
    purpose: str = "",
) -> View:
    """Make the view from the messages in order; neighbours of one role count as one message."""
    after = len(said)
    while after and said[after - 1].role != "assistant":
        after -= 1
    tail = said[after:]
    results = tuple(result for message in tail for result in message.results)
    last = "\n".join([*(r.text for r in results), *(text for message in tail for text in message.texts)])
    return View(
        model=model,
        system=system,
        first=_first_words(said),
        user=_latest_words(said),
        last=last,
        results=results,
        tools=tools,
        stream=stream,
        characters=characters,
        purpose=purpose,
        said=said,
    )


def _first_words(said: Sequence[Said]) -> str:
    texts: list[str] = []
    for message in said:
        if message.role == "assistant":
            break
        texts += message.texts
    return without_reminders("\n".join(texts))


def _latest_words(said: Sequence[Said]) -> str:
    texts: list[str] = []
    for message in reversed(said):
        if message.role == "assistant":
            if words := without_reminders("\n".join(texts)):
                return words
            texts = []
        else:
            texts = [*message.texts, *texts]
    return without_reminders("\n".join(texts))


def content_text(content: Any) -> str:
    """The text in a message's content, which is a string or a list of blocks, in any of the protocols."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "\n".join(
        block["text"] for block in content if isinstance(block, dict) and isinstance(block.get("text"), str)
    )


def fits(words: Words, text: str) -> bool:
    """Whether `text` is what `words` ask for."""
    if isinstance(words, str):
        return words in text
    return mismatch(words, text) is None


def mismatch(words: Words, text: str) -> str | None:
    """What `text` lacks to be what `words` ask for, if anything."""
    if isinstance(words, str):
        return None if words in text else f"to contain {shorten(words)}"
    return _pattern_mismatch(words, text)


def _pattern_mismatch(pattern: Pattern, text: str) -> str | None:
    if pattern.regexp is not None and not re.search(pattern.regexp, text, re.MULTILINE):
        return f"to match /{pattern.regexp}/"
    if pattern.equal is not None and pattern.equal.strip() != text.strip():
        return f"to be {shorten(pattern.equal)}"
    return None


def shorten(text: str, limit: int = 80) -> str:
    """`text` quoted, on one line, and not long."""
    line = " ".join(text.split())
    return repr(line if len(line) <= limit else line[: limit - 1] + "…")


def differences(match: Match, view: View) -> list[str]:
    """What of `match` the request does not fulfil, one clause each; empty if it matches."""
    found = []
    for name in ("model", "purpose", "system", "first", "user", "last"):
        words: Words | None = getattr(match, name)
        text: str = getattr(view, name)
        if words is not None and (lack := mismatch(words, text)):
            found.append(f"{name} {lack}, but it is {shorten(text)}")
    found += _result_differences(match, view)
    if missing := [tool for tool in match.tools if tool not in view.tools]:
        found.append(f"tools {', '.join(missing)} to be offered, but these are: {', '.join(view.tools) or 'none'}")
    if extra := [tool for tool in match.without if tool in view.tools]:
        found.append(f"tools {', '.join(extra)} not to be offered")
    if match.stream is not None and match.stream != view.stream:
        found.append(f"stream to be {str(match.stream).lower()}")
    return found


def _result_differences(match: Match, view: View) -> list[str]:
    found = []
    texts = [result.text for result in view.results]
    shown = ", ".join(shorten(text) for text in texts[:5]) or "none"
    if match.result is not None and not any(fits(match.result, text) for text in texts):
        found.append(f"a result {mismatch(match.result, '') or 'that is empty'}, but the results are: {shown}")
    if match.results is not None:
        if len(match.results) != len(texts):
            found.append(f"{len(match.results)} results, but there are {len(texts)}: {shown}")
        else:
            lacks = [
                (n, mismatch(words, text)) for n, (words, text) in enumerate(zip(match.results, texts, strict=True))
            ]
            found += [f"results[{n}] {lack}, but it is {shorten(texts[n])}" for n, lack in lacks if lack]
    if match.is_error is not None and match.is_error != any(result.is_error for result in view.results):
        found.append("one of the results to be an error" if match.is_error else "no result to be an error")
    return found
