"""The log of --debug."""

import json
from pathlib import Path

from tugline.observe.debug_log import DebugLog
from tugline.protocol.events import Notice, Origin, TextDelta
from tugline.protocol.ids import AgentId, ReplyId, SessionId
from tugline.rules.masking import secrets_of

ORIGIN = Origin(SessionId("s"), AgentId("main"))


def note(text: str, seq: int = 1) -> Notice:
    return Notice(seq=seq, origin=ORIGIN, level="info", text=text)


def events(path: Path) -> list[dict[str, object]]:
    return [json.loads(line)["event"] for line in path.read_text().splitlines()]


def test_events_and_notes_are_lines_in_a_private_file(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "debug.log"
    log = DebugLog(str(path))
    log.hear(note("hello \ud83d"))
    log.hear(TextDelta(seq=2, origin=ORIGIN, reply=ReplyId("r"), index=0, text="left out"))
    log.note("Traceback …")
    log.close()
    log.hear(note("after the end"))
    assert len(events(path)) == 2
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_secrets_are_masked(tmp_path: Path) -> None:
    path = tmp_path / "debug.log"
    environ = {"MY_TOKEN": 'with"quote-secret', "HOME": "/home/somebody", "SHORT_KEY": "abc"}
    log = DebugLog(str(path), secrets=secrets_of(environ))
    log.note('a with"quote-secret b sk-ant-REDACTED c /home/somebody abc')
    log.close()
    text = path.read_text()
    assert "quote-secret" not in text
    assert "api03" not in text
    assert "/home/somebody abc" in text


def test_files_follow_each_other_and_the_oldest_goes(tmp_path: Path) -> None:
    path = tmp_path / "debug.log"
    log = DebugLog(str(path), limit=2_000, kept=2)
    for number in range(60):
        log.hear(note("x" * 200, number))
    log.close()
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["debug.log", "debug.log.1", "debug.log.2"]
    assert all(file.stat().st_size <= 2_000 and file.stat().st_mode & 0o777 == 0o600 for file in files)
    assert events(path)[-1]["seq"] == 59


def test_a_long_event_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "debug.log"
    log = DebugLog(str(path))
    log.hear(note("x" * 500_000))
    log.close()
    (event,) = events(path)
    assert event["type"] == "cut"
    assert path.stat().st_size < 100_000


def test_a_log_that_cannot_be_written_says_so_and_stays_quiet(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    log = DebugLog(str(tmp_path / "file" / "debug.log"))
    log.hear(note("x"))
    assert "cannot be written" in log.problem


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "debug.log").symlink_to(tmp_path / "target")
    log = DebugLog(str(tmp_path / "debug.log"))
    log.hear(note("x"))
    assert log.problem
    assert not (tmp_path / "target").exists()
