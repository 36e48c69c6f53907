"""Instruction files at the command: what is told on stderr, and what `tugline config context` lists."""

import json
import os
from collections.abc import Awaitable, Callable

from command import Desk

from tugline.testing import ModelServer, call, reply

pytest_plugins = ["wire_desk"]

Serve = Callable[..., Awaitable[ModelServer]]


def lay(desk: Desk) -> None:
    """A project with one of each kind."""
    for name, text in {
        "AGENTS.md": "Use tabs. See @docs/style.md and @gone.md.",
        "CLAUDE.md": "@AGENTS.md",
        "docs/style.md": "Style.",
        "pkg/AGENTS.md": "pkg",
        "pkg/a.txt": "alpha",
        ".claude/rules/ts.md": "---\npaths: '*.ts'\n---\nNo any.",
    }.items():
        path = desk.cwd / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    os.mkfifo(desk.cwd / "AGENTS.local.md")


async def test_a_run_tells_the_model_and_says_what_is_left_out(desk: Desk, serve: Serve) -> None:
    lay(desk)
    server = await serve([reply(call("Read", file_path="pkg/a.txt")), reply("Done.")])
    ended = await desk.run("-p", "Go", "--output-format", "stream-json")
    assert ended.code == 0
    assert ended.err.splitlines() == [
        f"tugline: warning: Instructions: {desk.cwd}/AGENTS.local.md is left out: "
        "it is a named pipe, not a regular file.",
        "tugline: warning: This folder is not trusted: 2 imports of its instructions, such as "
        f"{desk.cwd}/docs/style.md, are left out. To trust it: tugline trust",
    ]
    assert "instruction-file" not in ended.out, "it is not for the person"
    first, second = (json.dumps(request.body["messages"]) for request in server.requests)
    assert ("Use tabs." in first, "pkg/AGENTS.md" in first, "pkg/AGENTS.md" in second) == (True, False, True)
    said = [record["message"] for record in desk.transcripts()[0] if record["kind"] == "said"]
    assert [message.get("source", "person") for message in said if message["role"] == "user"] == [
        "context", "person", "results", "context",
    ]  # fmt: skip


async def test_bare_reads_none(desk: Desk, serve: Serve) -> None:
    lay(desk)
    server = await serve([reply(call("Read", file_path="pkg/a.txt")), reply("Done.")])
    ended = await desk.run("-p", "Go", "--bare")
    assert (ended.code, ended.err) == (0, "")
    assert "instruction-file" not in json.dumps(server.requests[1].body)


async def test_config_context_lists_what_is_loaded_and_what_is_not(desk: Desk) -> None:
    lay(desk)
    shown = await desk.run("config", "context", "--trust")
    assert (shown.code, shown.err) == (0, "")
    lines = [" ".join(line.replace(f"{desk.cwd}/", "").split()) for line in shown.out.splitlines()]
    assert lines == [
        "Loaded at the start, about 16 tokens of 25,000:",
        "AGENTS.md 11 project",
        "docs/style.md 2 imported by AGENTS.md",
        "CLAUDE.md 3 project",
        "",
        "Loaded when something in their folder is touched:",
        "pkg/AGENTS.md 1 project",
        "",
        "Loaded when one of their files is touched:",
        f".claude/rules/ts.md 2 project, for *.ts in {desk.cwd}",
        "",
        "Left out:",
        "gone.md there is no such file (imported by AGENTS.md)",
        "AGENTS.md it is loaded already (imported by CLAUDE.md)",
        "AGENTS.local.md it is a named pipe, not a regular file",
    ]
    plain = json.loads((await desk.run("config", "context", "--trust", "--json")).out)
    assert (plain["enabled"], plain["tokens"], plain["limit"]) == (True, 16, 25_000)
    assert [one["why"] for one in plain["loaded"]] == ["file", "import", "file"]
    assert [one["globs"] for one in plain["rules"]] == [["*.ts"]]
    assert [os.path.basename(one["path"]) for one in plain["later"]] == ["AGENTS.md"]
    assert len(plain["left_out"]) == 3


async def test_config_context_says_when_there_is_nothing_or_it_is_off(desk: Desk) -> None:
    assert (await desk.run("config", "context")).out == "There are no files of instructions here.\n"
    assert (await desk.run("config", "context", "--bare")).out == "Files of instructions are switched off.\n"
    off = await desk.run("config", "context", "--json", "--settings", '{"context": {"instructions": false}}')
    assert json.loads(off.out) == {"enabled": False}
    assert (await desk.run("config", "context", "words")).code == 2


async def test_names_of_files_cannot_disturb_the_terminal(desk: Desk) -> None:
    folder = desk.cwd / ".claude/rules"
    folder.mkdir(parents=True)
    (folder / "a\x1b[2J\nb.md").write_text("x")
    (folder / "c\nd.md").write_bytes(b"\0")
    with open(os.fsencode(folder) + b"/\xff.md", "wb") as file:
        file.write(b"x")
    for words in (["config", "context"], ["config", "context", "--json"]):
        shown = await desk.run(*words)
        assert (shown.code, shown.err) == (0, "")
        assert "\x1b" not in shown.out
        assert "its path is not UTF-8 text" in shown.out
    assert len((await desk.run("config", "context")).out.splitlines()) == 6


async def test_a_project_cannot_permit_itself_imports_from_outside(desk: Desk) -> None:
    (desk.folder / "secret.md").write_text("secret")
    (desk.cwd / "AGENTS.md").write_text("@../secret.md")
    (desk.cwd / ".tugline").mkdir()
    (desk.cwd / ".tugline/settings.json").write_text(json.dumps({"context": {"externalImports": [str(desk.folder)]}}))
    shown = await desk.run("config", "context", "--trust", "--json")
    assert [os.path.basename(one["path"]) for one in json.loads(shown.out)["loaded"]] == ["AGENTS.md"]
    own = json.dumps({"context": {"externalImports": [str(desk.folder)]}})
    allowed = await desk.run("config", "context", "--trust", "--json", "--settings", own)
    assert [os.path.basename(one["path"]) for one in json.loads(allowed.out)["loaded"]] == ["AGENTS.md", "secret.md"]
