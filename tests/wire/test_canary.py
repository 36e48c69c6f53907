"""A canary in every place that may hold a secret, and every place that is written or shown searched for it."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path

from command import Desk
from hypothesis import given
from hypothesis import strategies as st

from tugline.protocol.codec import encode
from tugline.rules.masking import MaskSet, mask, secrets_of
from tugline.testing import ModelServer, call, fail, reply

pytest_plugins = ["wire_desk"]

Serve = Callable[..., Awaitable[ModelServer]]

KEY, HEADER, TOKEN, PASSWORD, GIVEN = (f"canary{number}x0123456789" for number in range(5))
CANARIES = (KEY, HEADER, TOKEN, PASSWORD, GIVEN)

SETTINGS = json.dumps({"providers": {"anthropic": {"headers": {"X-Company": HEADER}}}, "env": {"DEPLOY_TOKEN": GIVEN}})


def secrets(desk: Desk) -> None:
    desk.environ |= {
        "ANTHROPIC_API_KEY": KEY,
        "SOME_TOKEN": TOKEN,
        "HTTP_PROXY": f"http://user:{PASSWORD}@127.0.0.1:9",
        "NO_PROXY": "127.0.0.1",
    }


def written(desk: Desk, *names: str) -> str:
    """All that stands in files below the state folder whose path has one of these names in it."""
    files = [path for path in (desk.folder / "state").rglob("*") if path.is_file()]
    return "".join(path.read_text(errors="replace") for path in files if any(name in str(path) for name in names))


async def test_a_refusal_that_echoes_the_key_shows_it_nowhere(desk: Desk, serve: Serve) -> None:
    echo = f"invalid x-api-key: {KEY}, x-company: {HEADER}"
    server = await serve([fail(401, echo), fail(401, echo)])
    secrets(desk)
    for form in ("text", "json", "stream-json"):
        server = await serve([fail(401, echo)])
        secrets(desk)
        ended = await desk.run("-p", "Go", "--debug", "--verbose", "--output-format", form, "--settings", SETTINGS)
        assert server.requests[0].headers["x-api-key"] == KEY
        shown = ended.out + ended.err
        assert "invalid x-api-key" in shown
        assert [canary for canary in CANARIES if canary in shown] == []
    assert [canary for canary in CANARIES if canary in written(desk, "")] == []


async def test_commands_do_not_see_keys_and_logs_do_not_hold_what_they_print(desk: Desk, serve: Serve) -> None:
    server = await serve([reply(call("Bash", command="env; false")), reply("Done.")])
    secrets(desk)
    await desk.run("-p", "Go", "--debug", "--allowed-tools", "Bash", "--settings", SETTINGS)
    told = str(server.requests[-1].body)
    # what the person gave to commands they have; what was ours they have not
    assert [canary for canary in CANARIES if canary in told] == [PASSWORD, GIVEN]
    log = written(desk, "debug.log")
    assert "call_finished" in log
    assert [canary for canary in CANARIES if canary in log] == []


async def test_a_proxy_that_cannot_be_reached_is_named_without_its_password(desk: Desk, serve: Serve) -> None:
    await serve([reply("Hello.")])
    secrets(desk)
    del desk.environ["NO_PROXY"]
    ended = await desk.run("-p", "Go", "--debug")
    assert "proxy" in ended.err
    assert PASSWORD not in ended.out + ended.err + written(desk, "")


async def test_settings_and_doctor_show_none(desk: Desk, serve: Serve) -> None:
    await serve([])
    secrets(desk)
    for words in (("config", "show", "--origin"), ("config", "show", "--json"), ("doctor",), ("doctor", "--json")):
        ended = await desk.run(*words, "--settings", SETTINGS, limit=60)
        assert [canary for canary in CANARIES if canary in ended.out + ended.err and canary != HEADER] == [], words


async def test_no_key_stands_in_the_list_of_processes(desk: Desk, serve: Serve) -> None:
    mark = desk.cwd / "listed"
    server = await serve([reply(call("Bash", command=f"ps -eo args > {mark}")), reply("Done.")])
    secrets(desk)
    await desk.run("-p", "Go", "--allowed-tools", "Bash")
    assert len(server.requests) == 2
    listed = Path(mark).read_text()
    assert "tugline" in listed
    assert [canary for canary in CANARIES if canary in listed] == []


@given(st.lists(st.text(min_size=8, max_size=20), max_size=4), st.text(max_size=20), st.text(max_size=20))
def test_whatever_a_secret_looks_like_it_does_not_pass(values: list[str], before: str, after: str) -> None:
    known = MaskSet(values)
    for value in values:
        for form in (value.encode(), encode(value)[1:-1]):
            assert form not in known.data(before.encode() + form + after.encode()) or form in b"***"


def test_values_are_found_by_name_and_by_look() -> None:
    named = {"A_TOKEN": "t" * 9, "HTTPS_PROXY": "http://u:p%40ssword@host", "PLAIN": "seen", "URL": "https://host/a@b"}
    assert secrets_of(named) == ("p%40ssword", "t" * 9, "p@ssword")
    text = "see http://u:hunter22@host/ and https://host/a:b@c"
    assert mask(text) == "see http://***@host/ and https://host/a:b@c"
