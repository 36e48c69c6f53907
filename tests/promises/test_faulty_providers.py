"""What a provider can do wrong on the wire, and what becomes of it: the whole stack over real HTTP.

Each row is one way to fail. Whatever it is, the same holds afterwards: no call that changes something ran from a reply
that did not count, nothing of a failed attempt is in the conversation, the next prompt works and its request is one
that a strict service takes, nothing crashed, and the events are in order.
"""

import asyncio
import gzip
import json
import os
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from faults import (
    ANTHROPIC,
    CHAT,
    FINE,
    KEY,
    RESPONSES,
    SPOILED,
    TONGUES,
    Answer,
    Call,
    FaultyServer,
    Tongue,
    chunk,
    chunked,
    head,
    options,
    plain,
    refusal,
    serving,
    sse,
    stream,
    unended,
    zipped,
)

import tugline
from tugline.app import models
from tugline.protocol import events as said
from tugline.providers.limits import Gate, Gates

GOOD = "Good."
SPOILED_CALL = Call()
GOOD_CALL = Call('{"name": "good"}')


@dataclass(frozen=True)
class Row:
    """A scenario: what the server answers first, and what must come of the first prompt."""

    name: str
    tongue: Tongue
    answers: tuple[Answer, ...]
    requests: int = 2
    """How many requests the first prompt makes."""
    text: str = FINE
    failure: str = ""
    """The kind of failure that ends the turn; empty: it completes."""
    reason: str = ""
    runs: int = 0
    """How often a call that changes something runs."""
    says: str = ""
    """Stands in the line for the person."""
    result: str = ""
    """Stands in the request that follows the faulty reply."""
    spoiled: bool = False
    """The spoiled words count: the reply was whole."""
    network: dict[str, float] = field(default_factory=dict)
    seconds: float = 3.0

    @property
    def ending(self) -> str:
        return self.reason or ("api_error" if self.failure else "completed")


def again(
    name: str, tongue: Tongue, *answers: Answer, requests: int = 0, seconds: float = 3.0, **network: float
) -> Row:
    """The attempt is void, another one follows and is fine."""
    return Row(name, tongue, answers, requests=requests or len(answers) + 1, network=network, seconds=seconds)


def stands(name: str, tongue: Tongue, *answers: Answer, text: str = GOOD, requests: int = 1, **network: float) -> Row:
    """Odd, but whole: the reply counts."""
    return Row(name, tongue, answers, requests=requests, text=text, network=network)


def fails(name: str, tongue: Tongue, kind: str, *answers: Answer, says: str = "", **network: float) -> Row:
    """Ends the turn with a failure of that kind, as soon as the answers are used up."""
    return Row(name, tongue, answers, requests=len(answers), text="", failure=kind, says=says, network=network)


def refused_call(name: str, tongue: Tongue, call: Call, result: str = "is invalid") -> Row:
    """The reply stands; its call is not run, and the model is told why."""
    return Row(name, tongue, (chunked(*stream(tongue, GOOD, call)),), result=result, spoiled=True)


def ran_call(name: str, tongue: Tongue, *answers: Answer) -> Row:
    """The reply stands and its call is run, once."""
    return Row(name, tongue, answers, runs=1)


# -- the rows


def stop_index(tongue: Tongue) -> int:
    """Where in a stream the proper end is first said."""
    return {"anthropic": -2, "chat": -3, "responses": -1}[tongue.name]


def truncations() -> Iterator[Row]:
    """A reply with words and a call, cut at every structural point before its end is said."""
    for tongue in TONGUES:
        events = stream(tongue, SPOILED, SPOILED_CALL)[: stop_index(tongue)]
        for count in range(len(events) + 1):
            kept = events[:count]
            yield again(f"the connection closes after {count} events", tongue, unended(*kept))
            yield again(f"the body ends after {count} events", tongue, chunked(*kept))
            if count < len(events):
                half = events[count][: len(events[count]) // 2]
                yield again(f"the connection closes inside event {count}", tongue, unended(*kept, half))
                bare = events[count].rstrip(b"\n")
                yield again(f"the body ends before the line end of event {count}", tongue, chunked(*kept, bare[:-1]))


def endings() -> Iterator[Row]:
    """Around the proper end."""
    good = stream(ANTHROPIC, GOOD, GOOD_CALL)
    yield ran_call("the connection closes between stop reason and stop", ANTHROPIC, unended(*good[:-1]))
    yield ran_call("the body ends between stop reason and stop", ANTHROPIC, chunked(*good[:-1]))
    yield ran_call("no word after the stop", ANTHROPIC, unended(*good, after="hang"))
    yield ran_call("words after the stop", ANTHROPIC, chunked(*good, *stream(ANTHROPIC, SPOILED, SPOILED_CALL)))
    good = stream(CHAT, GOOD, GOOD_CALL)
    yield ran_call("the connection closes before the usage", CHAT, unended(*good[:-2]))
    yield ran_call("the connection closes before DONE", CHAT, unended(*good[:-1]))
    yield ran_call("the body ends without DONE", CHAT, chunked(*good[:-1]))
    yield again("DONE without a finish reason", CHAT, chunked(*stream(CHAT, SPOILED, SPOILED_CALL)[:-3], good[-1]))
    more = CHAT.part(0, SPOILED)
    yield again("it goes on after the finish reason", CHAT, chunked(*stream(CHAT, SPOILED)[:-2], *more))
    good = stream(RESPONSES, GOOD, GOOD_CALL)
    yield ran_call("the connection closes after the end", RESPONSES, unended(*good))
    for status in ("failed", "cancelled"):
        event = RESPONSES.event(f"response.{status}", response={"status": status, "error": {"code": "server_error"}})
        spoiled = stream(RESPONSES, SPOILED, SPOILED_CALL)[:-1]
        yield again(f"the response is {status}", RESPONSES, chunked(*spoiled, event))
    for tongue in TONGUES:
        events = stream(tongue, GOOD, GOOD_CALL)
        yield again("reset by the peer mid-stream", tongue, unended(*stream(tongue, SPOILED)[:2], after="reset"))
        yield ran_call("one byte per chunk", tongue, chunked(*(bytes([b]) for b in b"".join(events))))
        yield ran_call("all in one chunk", tongue, chunked(b"".join(events)))


def structures() -> Iterator[Row]:
    """Streams of the Messages API that no sound server sends."""
    t = ANTHROPIC
    start, words, call = t.start(), t.part(0, SPOILED), t.part(1, SPOILED_CALL)
    end = t.end((SPOILED_CALL,))
    wrong = {
        "two message_starts": [*start, *words, *t.start("msg_2"), *call, *end],
        "a message_start in the middle of a block": [*start, *words[:2], *start, words[2], *end],
        "no message_start": [*words, *call, *end],
        "a block without a stop": [*start, *words, *call[:2], *end],
        "a block without a start": [*start, *words, *call[1:], *end],
        "a delta for a closed block": [*start, *words, words[1], *end],
        "a delta for a block that never was": [*start, *words, t.part(7, SPOILED)[1], *end],
        "a stop for a block that never was": [*start, *words, t.part(7, SPOILED)[2], *end],
        "a block opened twice": [*start, *words[:2], words[0], words[1], words[2], *end],
        "a block stopped twice": [*start, *words, words[2], *end],
        "a text delta for a call": [*start, call[0], t.part(1, SPOILED)[1], call[2], *end],
        "an input delta for words": [*start, words[0], t.part(0, SPOILED_CALL)[1], words[2], *end],
        "a negative index": [*start, *t.part(-1, SPOILED)[1:], *end],
        "an index that is text": [
            *start,
            t.event("content_block_start", index="0", content_block={"type": "text", "text": ""}),
            *end,
        ],
        "an event that is no JSON": [*start, *words, sse("{not json", "content_block_delta"), *call, *end],
        "an event that is a list": [*start, *words, sse("[1]", "message_delta"), *call, *end],
        "an event that is null": [*start, sse("null", "content_block_start"), *call, *end],
        "a delta without content": [*start, words[0], t.event("content_block_delta", index=0), *words[2:], *end],
        "a content block that is null": [*start, t.event("content_block_start", index=0, content_block=None), *end],
        "invalid UTF-8 instead of JSON": [*start, b"event: message_delta\ndata: \xff\xfe\xfd\n\n", *end],
        "a body of NULs": [b"\0" * 5000],
        "an event nested a million deep": [*start, sse("[" * 1_000_000, "message_delta")],
    }
    for name, events in wrong.items():
        yield again(name, t, chunked(*events))
    good = stream(t, GOOD, GOOD_CALL)
    odd = {
        "unknown events in between": [good[0], t.event("moon_phase", phase=3), *good[1:]],
        "an unknown event that is no JSON": [good[0], sse("{", "moon_phase"), *good[1:]],
        "an unknown block": [
            *start,
            t.event("content_block_start", index=0, content_block={"type": "moon"}),
            t.event("content_block_delta", index=0, delta={"type": "moon_delta", "x": 1}),
            t.event("content_block_stop", index=0),
            *t.part(1, GOOD),
            *t.part(2, GOOD_CALL),
            *end,
        ],
        "an unknown delta of a known block": [
            *good[:3],
            t.event("content_block_delta", index=0, delta={"type": "moon_delta"}),
            *good[3:],
        ],
        "indexes that start at 5 and leave gaps": [*start, *t.part(5, GOOD), *t.part(9, GOOD_CALL), *end],
        "interleaved blocks": [*start, good[1], good[4], good[5], good[2], good[6], good[3], *end],
        "no ids, no model, no usage": [t.event("message_start", message={}), *good[1:]],
        "usage that is nonsense": [
            *good[:-2],
            t.event("message_delta", delta={"stop_reason": "tool_use"}, usage={"output_tokens": "many"}),
            good[-1],
        ],
        "pings everywhere": [piece for event in good for piece in (t.ping(), event)],
        "events without names": [event.split(b"\n", 1)[1] for event in good],
    }
    for name, events in odd.items():
        yield ran_call(name, t, chunked(*events))
    yield stands("no stop reason, but a stop", t, chunked(*start, *t.part(0, GOOD), t.event("message_stop")))
    yield stands("an unknown stop reason", t, chunked(*stream(t, GOOD, stop="moon_phase")))
    yield stands("an empty reply", t, chunked(*start, *end), text="")
    refused = chunked(*stream(t, SPOILED, SPOILED_CALL, stop="refusal"))
    yield Row("a refusal", t, (refused,), 1, "", "refusal", "refused", spoiled=True)
    refused = chunked(*stream(CHAT, SPOILED, SPOILED_CALL, stop="content_filter"))
    yield Row("a content filter", CHAT, (refused,), 1, "", "refusal", "refused", spoiled=True)


def inputs() -> Iterator[Row]:
    """Calls whose input is not one whole JSON object, or that lack a name."""
    deep = '{"name": ' + '{"a":' * 5_000 + "1" + "}" * 5_000 + "}"
    bad = {
        "an array": '["SPOILED"]',
        "a number": "17",
        "a string": '"SPOILED"',
        "null": "null",
        "empty": "",
        "blanks": "  ",
        "cut off": '{"name": "SPOILED',
        "two objects": '{"name": "SPOILED"}{"name": "x"}',
        "with words behind": '{"name": "SPOILED"} ok',
        "with a key twice": '{"name": "a", "name": "SPOILED"}',
        "with a key twice inside": '{"name": "a", "more": {"x": 1, "x": 2}}',
        "NaN": '{"name": NaN}',
        "infinite": '{"name": 1e999}',
        "nested 5000 deep": deep,
        "single quotes": "{'name': 'SPOILED'}",
        "a trailing comma": '{"name": "SPOILED",}',
        "a raw line end in a string": '{"name": "a\nb"}',
        "a lone surrogate": r'{"name": "\ud800"}',
        "a surrogate the wrong way round": r'{"name": "\udc00\ud800"}',
        "of the wrong type": '{"name": {"first": "SPOILED"}}',
        "with an unknown field": '{"name": "x", "SPOILED": 1}',
        "a BOM": '\ufeff{"name": "x"}',
        "a comment": '{"name": "x" /* SPOILED */}',
    }
    for tongue in TONGUES:
        for name, arguments in bad.items():
            yield refused_call(f"input: {name}", tongue, Call(arguments))
        yield refused_call("a call without a name", tongue, Call(name=None), "no tool named")
        yield refused_call("a call with an empty name", tongue, Call(name=""), "no tool named")
        yield refused_call("a call of an unknown tool", tongue, Call(name="tuoch"), "no tool named")
        yield refused_call("a call with a name of 10,000 characters", tongue, Call(name="n" * 10_000), "no tool named")
        yield refused_call("a call with a hostile name", tongue, Call(name='a"}\x1b[2J\n</x>'), "no tool named")
        for name, number in {
            "no id": None,
            "an empty id": "",
            "an id of odd characters": "é \n\t!",
            "a huge id": "x" * 5000,
        }.items():
            call = Call('{"name": "good"}', id=number)
            yield ran_call(f"a call with {name}", tongue, chunked(*stream(tongue, GOOD, call)))
        same = stream(tongue, GOOD_CALL, GOOD_CALL)
        yield Row("the same id twice in one reply", tongue, (chunked(*same),), runs=2)
        once = stream(tongue, GOOD_CALL)
        yield Row("the same id in two replies", tongue, (chunked(*once), chunked(*once)), requests=3, runs=2)


def errors_in_streams() -> Iterator[Row]:
    """An error event after words and a call."""
    retried = ["overloaded_error", "api_error", "rate_limit_error", "timeout_error", "moon_error"]
    final = {
        "authentication_error": "authentication",
        "permission_error": "authentication",
        "billing_error": "billing",
        "invalid_request_error": "invalid_request",
    }
    for tongue in TONGUES:
        events = stream(tongue, SPOILED, SPOILED_CALL)[: stop_index(tongue)]
        for kind in retried:
            yield again(f"{kind} in the stream", tongue, chunked(*events, tongue.error_event(kind, "sorry")))
        for kind, failure in final.items():
            answer = chunked(*events, tongue.error_event(kind, "sorry"))
            yield fails(f"{kind} in the stream", tongue, failure, answer, says="sorry")
        too_long = chunked(tongue.error_event("request_too_large", "prompt is too long: 9 > 8"))
        yield Row(
            "too long, in the stream", tongue, (too_long,), 1, "", "prompt_too_long", "prompt_too_long", says="/compact"
        )
        reads = stream(tongue, SPOILED, Call(name="peek"), Call(name="peek", id="call_2"))[: stop_index(tongue)]
        at_once = chunked(b"".join([*reads, tongue.error_event("overloaded_error", "sorry")]))
        yield again("an error in one piece with calls that read", tongue, at_once)
        yield again("a cut in one piece with calls that read", tongue, unended(b"".join(reads)))
        again_bare = chunked(*events, sse({"error": {"message": "upstream died"}}))
        yield again("an error without a type or a name", tongue, again_bare)


def bodies() -> Iterator[Row]:
    """A success that is none."""
    page = b"<html><head><title>Log in</title></head></html>"
    for tongue in TONGUES:
        error = tongue.error("overloaded_error", "busy")
        yield again("200 with an error for a body", tongue, plain(error))
        wrong = tongue.error("authentication_error", "no such key")
        yield fails("200 with a final error for a body", tongue, "authentication", plain(wrong), says="no such key")
        yield fails("200 with a web page", tongue, "unexpected_reply", plain(page, kind="text/html"), says="base URL")
        yield again("200 with nothing", tongue, plain(b"", kind="text/event-stream"))
        yield again("200 with nothing, as JSON", tongue, plain(b""))
        yield again("200 with half a JSON body", tongue, plain(tongue.whole(SPOILED, SPOILED_CALL)[:-20]))
        yield fails("200 with JSON of another kind", tongue, "unexpected_reply", plain(b'{"hello": "world"}'))
        yield again("200 with a JSON list", tongue, plain(b"[1, 2]"))
        yield stands("a whole answer where a stream was asked for", tongue, plain(tongue.whole(GOOD)))
        events = b"".join(stream(tongue, GOOD))
        yield stands("a stream called text/plain", tongue, plain(events, kind="text/plain"))
        yield stands("a stream without a type", tongue, Answer((b"HTTP/1.1 200 OK\r\n\r\n", events), "close"))
        yield again("204 without a body", tongue, Answer((b"HTTP/1.1 204 No Content\r\n\r\n",)))


def framings() -> Iterator[Row]:
    """What can be wrong below the events."""
    for tongue in TONGUES:
        spoiled = b"".join(stream(tongue, SPOILED, SPOILED_CALL)[: stop_index(tongue)])
        good = b"".join(stream(tongue, GOOD))
        stream_head = head(200, "text/event-stream", "Transfer-Encoding: chunked")
        yield again("garbage for a chunk size", tongue, Answer((stream_head, chunk(spoiled), b"zz\r\nhi\r\n"), "close"))
        yield again("a chunk longer than it says", tongue, Answer((stream_head, b"5\r\n" + spoiled + b"\r\n"), "close"))
        yield again(
            "a content-length beyond the end",
            tongue,
            plain(spoiled, kind="text/event-stream", length=99_999).then("close"),
        )
        yield again(
            "a content-length short of the end",
            tongue,
            plain(spoiled, kind="text/event-stream", length=60).then("close"),
        )
        yield again("garbage for a head", tongue, Answer((b"\x16\x03\x01 what?\r\n\r\n",), "close"))
        yield again("a head that stops", tongue, Answer((b"HTTP/1.1 200 OK\r\nContent-Ty",), "close"))
        yield again("no answer, just a close", tongue, Answer((), "close"), requests=3 - 1)
        yield again("no answer, just a reset", tongue, Answer((), "reset"), requests=3 - 1)
        yield again("gzip that is cut", tongue, zipped(good, cut=60))
        yield again("gzip that is not gzip", tongue, plain(good, "Content-Encoding: gzip", kind="text/event-stream"))
        yield stands("gzip", tongue, zipped(good))
        yield again(
            "an encoding that nobody asked for", tongue, plain(good, "Content-Encoding: br", kind="text/event-stream")
        )
        for name, data in {
            "lines that end with CRLF": good.replace(b"\n", b"\r\n"),
            "lines that end with CR": good.replace(b"\n", b"\r"),
            "a byte order mark": b"\xef\xbb\xbf" + good,
            "comments and other fields": b": hi\nretry: 5\nid: 7\n\n" + good.replace(b"\n\n", b"\n: more\n\n"),
            "no blank after the colon": good.replace(b"data: ", b"data:").replace(b"event: ", b"event:"),
            "blank lines everywhere": b"\n\n\n" + good.replace(b"\n\n", b"\n\n\n\n\n"),
        }.items():
            yield stands(name, tongue, chunked(data))
        yield stands(
            "some interim answers", tongue, Answer((b"HTTP/1.1 100 Continue\r\n\r\n" * 5, *chunked(good).pieces))
        )
        flood = Answer((), endless=b"HTTP/1.1 103 Early Hints\r\nX: " + b"y" * 4096 + b"\r\n\r\n")
        yield fails("interim answers without end", tongue, "unexpected_reply", flood)
        yield again(
            "a switch of protocols",
            tongue,
            Answer((b"HTTP/1.1 101 Go\r\nUpgrade: ws\r\nConnection: upgrade\r\n\r\n",), "close"),
        )
        yield stands("the connection closes after each answer", tongue, chunked(good).then("close"))
        yield stands("a kept connection closes when it is used", tongue, chunked(good), Answer((), "close"))


def silences() -> Iterator[Row]:
    """Too slow, or slow enough."""
    for tongue in TONGUES:
        spoiled, good = stream(tongue, SPOILED, SPOILED_CALL), stream(tongue, GOOD)
        drip = [piece for event in good for piece in (0.06, chunk(event))]
        stream_head = head(200, "text/event-stream", "Transfer-Encoding: chunked")
        yield stands("a slow stream", tongue, Answer((stream_head, *drip, b"0\r\n\r\n")), idleTimeout=0.3)
        yield again("silence before the first byte", tongue, Answer((), "hang"), idleTimeout=0.15)
        yield again("silence after the head", tongue, unended(after="hang"), idleTimeout=0.15)
        yield again("silence in the middle", tongue, unended(*spoiled[:3], after="hang"), idleTimeout=0.15)
        yield again("silence longer than allowed", tongue, unended(*spoiled[:3], 0.4, *spoiled[3:]), idleTimeout=0.15)
        pings = Answer((stream_head, chunk(spoiled[0])), endless=chunk(tongue.ping()))
        yield again("signs of life and nothing else", tongue, pings, idleTimeout=0.1)
        crumbs = Answer((stream_head, chunk(spoiled[0]), chunk(b"data: ")), endless=chunk(b"x"))
        yield again("an event that never ends", tongue, crumbs, idleTimeout=0.1)


def statuses() -> Iterator[Row]:
    """Refusals."""
    final = {
        400: ("invalid_request_error", "invalid_request"),
        401: ("authentication_error", "authentication"),
        402: ("billing_error", "billing"),
        403: ("permission_error", "authentication"),
        404: ("not_found_error", "invalid_request"),
        422: ("invalid_request_error", "invalid_request"),
    }
    retried = {408: "timeout_error", 409: "conflict_error", 429: "rate_limit_error", 500: "api_error"}
    retried |= {502: "api_error", 503: "api_error", 504: "api_error", 529: "overloaded_error"}
    for tongue in TONGUES:
        for status, (kind, failure) in final.items():
            yield fails(
                f"{status}", tongue, failure, refusal(tongue, status, kind, "for a reason"), says="for a reason"
            )
        for status, kind in retried.items():
            yield again(f"{status}", tongue, refusal(tongue, status, kind))
        too_large = refusal(tongue, 413, "request_too_large", "too large")
        yield Row("413", tongue, (too_large,), 1, "", "prompt_too_long", "prompt_too_long", says="/compact")
        no_model = refusal(tongue, 404, "not_found_error", f"model: {tongue.model} not found")
        yield fails("404 for the model", tongue, "invalid_model", no_model, says=tongue.model)
        busy = refusal(tongue, 529, "overloaded_error", "busy")
        yield fails("529 again and again", tongue, "overloaded", *[busy] * 4, says="4 tries")
        cut = unended(*stream(tongue, SPOILED)[:2])
        yield fails("a stream that always breaks", tongue, "stream_broken", *[cut] * 4, says="broke off")
        yield again("one of each", tongue, busy, cut, refusal(tongue, 500, "api_error"))
        spent = refusal(tongue, 429, "rate_limit_error", "You have reached your monthly spend limit")
        yield fails("a spending limit", tongue, "billing", spent, spent, says="spend limit")
        echo = refusal(tongue, 401, "authentication_error", f"the key {KEY} is unknown")
        yield fails("the key in the error", tongue, "authentication", echo, says="the key *** is unknown")
        echo_page = plain(f"<p>Bearer {KEY}</p>".encode(), status=403, kind="text/html")
        yield fails("the key in an error page", tongue, "authentication", echo_page, says="***")
        echo_stream = chunked(tongue.error_event("authentication_error", f"key={KEY}"))
        yield fails("the key in an error event", tongue, "authentication", echo_stream, says="key=***")
        yield fails(
            "an error that is a page", tongue, "authentication", plain(b"<h1>Go away</h1>", status=401), says="Go away"
        )
        yield again("an error without a body", tongue, plain(b"", status=500))
        yield again("an error body that breaks off", tongue, plain(b"{", status=500, length=900).then("close"))
        yield again("an error body that is binary", tongue, plain(bytes(range(256)) * 20, status=502))
        elsewhere = plain(b"", "Location: http://127.0.0.1:9/v1/messages", status=307)
        yield fails("a redirect to another origin", tongue, "unexpected_reply", elsewhere, says="another origin")
        here = plain(chunk(b"".join(stream(tongue, SPOILED))), "Location: ?again=1", status=307)
        yield stands("a redirect within the origin, with a body", tongue, here, text=FINE, requests=2)
        yield fails("a redirect to nowhere", tongue, "unexpected_reply", plain(b"", "Location: http://[", status=308))
        yield fails("a redirect without a place", tongue, "unexpected_reply", plain(b"", status=302))


def waits() -> Iterator[Row]:
    """What `retry-after` says, and what it cannot say."""
    t = ANTHROPIC

    def asked(value: str, name: str = "Retry-After") -> Answer:
        return refusal(t, 429, "rate_limit_error", "slow down", f"{name}: {value}")

    past = formatdate(time.time() - 3600, usegmt=True)
    future = formatdate(time.time() + 3600, usegmt=True)
    for value in ("0", "0.01", "-5", "soon", "", "1e400", "nan", "²", "Thu, 99 Nov 2026 25:00:00 GMT", "0x10"):
        yield again(f"retry-after {value!r}", t, asked(value))
    yield again("retry-after a date an hour ago", t, asked(past))
    yield again("retry-after in milliseconds", t, asked("10", "Retry-After-Ms"))
    for value in ("86400", "61", "99999999999999999999"):
        yield fails(f"retry-after {value!r}", t, "rate_limit", asked(value), says="asks to wait")
    yield fails("retry-after a date in an hour", t, "rate_limit", asked(future), says="asks to wait")
    yield fails("a wait beyond the budget", t, "rate_limit", asked("5"), says="gave up", retryBudget=2)
    never = refusal(t, 500, "api_error", "no", "X-Should-Retry: false")
    yield fails("a server that says not to retry", t, "server", never)
    yield again(
        "a server that says to retry", t, refusal(t, 400, "invalid_request_error", "no", "X-Should-Retry: true")
    )


ROWS: Sequence[Row] = [
    *truncations(),
    *endings(),
    *structures(),
    *inputs(),
    *errors_in_streams(),
    *bodies(),
    *framings(),
    *silences(),
    *statuses(),
    *waits(),
]


# -- what is done with them


@pytest.fixture(autouse=True)
def calm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is spread out: the calm in a storm has its own tests."""

    class Calm(Gates):
        def gate(self, base_url: str, key: str) -> Gate:
            return Gate(per_second=10_000)

    monkeypatch.setattr(models, "PROCESS_GATES", Calm())


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: the corpus tries the wire, not the disk."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with TemporaryDirectory(dir=memory, prefix="tugline-test-") as name:
        yield Path(name)


class Runs:
    """How often the tools ran."""

    def __init__(self) -> None:
        self.touched: list[str] = []

    def tools(self) -> list[Any]:
        @tugline.tool(footprint="changes")
        async def touch(name: str) -> str:
            """Changes something."""
            self.touched.append(name)
            return "touched"

        @tugline.tool(footprint="reads")
        async def peek(name: str) -> str:
            """Reads something."""
            return f"{name} seen"

        return [touch, peek]


@asynccontextmanager
async def opened(
    server: FaultyServer, folder: Path, tools: Sequence[Any], **network: float
) -> AsyncIterator[tuple[tugline.Session, list[tugline.Event]]]:
    """A session at that server, and all its events."""
    heard: list[tugline.Event] = []
    async with tugline.Session(tools=tools, **options(server, folder, **network)) as session:
        session.inside.bus.attach(heard.append)
        yield session, heard


def assert_orderly(heard: Sequence[tugline.Event]) -> None:
    """The order that `protocol.events` promises."""
    assert [event.seq for event in heard] == sorted({event.seq for event in heard})
    reply = ""
    open_blocks: set[int] = set()
    for event in heard:
        match event:
            case said.ReplyBegan(reply=name):
                assert not reply, "a reply began inside another"
                reply, open_blocks = name, set()
            case said.BlockBegan(reply=name, index=index):
                assert name == reply
                assert not open_blocks, "blocks are nested"
                open_blocks.add(index)
            case said.TextDelta(reply=name, index=index) | said.InputDelta(reply=name, index=index):
                assert (name, index) == (reply, next(iter(open_blocks)))
            case said.BlockFinished(reply=name):
                assert name == reply
                open_blocks.clear()
            case said.ReplyFinished(message=message):
                assert message.reply == reply
                reply = ""
            case said.Tombstone(reply=name):
                assert name == reply
                reply = ""
            case said.TurnFinished():
                assert not reply, "a reply was left open"
            case said.Crashed():
                pytest.fail(event.traceback)
            case _:
                pass


def described(row: Row) -> str:
    return f"{row.tongue.name}: {row.name}"


@pytest.mark.parametrize("row", ROWS, ids=described)
async def test_a_faulty_provider(row: Row, folder: Path) -> None:
    runs = Runs()
    async with serving(row.tongue, *row.answers) as server:
        async with opened(server, folder, runs.tools(), **row.network) as (session, heard):
            async with asyncio.timeout(row.seconds):
                first = await session.run("Go on.")
            kind = first.failure.kind if first.failure else ""
            outcome = (len(server.raw), first.reason, kind, first.text)
            assert outcome == (row.requests, row.ending, row.failure, row.text), first.message
            assert len(runs.touched) == row.runs
            assert row.says in first.message
            assert row.result in (server.raw[-1].decode() if row.result else "")
            async with asyncio.timeout(3):
                second = await session.run("And now?")
    assert (second.reason, second.text) == ("completed", FINE)
    assert server.problems == []
    assert "And now?" in json.dumps(server.bodies[-1])
    assert SPOILED.encode() not in server.raw[-1] or row.spoiled
    assert KEY not in repr([first, second, *heard])
    assert_orderly(heard)
    assert sum(isinstance(event, said.TurnFinished) for event in heard) == 2


@pytest.mark.parametrize(("tongue", "step"), [(CHAT, 1), (ANTHROPIC, 7), (RESPONSES, 7)])
async def test_a_stream_cut_at_any_byte_counts_only_from_its_proper_end_on(
    tongue: Tongue, step: int, folder: Path
) -> None:
    events = stream(tongue, SPOILED)
    data = b"".join(events)
    rest = stop_index(tongue) + 1
    proper = len(b"".join(events[:rest] if rest else events))
    runs = Runs()
    voided = counted = 0
    for first in range(0, len(data) + 1, 50 * step):
        cuts = range(first, min(first + 50 * step, len(data) + 1), step)
        answers = [answer for at in cuts for answer in (unended(data[:at]), chunked(*stream(tongue, FINE)))]
        async with serving(tongue) as server:
            queue = iter(answers)
            server.next = lambda queue=queue: next(queue, None)
            async with opened(server, folder, runs.tools()) as (session, heard):
                for at in cuts:
                    finished = await session.run("Go on.")
                    assert finished.reason == "completed"
                    if finished.text == SPOILED:
                        assert at >= proper, f"a reply that was cut at byte {at} counts"
                        counted += 1
                        next(queue)  # the answer to the attempt that was not needed
                    else:
                        voided += 1
                        assert finished.text == FINE
                        assert at < proper, f"a whole reply cut at byte {at} is void"
        assert server.problems == []
        assert_orderly(heard)
    assert voided + counted == len(range(0, len(data) + 1, step))


@contextmanager
def memory_growth(limit: int) -> Iterator[None]:
    """The process's peak may grow by so many megabytes."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before = _peak()
    yield
    grown = (_peak() - before) // 1024
    assert grown <= limit, f"memory grew by {grown} MB"


def _peak() -> int:
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1])


def bomb(piece: bytes) -> Answer:
    """300 times this, zipped to next to nothing."""
    return Answer((head(200, "text/event-stream", "Content-Encoding: gzip"), gzip.compress(piece, 1) * 300), "close")


HUGE = {
    "a line of 40 MB": (Answer((head(), b"data: ", 40_000), "close"), 64, 2, ""),
    "an event of many lines, 40 MB in all": (Answer((head(), *(b"data: ", 900, b"\n") * 45), "close"), 64, 2, ""),
    "comments of 300 MB, zipped": (bomb(b":" + b"x" * 10**6 + b"\n"), 200, 1, "unexpected_reply"),
    "a line of 300 MB, zipped": (bomb(b"x" * 10**6), 200, 2, ""),
    "an error page of 300 MB": (Answer((head(500, "text/html"), 300_000), "close"), 64, 2, ""),
    "a head of 40 MB": (Answer((b"HTTP/1.1 200 OK\r\nX: ", 40_000), "close"), 64, 1, "unexpected_reply"),
}


@pytest.mark.parametrize("name", HUGE)
async def test_what_is_huge_costs_little_memory(name: str, folder: Path) -> None:
    answer, limit, requests, failure = HUGE[name]
    async with serving(ANTHROPIC, answer) as server:
        async with opened(server, folder, ()) as (session, heard):
            with memory_growth(limit):
                async with asyncio.timeout(5):
                    finished = await session.run("Go on.")
            assert (len(server.raw), finished.failure.kind if finished.failure else "") == (requests, failure)
            assert (await session.run("And now?")).text == FINE
    assert_orderly(heard)


@pytest.mark.parametrize("whole", [True, False])
async def test_an_input_of_30_megabytes_takes_no_longer_than_its_size(whole: bool, folder: Path) -> None:
    text = '{"name": "' + "x" * 30_000_000 + ('"}' if whole else "")
    opening, _, closing = ANTHROPIC.part(0, Call())
    pieces = [text[start : start + 300] for start in range(0, len(text), 300)]
    deltas = [
        ANTHROPIC.event("content_block_delta", index=0, delta={"type": "input_json_delta", "partial_json": piece})
        for piece in pieces
    ]
    end = ANTHROPIC.end((Call(),))
    runs = Runs()
    async with serving(ANTHROPIC, chunked(*ANTHROPIC.start(), opening, *deltas, closing, *end)) as server:
        async with opened(server, folder, runs.tools()) as (session, heard):
            finished = await session.run("Go on.")
    assert finished.text == FINE
    assert [len(name) for name in runs.touched] == ([30_000_000] if whole else [])
    assert server.problems == []
    assert_orderly(heard)


async def test_a_model_that_calls_unknown_tools_with_broken_input_a_hundred_times_is_answered_each_time(
    folder: Path,
) -> None:
    answers = [chunked(*stream(CHAT, GOOD, Call('{"nam', id=f"call_{n}", name="tuoch"))) for n in range(100)]
    runs = Runs()
    async with serving(CHAT, *answers) as server:
        async with opened(server, folder, runs.tools()) as (session, heard):
            async with asyncio.timeout(5):
                finished = await session.run("Go on.")
    assert (finished.reason, finished.text, finished.steps) == ("completed", FINE, 101)
    assert server.raw[-1].count(b"Did you mean touch?") == 100
    assert (server.problems, runs.touched) == ([], [])
    assert_orderly(heard)


def test_the_corpus_is_large_enough() -> None:
    assert len(ROWS) >= 120
    assert len({described(row) for row in ROWS}) == len(ROWS)
