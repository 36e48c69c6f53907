"""The manual keeps its promises: examples run as they stand, tables agree with the code, links lead somewhere."""

import json
import os
import re
import subprocess
import sys
import tomllib
from hashlib import sha256
from pathlib import Path
from typing import Any, get_args, get_type_hints

import anyio.to_thread
import manual
import manual_permissions
import msgspec
import pytest

import tugline
from tugline.app.briefing import MANAGED_INSTRUCTIONS
from tugline.config.settings import Settings
from tugline.context.gathering import READ_LIMIT
from tugline.options import Options
from tugline.protocol import (
    blocks,
    errors,
    events,
    instructions,
    messages,
    permissions,
    records,
    specs,
    tasks,
    trust,
    usage,
)
from tugline.protocol.codec import decode_record, encode
from tugline.rules import paths, shell_commands, shell_tables
from tugline.rules.instructions import HOPS, RULES, file_matcher, groups
from tugline.rules.rule import parse_rule
from tugline.testing import Match, ModelServer, Script, ScriptedProvider, Step, call, cut, gate, lane, reply
from tugline.tools.define import RESULT_LIMIT
from tugline.tools.toolset import Toolset

LIBRARY = manual.page("how-to/use-the-library.md")
LONG = manual.page("how-to/long-sessions.md")
GO_BACK = manual.page("how-to/go-back.md")
EVENTS = manual.page("reference/events.md")
CLONED = manual.page("how-to/open-a-cloned-repository.md")
PLAN = manual.page("how-to/plan-first.md")
TRANSCRIPT = manual.page("reference/transcript.md")
TOOLS = manual.page("reference/tools.md")
PERMISSIONS = manual.page("reference/permissions.md")
INSTRUCTIONS = manual.page("reference/instructions.md")

# -- examples

CART = "def total(a, b):\n    return a - b\n"

SCRIPTS: dict[str, tuple[str, Script | list[Step], str]] = {
    "ask once": (
        LIBRARY,
        [reply(call("Read", file_path="cart.py")), reply("It subtracts.")],
        "It subtracts.\ncompleted after 2 steps\n",
    ),
    "conversation": (
        LIBRARY,
        [reply("It subtracts."), reply("With 2 and 3.")],
        "It subtracts.\nWith 2 and 3.\n$0.0",
    ),
    "watch": (
        LIBRARY,
        [
            reply("I se", cut()),
            reply("I search.", call("Grep", pattern="total"), call("Read", file_path="shop.py")),
            reply("In cart.py."),
        ],
        "I se(the connection broke; the model begins anew)\nI search.",
    ),
    "tools": (
        LIBRARY,
        [
            reply(call("stock", article="17"), call("stock", article="A-17", warehouse="south")),
            reply(call("order", article="A-17", pieces=5), expect=Match(result="numbers begin with A-")),
            reply("Five are ordered.", expect=Match(result="Ordered 5 of A-17", is_error=False)),
        ],
        "Five are ordered.\n",
    ),
    "result": (
        LIBRARY,
        [reply(call("check", path="cart.py")), reply("None.", expect=Match(result="cart.py has 0 tabs."))],
        "Check cart.py\n0 tabs\nNone.\n",
    ),
    "hooks": (
        LIBRARY,
        [
            reply(call("Bash", command="deploy production")),
            reply("Nothing was deployed.", expect=Match(result="production is not to be touched", is_error=True)),
        ],
        "Nothing was deployed.\n",
    ),
    "permission": (
        LIBRARY,
        [
            reply(call("Read", file_path="cart.py")),
            reply(call("Edit", file_path="cart.py", old_string="a - b", new_string="a + b")),
            reply(call("Bash", command="touch committed")),
            reply(call("Bash", command="git push")),
            reply("Committed, not pushed.", expect=Match(result="Nobody pushes on a Friday", is_error=True)),
        ],
        "May it? git push (no rule allows git push)\nCommitted, not pushed.\ndenied: {'command': 'git push'}\n",
    ),
    "inquiry": (
        LIBRARY,
        [
            reply(
                call(
                    "AskUserQuestion",
                    questions=[{"question": "Which one?", "options": [{"label": "SQLite"}, {"label": "Postgres"}]}],
                )
            ),
            reply("SQLite it is.", expect=Match(result="Answer: SQLite")),
        ],
        "Which one? ['SQLite', 'Postgres']\nSQLite it is.\n",
    ),
    "steering": (
        LIBRARY,
        [
            reply(call("Bash", command="ls")),
            reply("cart.py.", expect=Match(user="Leave the tests out.")),
            reply("Once a dragon", gate("never"), "lived."),
            reply("A dragon lived.", expect=Match(user="Make it shorter.", model="claude-haiku-4-5")),
        ],
        "cart.py.\ninterrupted\nA dragon lived.\n",
    ),
    "many": (
        LIBRARY,
        Script(lanes={"any": lane(Match(), [reply("An answer.")], each=True)}),
        "An answer.\nAn answer.\nAn answer.\n",
    ),
    "sessions": (LIBRARY, [reply("It adds up.")], "person What is in the cart, and its total?\n1 It adds up.\n"),
    "errors": (LIBRARY, [], "/no/such/folder is not a folder.\n"),
    "provider": (LIBRARY, [], "Who is a good bird?\n"),
    "long sessions": (
        LONG,
        [
            reply(call("Read", file_path="cart.py")),
            reply("It subtracts. " * 2_000),
            reply("<summary>cart.py has total(a, b), which subtracts.</summary>"),
            reply("total", expect=Match(last="which subtracts")),
        ],
        "summary smaller\ntotal\n",
    ),
    "go back": (
        GO_BACK,
        [
            reply(call("Read", file_path="cart.py")),
            reply(call("Edit", file_path="cart.py", old_string="total", new_string="add_up")),
            reply("It is add_up now."),
        ],
        "restore cart.py \nBack to before: Rename the function total in cart.py to add_up.\n",
    ),
    "events": (
        EVENTS,
        [reply("I look. ", call("Read", file_path="cart.py")), reply("It subtracts.")],
        "I look. Read: ",
    ),
    "trust": (CLONED, [], "()\n"),
    "plan": (
        PLAN,
        [reply(call("ExitPlanMode", plan="Split it, run the tests.")), reply("Done.")],
        "Split it, run the tests.\nDone.\n",
    ),
    "instructions": (INSTRUCTIONS, [reply("Cents.")], "started project AGENTS.md 5\n"),
    "transcript": (TRANSCRIPT, [reply("It subtracts.")], "user said: What is it?\nassistant said: It subtracts.\n"),
}
STATUS = {"errors": 2}
READ = {"transcript": "What is it?", "sessions": "What is in the cart, and its total?"}
"""Prompts of sessions that examples read."""


def sources(text: str) -> list[tuple[str, str]]:
    names = [name for name, (page, *_) in SCRIPTS.items() if page is text]
    return list(zip(names, manual.blocks(text, "python"), strict=True))


@pytest.mark.parametrize(
    ("name", "source"),
    [pair for page in dict.fromkeys(page for page, *_ in SCRIPTS.values()) for pair in sources(page)],
)
async def test_an_example_runs_as_it_stands(name: str, source: str, tmp_path: Path) -> None:
    _, script, expected = SCRIPTS[name]
    project = tmp_path / "project"
    project.mkdir()
    (project / "cart.py").write_text(CART)
    async with ModelServer(script) as server:
        environ = {
            **os.environ,
            "ANTHROPIC_BASE_URL": server.url,
            "ANTHROPIC_API_KEY": "scripted",
            "TUGLINE_HOME": str(tmp_path / "home"),
            "TUGLINE_NETWORK_RETRY_BASE": "0.001",
            "PYTHONWARNINGS": "error",
        }
        if name in READ:
            # it needs a session to read
            given: dict[str, Any] = {"base_url": server.url, "api_key": "x", "cwd": str(project), "environ": environ}
            async with tugline.Session(**given) as session:
                await session.run(READ[name])
        command = [sys.executable, "-c", source]

        def run() -> "subprocess.CompletedProcess[str]":
            return subprocess.run(command, capture_output=True, text=True, env=environ, cwd=project, timeout=60)

        done = await anyio.to_thread.run_sync(run)
    assert (done.returncode, done.stderr) == (STATUS.get(name, 0), "")
    assert expected in done.stdout


async def test_what_the_example_of_permissions_allows_is_done(tmp_path: Path) -> None:
    names: dict[str, Any] = {"__name__": "example"}
    source = dict(sources(LIBRARY))["permission"].replace("asyncio.run(main())", "")
    exec(compile(source, "use-the-library.md", "exec", dont_inherit=True), names)
    (tmp_path / "cart.py").write_text(CART)
    async with ModelServer(SCRIPTS["permission"][1]) as server:
        environ = {"TUGLINE_HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"]}
        given: dict[str, Any] = {"base_url": server.url, "api_key": "x", "cwd": str(tmp_path), "environ": environ}
        async with tugline.Session(permission=names["permission"], **given) as session:
            await session.run("Go")
    assert "a + b" in (tmp_path / "cart.py").read_text()
    assert (tmp_path / "committed").exists()


async def test_a_yes_for_always_is_saved_where_the_manual_says(tmp_path: Path) -> None:
    @tugline.tool
    def publish() -> str:
        """Publish."""
        return "out"

    place = ".tugline/settings.local.json"
    assert f"`{place}`" in LIBRARY
    assert f"`{place}`" in PERMISSIONS
    project = tmp_path / "project"
    project.mkdir()
    asked: list[str] = []

    def permission(question: tugline.PermissionQuestion) -> tugline.Allow:
        asked.append(question.tool)
        return tugline.Allow(remember="always", rules=question.suggestions)

    for _ in range(2):
        model = ScriptedProvider([reply(call("publish")), reply("done")])
        environ = {"TUGLINE_HOME": str(tmp_path / "home")}
        given: dict[str, Any] = {
            "provider": model,
            "model": "m",
            "cwd": str(project),
            "environ": environ,
            "trust": True,
        }
        async with tugline.Session(tools=[publish], permission=permission, **given) as session:
            await session.run("Go")
    assert json.loads((project / place).read_text()) == {"permissions": {"allow": ["publish"]}}
    assert asked == ["publish"]


# -- names and options


def test_every_option_is_in_the_table_and_no_other() -> None:
    (options,) = manual.tables(manual.sections(LIBRARY, 2)["Options"])
    named = [name for row in options for name in manual.codes(row[0])]
    assert sorted(named) == sorted([*Options.__struct_fields__, "permission", "inquiry", "plan"])


def test_the_manual_names_every_public_name() -> None:
    named = set(re.findall(r"\b\w+\b", LIBRARY + EVENTS))
    assert [name for name in tugline.__all__ if name not in named] == []


def test_the_manual_uses_no_name_that_does_not_exist() -> None:
    for page in manual.DOCS.rglob("*.md"):
        for name in re.findall(r"\btugline\.([A-Z]\w+)", page.read_text()):
            assert hasattr(tugline, name), f"{page.name}: tugline.{name}"


# -- events

HEADED = ("seq", "origin")
PARTS = (
    events.Origin,
    *get_args(blocks.Block),
    *get_args(messages.Message),
    usage.Usage,
    usage.Spend,
    errors.Failure,
    permissions.PermissionQuestion,
    permissions.PlanQuestion,
    permissions.UserQuestion,
    permissions.Inquiry,
    permissions.Option,
    trust.TrustQuestion,
    trust.TrustItem,
    instructions.LoadedFile,
    specs.Display,
    specs.FileStep,
    specs.Progress,
    tasks.Task,
)


def fields(kind: Any, without: tuple[str, ...] = ()) -> list[list[str]]:
    hints = get_type_hints(kind)
    names = [field.name for field in msgspec.structs.fields(kind) if field.name not in without]
    return [[f"`{name}`", manual.type_words(hints[name])] for name in names]


@pytest.mark.parametrize("kind", [*get_args(events.AnyEvent), *PARTS], ids=lambda kind: str(kind.__name__))
def test_an_event_or_part_of_one_is_described_with_each_field(kind: Any) -> None:
    section = manual.sections(EVENTS, 3)[kind.__name__]
    tag = kind.__struct_config__.tag
    assert tag is None or section.strip().startswith(f"`{tag}`. ")
    (table,) = manual.tables(section)
    assert [row[:2] for row in table] == fields(kind, HEADED if kind in get_args(events.AnyEvent) else ())
    assert all(row[2] for row in table)


def test_nothing_is_described_that_is_no_event() -> None:
    known = {kind.__name__ for kind in (*get_args(events.AnyEvent), *PARTS)}
    assert set(manual.sections(EVENTS, 3)) == {*known, "How a turn ends"}


def test_every_ending_of_a_turn_is_explained() -> None:
    (table,) = manual.tables(manual.sections(EVENTS, 3)["How a turn ends"])
    assert sorted(row[0].strip("`") for row in table) == sorted(get_args(events.EndReason))


# -- tools


async def test_every_tool_is_described_with_each_parameter(tmp_path: Path) -> None:
    environ = {"TUGLINE_HOME": str(tmp_path)}
    async with tugline.Session(provider=ScriptedProvider([]), model="m", cwd=str(tmp_path), environ=environ) as session:
        known = session.inside.agent.gear.tools
        assert isinstance(known, Toolset)
        tools = list(known)
    described = manual.sections(TOOLS, 2)
    assert sorted(described) == sorted(tool.name for tool in tools)
    for tool in tools:
        section = described[tool.name]
        (table,) = manual.tables(section)
        assert table == manual.parameter_rows(tool.spec.input_schema), tool.name
        assert ("An interrupt lets it finish" in section) == (tool.interrupt == "block"), tool.name
        assert (f"Result: {tool.result_limit:,} characters" in section) == (tool.result_limit != RESULT_LIMIT)


# -- instruction files


def test_the_globs_of_rules_name_what_the_page_says() -> None:
    (table,) = manual.tables(manual.sections(INSTRUCTIONS, 2)["Rules"])
    for glob, named, others in table:
        test = file_matcher(tuple(manual.codes(glob)))
        assert [(path, test(path)) for path in manual.codes(named)] == [(path, True) for path in manual.codes(named)]
        assert [(path, test(path)) for path in manual.codes(others)] == [(path, False) for path in manual.codes(others)]


def test_the_page_on_instruction_files_names_what_is_read_and_how_much() -> None:
    named = set(manual.codes(INSTRUCTIONS))
    files = [name for group in groups(Settings().context.file_names) for name in group]
    assert {*files, *(f"{folder}/" for folder in RULES)} <= named
    assert {
        f"{folder}/{name}" for (folder, _), name in zip(MANAGED_INSTRUCTIONS, ("AGENTS.md", "CLAUDE.md"), strict=True)
    } <= named
    for number in (Settings().context.file_tokens, Settings().context.total_tokens, READ_LIMIT):
        assert f"{number:,}" in INSTRUCTIONS
    assert f"Imports nest {HOPS} deep" in INSTRUCTIONS


# -- transcripts

RECORD = ("n", "time")


@pytest.mark.parametrize("kind", get_args(records.AnyRecord), ids=lambda kind: str(kind.__name__))
def test_a_record_is_described_with_each_field_and_an_example(kind: Any) -> None:
    tag = kind.__struct_config__.tag
    text = re.split(rf"^### `{tag}`$", TRANSCRIPT, flags=re.M)[1].split("\n##", 1)[0]
    (table,) = manual.tables(text)
    assert [row[:2] for row in table] == fields(kind, RECORD)
    lines = "".join(manual.blocks(text, "json")).splitlines()
    assert lines
    for line in lines:
        record = decode_record(line.encode())
        assert isinstance(record, kind)
        assert encode(record).decode() == line, "no field of it is unknown or out of place"


NESTED = (
    specs.Surroundings,
    *get_args(specs.Change),
    specs.FileSeen,
    specs.Todo,
    records.FileChange,
    records.FileState,
    records.Standing,
    records.Stub,
)


@pytest.mark.parametrize("kind", NESTED, ids=lambda kind: str(kind.__name__))
def test_a_part_of_a_record_is_described_with_each_field(kind: Any) -> None:
    section = manual.sections(TRANSCRIPT, 3)[kind.__name__]
    tag = kind.__struct_config__.tag
    assert tag is None or section.strip().startswith(f"`{tag}`. ")
    (table,) = manual.tables(section)
    assert [row[:2] for row in table] == fields(kind)
    assert all(row[2] for row in table)


def test_nothing_is_described_that_is_in_no_record() -> None:
    tags = {kind.__struct_config__.tag for kind in get_args(records.AnyRecord)}
    assert set(manual.sections(TRANSCRIPT, 3)) == {*tags, *(kind.__name__ for kind in NESTED)}


def test_the_fields_of_all_records_and_the_version_are_described() -> None:
    table = manual.tables(manual.sections(TRANSCRIPT, 2)["Records"])[0]
    assert [row[:2] for row in table] == fields(records.Record)
    assert f"`format`, now {records.FORMAT}." in TRANSCRIPT


async def test_a_real_transcript_is_as_described(tmp_path: Path) -> None:
    project = tmp_path / "my project"
    project.mkdir()
    (project / "cart.py").write_text(CART)
    environ = {
        "TUGLINE_HOME": str(tmp_path / "home"),
        "TUGLINE_NETWORK_RETRY_BASE": "0.001",
        "PATH": os.environ["PATH"],
    }
    script = [
        reply("I look.", call("Read", file_path="cart.py"), gate("read"), cut()),
        reply(call("Read", file_path="cart.py"), call("Bash", command="seq 20000")),
        reply("It subtracts."),
    ]
    async with ModelServer(script) as server:
        given: dict[str, Any] = {"base_url": server.url, "api_key": "secret", "cwd": str(project), "environ": environ}
        async with tugline.Session(session_id="mine", **given) as session:
            async with session.stream("What is wrong?") as told:
                async for event in told:
                    if isinstance(event, tugline.CallFinished):
                        server.open("read")
                        # what is sent meanwhile waits, and is taken back
                        session.inside.withdraw(session.inside.prompt("Is it?"))
            (prompt,) = await session.inside.prompts()
            session.inside.rename("A name")
            await session.inside.rewind(prompt.id)
            assert session.inside.opening is not None
            path = Path(session.inside.opening.transcript)
        async with tugline.Session(continue_session=True, **given) as session:
            assert session.inside.opening is not None
            assert (session.inside.opening.transcript, session.inside.opening.resumed) == (str(path), True)
    root = os.path.realpath(project)
    name = re.sub(r"[^A-Za-z0-9]", "-", root)[-100:].strip("-") + "-" + sha256(root.encode()).hexdigest()[:10]
    assert path == tmp_path / "home/data/sessions" / name / "mine.jsonl"
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["n"] for line in lines] == list(range(1, len(lines) + 1))
    documented = {heading: manual.codes(body) for heading, body in manual.sections(TRANSCRIPT, 3).items()}
    made_elsewhere = {
        "task_released",
        "task_ended",
        "task_told",
        "forked",
        "files_changed",
        "compacted",
        "uncompacted",
        "trimmed",
        "folded",
        "unfolded",
    }
    kinds = {kind.__struct_config__.tag for kind in get_args(records.AnyRecord)}
    assert kinds - made_elsewhere <= {line["kind"] for line in lines} <= kinds
    for line in lines:
        assert set(line) - {"kind", *RECORD} <= set(documented[line["kind"]])
    kept = path.with_suffix("")
    assert kept.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in kept.iterdir()} == {0o600}
    said = [line["message"] for line in lines if line["kind"] == "said"]
    parents = [line.get("parent") for line in lines if line["kind"] == "said"]
    assert parents == [None, *(message["id"] for message in said[:-1])]


# -- permissions


def permission_rows() -> list[tuple[str, str, list[str]]]:
    part = PERMISSIONS.split("## Examples", 1)[1]
    return [
        (rules.replace("`", ""), call_text.strip("`"), verdicts)
        for table in manual.tables(part)
        for rules, call_text, *verdicts in table
    ]


@pytest.mark.parametrize(("rules", "call_text", "expected"), permission_rows())
def test_an_example_of_permissions_is_decided_as_it_says(rules: str, call_text: str, expected: list[str]) -> None:
    found = [manual_permissions.verdict(rules, call_text, mode) for mode in manual_permissions.MODES]
    assert found == expected


def test_there_are_examples_for_each_kind_of_rule_and_outcome() -> None:
    rows = permission_rows()
    assert {verdict for _, _, verdicts in rows for verdict in verdicts} == {"runs", "asks", "denied"}
    text = " ".join(rules for rules, _, _ in rows)
    assert all(f"{kind} " in text for kind in ("allow", "ask", "deny"))


def test_every_mode_is_explained() -> None:
    (table,) = manual.tables(manual.sections(PERMISSIONS, 2)["Modes"])
    assert sorted(row[0].strip("`") for row in table) == sorted(get_args(specs.Mode))
    automatic = [manual_permissions.verdict(rules, text, "auto") for rules, text, _ in permission_rows()]
    assert automatic == [verdicts[0] for _, _, verdicts in permission_rows()], "auto is as default"


def test_every_rule_of_the_page_can_be_parsed() -> None:
    for row in manual.tables(manual.sections(PERMISSIONS, 2)["Rules"])[0]:
        for text in manual.codes(row[0]):
            parse_rule(text, "deny")
    (table,) = manual.tables(manual.sections(PERMISSIONS, 3)["Paths"])
    for row in table:
        assert parse_rule(f"Edit({row[0].strip('`')})", "allow").path is not None


def test_the_commands_that_only_read_are_all_named() -> None:
    named = set(manual.codes(manual.sections(PERMISSIONS, 2)["What only reads"]))
    tables = {name.removeprefix("git ") for name in shell_tables.every_table()}
    wanted = {*tables, *shell_commands._SPECIAL} - {"git", "gawk", "mawk"}
    assert wanted - named == set()


def test_the_protected_places_are_all_named() -> None:
    section = manual.sections(PERMISSIONS, 2)["Protected places"]
    wanted = [*sorted(paths.PROTECTED_FOLDERS), *sorted(paths.PROTECTED_FILES), *paths.PROTECTED_BELOW_HOME]
    assert manual.codes(section) == [*wanted, *paths.PROTECTED_ABSOLUTE]


# -- links and the site

PAGES = sorted([*manual.ROOT.glob("*.md"), *manual.DOCS.rglob("*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(manual.ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in manual.links(page.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, fragment = target.partition("#")
        file = page.parent / name if name else page
        assert file.exists(), f"it links to {target}"
        if fragment:
            assert fragment in manual.anchors(file.read_text(encoding="utf-8")), f"it links to {target}"
        if manual.DOCS in page.parents:
            assert manual.DOCS in file.resolve().parents, f"{target} is not part of the site"


def test_every_page_is_in_the_menu_of_the_site_and_in_the_index() -> None:
    settings = tomllib.loads((manual.ROOT / "zensical.toml").read_text())["project"]
    menu: list[str] = []

    def walk(entries: list[dict[str, Any]]) -> None:
        for entry in entries:
            for value in entry.values():
                if isinstance(value, str):
                    menu.append(value)
                else:
                    walk(value)

    walk(settings["nav"])
    pages = sorted(str(page.relative_to(manual.DOCS)) for page in manual.DOCS.rglob("*.md"))
    assert sorted(menu) == pages
    linked = set(manual.links(manual.page("index.md")))
    assert [page for page in pages if page not in linked] == ["index.md"]
