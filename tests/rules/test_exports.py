"""Documents of conversations: nothing in them can run, nothing that looks like a key is in them."""

import json
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tugline.protocol.blocks import Image, Text, Thinking, ToolResult, ToolUse
from tugline.protocol.ids import CallId, MessageId, SessionId
from tugline.protocol.messages import Assistant, Message, User
from tugline.protocol.records import Compacted
from tugline.protocol.sessions import FORMATS, ExportFormat, Passage, SessionSummary
from tugline.rules.exports import exported
from tugline.rules.masking import mask, mask_bytes, secrets_of

HOSTILE = [
    "<script>alert(1)</script>",
    "</pre></details><img src=x onerror=alert(1)>",
    "\"><svg/onload=alert(1)>",
    "{title}{0}%s",
    "\x1b]0;owned\x07\x1b[31m\x9b2J",
    "\u202egnp.exe\u2066",
    "<!--", "--><b>", "&lt;script&gt;", "```\n<script>\n````", "half \ud800 pair", "]]>",
]  # fmt: skip
ALLOWED = {
    "html", "meta", "title", "style", "h1", "dl", "dt", "dd", "div", "time", "details", "summary", "pre", "hr", "p",
    "img",
}  # fmt: skip


class Seen(HTMLParser):
    """What a browser would make of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        self.tags.append("comment")


def session(text: str) -> tuple[SessionSummary, list[Passage]]:
    """A conversation that has the text in every place."""
    call = ToolUse(CallId(text), text, {"command": text, text: text}, malformed=text)
    said: list[Message | Compacted] = [
        User(MessageId(text), (Text(text), Image(text, text), Image("image/png", text), Image("image/png", "aGk="))),
        Assistant(MessageId("a"), (Text(text), Thinking(text), call), model=text),
        User(MessageId("r"), (ToolResult(CallId(text), text), ToolResult(CallId("b"), (Text(text),))), "results"),
        Compacted(id=MessageId("c"), messages=(), words=text),
    ]
    summary = SessionSummary(
        SessionId(text), text, False, 0, 0.0, cwd=text, branch=text, title=text, prompt=text, started=1e300
    )
    return summary, [Passage(n, 1.0, 1, one) for n, one in enumerate(said)]


def document(text: str, form: ExportFormat) -> str:
    return "".join(exported(*session(text), form, mask))


def assert_harmless(page: str) -> Seen:
    seen = Seen()
    seen.feed(page)
    seen.close()
    assert set(seen.tags) <= ALLOWED
    assert {name for name, _ in seen.attributes} <= {
        "lang", "charset", "http-equiv", "content", "name", "class", "alt", "src",
    }  # fmt: skip
    for name, value in seen.attributes:
        assert name != "src" or (value or "").startswith("data:image/png;base64,")
    assert not {char for char in page if (ord(char) < 32 and char not in "\n\t") or 0x7F <= ord(char) < 0xA0}
    assert "\u202e" not in page
    page.encode()
    return seen


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_text_in_a_page(text: str) -> None:
    page = document(text, "html")
    seen = assert_harmless(page)
    assert page.count("Content-Security-Policy") == 1
    assert "default-src 'none'" in page
    assert "alert(1)" not in text or "alert(1)" in seen.text


@given(st.text(max_size=60))
def test_no_text_at_all_is_markup_in_a_page(text: str) -> None:
    assert_harmless(document(text, "html"))


@given(st.text(max_size=60))
def test_the_json_is_json_and_has_all_that_was_said(text: str) -> None:
    found = json.loads("".join(exported(*session(text), "json", lambda text: text)))
    sound = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    assert found["session"]["title"] == sound
    assert [one["turn"] for one in found["passages"]] == [1, 1, 1, 1]
    assert found["passages"][0]["said"]["content"][0]["text"] == sound


@given(st.text(st.sampled_from("`~\n a"), max_size=40))
def test_no_result_ends_its_block_of_code_in_markdown(text: str) -> None:
    passages = [Passage(1, 0.0, 1, User(MessageId("r"), (ToolResult(CallId("c"), text),), "results"))]
    written = "".join(exported(session("x")[0], passages, "markdown", mask))
    opening = next(line for line in written.splitlines() if line.startswith("```"))
    fences = [line for line in written.splitlines() if line.startswith(opening) and set(line) == {"`"}]
    assert len(fences) == 2


def test_what_a_rewind_took_out_is_in_no_document() -> None:
    passages = [Passage(1, 0.0, 1, User(MessageId("r"), (Text("taken back"),)), aside=True)]
    for form in FORMATS:
        assert "taken back" not in "".join(exported(session("x")[0], passages, form, mask))


KEYS = [
    "sk-ant-" + "x1" * 10, "ghp_" + "a" * 36, "github_pat_" + "a1" * 20, "AKIAIOSFODNN7EXAMPLE",
    "xoxb-1234567890-abc", "AIza" + "b" * 35, "glpat-" + "x" * 20, "hf_" + "k" * 34, "npm_" + "z" * 36,
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("form", FORMATS)
def test_what_looks_like_a_key_is_in_no_document(key: str, form: ExportFormat) -> None:
    written = document(f"before {key} after", form)
    assert key not in written
    assert "before *** after" in written
    assert key.encode() not in mask_bytes(key.encode())


def test_a_private_key_is_masked_and_the_json_around_it_stays_json() -> None:
    key = "-----BEGIN RSA PRIVATE KEY-----\nMIIB\nabc\n-----END RSA PRIVATE KEY-----"
    for form in FORMATS:
        assert "MIIB" not in document(key, form)
    passages = [
        Passage(1, 0.0, 1, User(MessageId("r"), (Text("-----BEGIN PRIVATE KEY-----"), Text("x"), Text("-----END"))))
    ]
    json.loads("".join(exported(session("x")[0], passages, "json", mask)))


def test_the_secrets_of_the_environment_are_masked_by_their_values() -> None:
    secrets = secrets_of({"MY_TOKEN": "correct horse", "OTHER_TOKEN": "short", "PATH": "/usr/bin:/bin"})
    assert secrets == ("correct horse",)
    assert mask("the correct horse in /usr/bin:/bin", secrets) == "the *** in /usr/bin:/bin"
