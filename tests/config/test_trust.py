"""What of a project counts: approved item by item, as it was; kept in one file of the user's own."""

import json
import multiprocessing
import os
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tugline.config.load import Config, load
from tugline.config.parts import project_parts
from tugline.config.settings import Settings
from tugline.config.trust import TrustStore
from tugline.protocol.errors import ConfigError
from tugline.protocol.trust import TrustItem
from tugline.rules.trust import HARMLESS, Trust, approvals, approve, compared, described, digest


class Desk:
    """A home, a project, and the store between them."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.project = folder / "project"
        for path in (self.home, self.project / ".git"):
            path.mkdir(parents=True)
        self.store = TrustStore(str(self.home / ".config/tugline/trust.json"))

    def write(self, data: Any, name: str = ".tugline/settings.json") -> None:
        path = self.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(data if isinstance(data, str) else json.dumps(data))

    def load(self, **more: Any) -> Config:
        more.setdefault("cwd", str(self.project))
        return load(environ={"HOME": str(self.home)}, managed=(), **more)

    def approve(self) -> None:
        self.store.trust(str(self.project), dict.fromkeys(self.load().items, True))


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path.resolve())


def withheld(config: Config) -> list[str]:
    return [name for name, _ in config.withheld]


def test_what_was_approved_counts_and_what_is_new_or_changed_does_not(desk: Desk) -> None:
    desk.write({"env": {"A": "1", "B": "2"}, "permissions": {"allow": ["Read", "Bash(x)"]}, "model": "m"})
    desk.approve()
    assert (desk.load().trusted, withheld(desk.load())) == (True, [])
    desk.write({"env": {"A": "1", "B": "3", "C": "4"}, "permissions": {"allow": ["Bash(x)", "Edit"]}, "model": "n"})
    config = desk.load()
    assert config.settings.env == {"A": "1"}
    assert [rule.text for rule in config.allow] == ["Bash(x)"]
    assert config.settings.model is None
    assert withheld(config) == ["env", "permissions.allow", "model"]
    changes = {item.name: item.change for item in compared(config.trust, config.items)}
    assert changes == {
        "env.A": "approved", "env.B": "changed", "env.C": "new", "permissions.allow Bash(x)": "approved",
        "permissions.allow Edit": "new", "model": "changed", "permissions.allow Read": "gone",
    }  # fmt: skip
    desk.approve()
    assert withheld(desk.load()) == []


def test_harmless_settings_of_a_trusted_folder_need_no_approval_and_count_in_no_other(desk: Desk) -> None:
    desk.write({"theme": "dark"})
    assert desk.load().settings.theme == "auto"
    desk.approve()
    desk.write({"theme": "light", "limits": {"maxTurns": 3}})
    assert (desk.load().settings.theme, desk.load().settings.limits.max_turns) == ("light", 3)


def test_a_setting_is_harmless_only_if_it_is_named_so() -> None:
    assert set(Settings.__struct_encode_fields__) - HARMLESS == {
        "allowManagedHooksOnly", "allowedHttpHookUrls", "autoMode", "checkpoints", "disableAllHooks", "env",
        "fallbackModel", "hookLimits", "hooks", "model", "modelAliases", "models", "permissions", "providers",
        "sandbox", "shell", "trustedFolders", "webFetch",
    }, "is the new setting harmless in a cloned folder? then put it into rules.trust.HARMLESS, else here"  # fmt: skip


def test_the_same_words_in_another_file_or_kind_are_not_approved(desk: Desk) -> None:
    desk.write({"permissions": {"allow": ["Edit"]}})
    desk.approve()
    desk.write({"permissions": {"allow": ["Edit"]}}, ".claude/settings.json")
    desk.write({})
    assert desk.load().allow == ()


def test_a_folder_is_trusted_by_path_and_inode_and_nothing_inherits(desk: Desk) -> None:
    desk.write({"model": "m"})
    desk.approve()
    below = desk.project / "vendor"
    (below / ".git").mkdir(parents=True)
    assert desk.load(cwd=str(desk.project / "vendor")).trusted is False, "a repository inside is another project"
    assert desk.load(cwd=str(desk.project / ".git")).trusted is True, "a folder of the project is the project"
    moved = desk.project.parent / "moved"
    desk.project.rename(moved)
    shutil.copytree(moved, desk.project)
    assert desk.load().trusted is False, "another folder of that name"
    link = desk.project.parent / "link"
    link.symlink_to(moved)
    assert desk.load(cwd=str(link)).trusted is False


def test_trust_in_the_root_or_the_home_folder_reaches_no_project(desk: Desk) -> None:
    desk.write({"model": "m"})
    for folder in ("/", str(desk.home), str(desk.project.parent)):
        desk.store.trust(folder, {})
    assert desk.load().trusted is False


def test_a_git_file_that_points_to_a_trusted_repository_makes_nothing_trusted(desk: Desk) -> None:
    desk.approve()
    spoof = desk.project.parent / "spoof"
    spoof.mkdir()
    (spoof / ".git").write_text(f"gitdir: {desk.project}/.git\n")
    (spoof / ".tugline").mkdir()
    (spoof / ".tugline/settings.json").write_text('{"model": "evil"}')
    config = desk.load(cwd=str(spoof))
    assert (config.trusted, config.settings.model, config.project_root) == (False, None, str(spoof))


def test_a_flag_can_say_no_to_what_was_approved_and_yes_to_all(desk: Desk) -> None:
    desk.write({"model": "m"})
    desk.approve()
    desk.write({"model": "m", "env": {"A": "1"}})
    assert desk.load(trusted=False).settings.model is None
    assert desk.load(trusted=True).settings.env == {"A": "1"}


def test_settings_that_lead_out_of_the_project_do_not_count(desk: Desk) -> None:
    outside = desk.project.parent / "outside.json"
    outside.write_text('{"model": "m", "permissions": {"deny": ["Read"]}}')
    (desk.project / ".tugline").mkdir()
    (desk.project / ".tugline/settings.json").symlink_to(outside)
    (desk.project / "real.json").write_text('{"theme": "dark"}')
    (desk.project / ".tugline/settings.local.json").symlink_to("../real.json")
    config = desk.load(trusted=True)
    assert (config.settings.model, config.deny, config.settings.theme) == (None, (), "dark")
    assert "leads out of the project" in config.problems[0].text


def test_the_store_is_for_the_user_alone(desk: Desk) -> None:
    desk.approve()
    path = Path(desk.store.path)
    assert [stat.S_IMODE(one.stat().st_mode) for one in (path, path.parent)] == [0o600, 0o700]


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[]", b'{"format": 1, "folders": [{"path": 3}]}', b"\xff\x00", b"[" * 100_000]
)
def test_a_damaged_store_trusts_nothing_says_so_and_is_not_overwritten(desk: Desk, raw: bytes) -> None:
    desk.write({"model": "m"})
    desk.approve()
    path = Path(desk.store.path)
    path.write_bytes(raw)
    config = desk.load()
    (problem,) = config.problems
    assert (config.trusted, config.settings.model, problem.fatal) == (False, None, False)
    assert str(path) in problem.text
    assert "no folder counts as trusted" in problem.text
    with pytest.raises(ConfigError, match=r"trust\.json"):
        desk.approve()
    assert path.read_bytes() == raw


def test_a_store_that_others_can_write_or_that_is_no_file_trusts_nothing(desk: Desk) -> None:
    desk.approve()
    path = Path(desk.store.path)
    path.chmod(0o666)
    assert "chmod 600" in desk.load().problems[0].text
    path.unlink()
    os.mkfifo(path)
    assert desk.load().trusted is False
    path.unlink()
    path.symlink_to(desk.project / "trust.json")
    assert desk.load().trusted is False


def _trust_many(path: str, folder: str, count: int) -> None:
    for number in range(count):
        TrustStore(path).trust(f"{folder}/{os.getpid()}-{number}", {TrustItem("setting", "a", "b", "c"): True})


def test_processes_that_write_at_the_same_time_lose_nothing(desk: Desk) -> None:
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_trust_many, args=(desk.store.path, str(desk.project), 8)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    folders, problem = desk.store.read()
    assert (len(folders), problem) == (32, "")
    assert sorted(path.name for path in Path(desk.store.path).parent.iterdir()) == ["trust.json", "trust.json.lock"]


def test_forgetting_a_folder_takes_its_approvals_along(desk: Desk) -> None:
    desk.write({"model": "m"})
    desk.approve()
    assert desk.store.forget(str(desk.project)) is True
    assert desk.store.forget(str(desk.project)) is False
    assert desk.load().settings.model is None


def test_the_parts_that_could_run_code_are_found(desk: Desk) -> None:
    for name, text in {
        ".mcp.json": '{"mcpServers": {"b": {"command": "x"}, "a": {"url": "y"}}}',
        ".claude/commands/run.md": "Say !`date`",
        ".claude/commands/talk.md": "Only words.",
        ".claude/agents/a.md": "---\nname: a\ntools: Bash\n---\nWork.",
        ".claude/agents/b.md": "---\nname: b\n---\nWork.",
        ".agents/skills/s/SKILL.md": "---\nname: s\nallowed-tools: Bash\n---\n",
        ".agents/skills/s/scripts/x.py": "print()",
        ".tugline/tools/t.py": "print()",
        ".tugline/plugins/p/plugin.json": "{}",
    }.items():
        desk.write(text, name)
    assert [item.label for item in project_parts(str(desk.project))] == [
        ".mcp.json: a", ".mcp.json: b", ".tugline/tools/t.py", ".tugline/plugins/p/plugin.json",
        ".claude/agents/a.md", ".claude/commands/run.md", ".agents/skills/s/SKILL.md",
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["{", "[]", "null", '{"mcpServers": 3}', "[" * 100_000])
def test_a_server_file_that_cannot_be_read_is_one_item_as_a_whole(desk: Desk, text: str) -> None:
    desk.write(text, ".mcp.json")
    (item,) = project_parts(str(desk.project))
    assert item.text == text


items = st.builds(
    TrustItem,
    kind=st.sampled_from(["setting", "server", "skill"]),
    source=st.text(max_size=3),
    name=st.text(max_size=3),
    text=st.text(max_size=12),
)


@given(st.lists(items, max_size=6), items)
def test_an_item_counts_only_if_exactly_it_was_approved(approved: list[TrustItem], item: TrustItem) -> None:
    trust = Trust("approved", approvals([approve(one) for one in approved]))
    last = [one for one in approved if (one.kind, one.source, one.name) == (item.kind, item.source, item.name)]
    assert trust.allows(item) == (bool(last) and last[-1] == item)


@given(items, items)
def test_two_items_have_one_digest_only_if_they_are_one(a: TrustItem, b: TrustItem) -> None:
    assert (digest(a) == digest(b)) == (a == b)


@given(items, st.text(max_size=12))
def test_an_item_is_shown_without_a_character_that_does_something(item: TrustItem, before: str) -> None:
    for change in ("new", "changed", "gone", "approved"):
        shown = TrustItem(item.kind, item.source, item.name, item.text, change, before)
        assert all(line.isprintable() for line in described(shown))


def test_what_is_no_text_can_be_approved_and_shown_too(desk: Desk) -> None:
    odd = os.fsencode(str(desk.project / ".claude/commands")) + b"/\xff.md"
    os.makedirs(os.path.dirname(odd))
    with open(odd, "w") as file:
        file.write("!`x`")
    items = (*desk.load().items, *project_parts(str(desk.project)))
    desk.store.trust(str(desk.project), dict.fromkeys(items, True))
    config = desk.load()
    assert (len(items), withheld(config)) == (1, [])
    assert {item.change for item in compared(config.trust, items)} == {"approved"}
    assert all(line.isprintable() for item in items for line in described(item))
