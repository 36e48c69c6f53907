"""Layers of settings: what wins, what counts in which folder, what is said about it."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tugline.config import show
from tugline.config.folders import find_folders, find_project_root, make_private
from tugline.config.load import Config, Origin, load, value_of
from tugline.config.place import locate
from tugline.config.settings import Endpoint, ModelSetting, Settings
from tugline.config.sources import read_json, variable
from tugline.protocol.errors import ConfigError

ROOT = Path(__file__).parents[2]


class Desk:
    """A home, a project, an environment, and settings files in them."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.project = folder / "project"
        self.managed = folder / "managed.json"
        for path in (self.home, self.project / ".git"):
            path.mkdir(parents=True)
        self.env: dict[str, str] = {"HOME": str(self.home)}

    def user(self, data: Any) -> Path:
        return self._write(self.home / ".config/tugline/settings.json", data)

    def claude_user(self, data: Any) -> Path:
        return self._write(self.home / ".claude/settings.json", data)

    def project_file(self, data: Any, name: str = ".tugline/settings.json") -> Path:
        return self._write(self.project / name, data)

    def _write(self, path: Path, data: Any) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
        return path

    def load(self, **more: Any) -> Config:
        more.setdefault("cwd", str(self.project))
        return load(environ=self.env, managed=(str(self.managed),), **more)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path.resolve())


def texts(config: Config) -> list[str]:
    return [problem.text for problem in config.problems]


def test_without_any_source_all_has_its_default(desk: Desk) -> None:
    config = desk.load()
    assert config.settings == Settings()
    assert config.problems == ()
    assert config.origins == {}
    assert config.project_root == str(desk.project)


def test_layers_override_each_other_in_their_order(desk: Desk) -> None:
    def theme(**more: Any) -> tuple[str, str]:
        config = desk.load(trusted=True, **more)
        return config.settings.theme, str(config.origins[("theme",)][-1])

    steps: list[tuple[str, Path]] = [
        ("claude user", desk.claude_user({"theme": "claude user"})),
        ("user", desk.user({"theme": "user"})),
        ("claude project", desk.project_file({"theme": "claude project"}, ".claude/settings.json")),
        ("project", desk.project_file({"theme": "project"})),
        ("claude local", desk.project_file({"theme": "claude local"}, ".claude/settings.local.json")),
        ("local", desk.project_file({"theme": "local"}, ".tugline/settings.local.json")),
    ]
    assert theme()[0] == "local"
    for (expected, path), (_, above) in zip(steps[-2::-1], steps[:0:-1], strict=True):
        above.unlink()
        assert theme()[0] == expected
        assert theme()[1].endswith(str(path))
    desk.env["TUGLINE_THEME"] = "environment"
    assert theme() == ("environment", "environment: TUGLINE_THEME")
    assert theme(settings='{"theme": "settings"}') == ("settings", "command line: --settings")
    assert theme(settings='{"theme": "settings"}', flags={"theme": "flag"}) == ("flag", "command line")
    desk.managed.write_text('{"theme": "managed"}')
    assert theme(flags={"theme": "flag"}) == ("managed", f"managed: {desk.managed}")


def test_lists_and_maps_grow_and_keep_where_each_part_comes_from(desk: Desk) -> None:
    user = desk.user({"permissions": {"deny": ["Read(a)", "Bash(x)"]}, "env": {"A": "1", "B": "1"}})
    project = desk.project_file({"permissions": {"deny": ["Read(a)", "Read(b)"]}, "env": {"B": "2"}})
    config = desk.load(trusted=True)
    assert config.settings.permissions.deny == ("Read(a)", "Bash(x)", "Read(b)")
    assert config.settings.env == {"A": "1", "B": "2"}
    assert config.origins[("env",)] == (Origin("user", str(user)), Origin("project", str(project)))
    assert [(rule.text, rule.source) for rule in config.deny] == [
        ("Read(a)", str(user)),
        ("Bash(x)", str(user)),
        ("Read(a)", str(project)),
        ("Read(b)", str(project)),
    ]


def test_in_an_untrusted_folder_only_deny_and_ask_rules_of_the_project_count(desk: Desk) -> None:
    path = desk.project_file(
        {
            "permissions": {"allow": ["Bash"], "deny": ["Read(x)"], "ask": ["Edit"], "additionalDirectories": ["/"]},
            "env": {"X": "1"},
            "model": "evil",
            "providers": {"anthropic": {"baseUrl": "http://evil", "headers": {"a": "b"}}},
            "network": {"maxRetries": 0},
        }
    )
    config = desk.load()
    assert not config.trusted
    assert config.settings == msgspec.convert({"permissions": {"deny": ["Read(x)"], "ask": ["Edit"]}}, Settings)
    assert (config.allow, len(config.ask), len(config.deny)) == ((), 1, 1)
    assert config.withheld == tuple(
        (name, str(path))
        for name in (
            "permissions.allow",
            "permissions.additionalDirectories",
            "env",
            "model",
            "providers.anthropic.baseUrl",
            "providers.anthropic.headers",
            "network.maxRetries",
        )
    )
    trusted = desk.load(trusted=True)
    assert trusted.settings.model == "evil"
    assert trusted.withheld == ()


def test_a_project_cannot_make_itself_trusted_nor_switch_its_guard_off(desk: Desk) -> None:
    path = desk.project_file(
        {"trustedFolders": [str(desk.project)], "permissions": {"defaultMode": "bypassPermissions"}}
    )
    for trusted in (False, True):
        config = desk.load(trusted=trusted)
        assert config.trusted is trusted
        assert config.settings == Settings()
        assert texts(config) == [
            f"{path}: trustedFolders counts in user settings only",
            f"{path}: permissions.defaultMode bypassPermissions is not for a project",
        ]


def test_the_user_can_trust_a_folder_by_setting_and_parents_do_not_count(desk: Desk) -> None:
    desk.project_file({"model": "m"})
    desk.user({"trustedFolders": [str(desk.project.parent)]})
    assert not desk.load().trusted
    desk.user({"trustedFolders": [str(desk.project)]})
    assert desk.load().trusted
    assert desk.load().settings.model == "m"


def test_setting_sources_say_which_files_count(desk: Desk) -> None:
    desk.user({"model": "user"})
    desk.project_file({"theme": "project"})
    assert desk.load(trusted=True, sources=()).settings == Settings()
    assert desk.load(trusted=True, sources=("user",)).settings == Settings(model="user")
    assert desk.load(trusted=True, sources=("project",)).settings == Settings(theme="project")


def test_the_model_of_a_setting_stands_above_the_variables(desk: Desk) -> None:
    desk.env["ANTHROPIC_MODEL"] = "anthropic"
    assert desk.load().settings.model == "anthropic"
    desk.env["TUGLINE_MODEL"] = "tugline"
    assert desk.load().settings.model == "tugline"
    assert desk.load().origins[("model",)] == (Origin("environment", "TUGLINE_MODEL"),)
    desk.user({"model": "setting"})
    assert desk.load().settings.model == "setting"
    assert desk.load(flags={"model": "flag"}).settings.model == "flag"


@pytest.mark.parametrize(
    ("name", "text", "path", "value"),
    [
        ("TUGLINE_NETWORK_IDLE_TIMEOUT", "5", ("network", "idleTimeout"), 5.0),
        ("TUGLINE_NETWORK_RETRY_BASE", "0.05", ("network", "retryBase"), 0.05),
        ("TUGLINE_NETWORK_RETRY_BUDGET", "10", ("network", "retryBudget"), 10.0),
        ("TUGLINE_NETWORK_MAX_RETRIES", "2", ("network", "maxRetries"), 2),
        ("TUGLINE_TOOLS_START_WHILE_STREAMING", "false", ("tools", "startWhileStreaming"), False),
        ("TUGLINE_TOOLS_START_WHILE_STREAMING", "off", ("tools", "startWhileStreaming"), False),
        ("TUGLINE_TOOLS_START_WHILE_STREAMING", "1", ("tools", "startWhileStreaming"), True),
        ("TUGLINE_WEB_FETCH_ALLOW_PRIVATE", "true", ("webFetch", "allowPrivate"), True),
        ("TUGLINE_PERMISSIONS_DEFAULT_MODE", "plan", ("permissions", "defaultMode"), "plan"),
        ("TUGLINE_PERMISSIONS_DENY", "Bash(a, b), Read", ("permissions", "deny"), ("Bash(a, b)", "Read")),
        ("TUGLINE_PERMISSIONS_DENY", '["Read"]', ("permissions", "deny"), ("Read",)),
        ("TUGLINE_ENV", '{"A": "b"}', ("env",), {"A": "b"}),
        ("TUGLINE_LIMITS_MAX_BUDGET_USD", "1.5", ("limits", "maxBudgetUsd"), 1.5),
        ("ANTHROPIC_BASE_URL", "http://a", ("providers", "anthropic", "baseUrl"), "http://a"),
        ("OPENAI_BASE_URL", "http://o/v1", ("providers", "openai", "baseUrl"), "http://o/v1"),
    ],
)
def test_a_variable_overrides_its_setting(
    desk: Desk, name: str, text: str, path: tuple[str, ...], value: object
) -> None:
    desk.env[name] = text
    config = desk.load()
    assert config.problems == ()
    assert value_of(config.settings, path) == value
    assert config.origins[path] == (Origin("environment", name),)


def test_our_own_variable_wins_over_the_one_that_others_use(desk: Desk) -> None:
    desk.env |= {"OPENAI_BASE_URL": "http://a", "TUGLINE_PROVIDERS_OPENAI_BASE_URL": "http://b"}
    assert desk.load().settings.providers.openai == Endpoint(base_url="http://b")


def test_a_wrong_variable_is_named_with_what_was_expected(desk: Desk) -> None:
    desk.env |= {
        "TUGLINE_NETWORK_MAX_RETRIES": "many",
        "TUGLINE_NETWORK_IDLE_TIMEOUT": "-1",
        "TUGLINE_ENV": "{",
        "TUGLINE_NETWORK_IDLE_TIMOUT": "3",
        "TUGLINE_THEME": "",
    }
    config = desk.load()
    assert config.settings == Settings()
    assert texts(config) == [
        "TUGLINE_ENV: expecting property name enclosed in double quotes: line 1 column 2 (char 1), as '{'",
        "TUGLINE_NETWORK_IDLE_TIMEOUT: expected `float` > 0.0, as '-1'",
        "TUGLINE_NETWORK_IDLE_TIMOUT: unknown variable; did you mean TUGLINE_NETWORK_IDLE_TIMEOUT?",
        "TUGLINE_NETWORK_MAX_RETRIES: expected `int`, got `str`, as 'many'",
    ]


def test_a_wrong_type_is_said_with_line_and_column_and_the_rest_counts(desk: Desk) -> None:
    path = desk.user(
        '{\n  "theme": "x",\n  "network": {\n    "idleTimeout": "long",\n    "maxRetries": 3\n  },\n'
        '  "permissions": {"deny": ["Read(a)", 5], "ask": "Bash"},\n'
        '  "models": {"m": {"price": {"input": -1}}, "n": {"windw": 1}, "o": {"window": 9999}},\n'
        '  "tools": true\n}'
    )
    config = desk.load()
    assert config.settings.theme == "x"
    assert config.settings.network.max_retries == 3
    assert config.settings.permissions.deny == ("Read(a)",)
    assert config.settings.models == {"n": ModelSetting(), "o": ModelSetting(window=9999)}
    with pytest.raises(ConfigError, match=r"permissions\.deny\[1\]"):
        config.require_sound()
    assert texts(config) == [
        f"{path}:4:5: network.idleTimeout: expected `float`, got `str`",
        f"{path}:7:39: permissions.deny[1]: expected `str`, got `int`",
        f"{path}:7:43: permissions.ask: expected `array`, got `str`",
        f"{path}:8:30: models.m.price.input: expected `float` >= 0.0",
        f"{path}:8:51: unknown setting models.n.windw; did you mean models.n.window?",
        f"{path}:9:3: tools: expected `object`, got `bool`",
    ]


def test_an_unknown_setting_is_a_warning_with_the_nearest_right_one(desk: Desk) -> None:
    path = desk.user(
        '{"modle": "x",\n "network": {"idletimeout": 3}, "maxTurns": 3, "zzz": 1, "hooks": {}, "$schema": ""}'
    )
    config = desk.load()
    assert [(problem.level, problem.text) for problem in config.problems] == [
        ("warning", f"{path}:1:2: unknown setting modle; did you mean model?"),
        ("warning", f"{path}:2:14: unknown setting network.idletimeout; did you mean network.idleTimeout?"),
        ("warning", f"{path}:2:33: unknown setting maxTurns; did you mean limits.maxTurns?"),
        ("warning", f"{path}:2:48: unknown setting zzz"),
    ]


def test_a_name_that_stands_twice_is_said_because_only_the_last_one_counts(desk: Desk) -> None:
    path = desk.user('{"theme": "a",\n "permissions": {"deny": ["Read(a)"]},\n "permissions": {"ask": ["Read(b)"]}}')
    config = desk.load()
    assert texts(config) == [f"{path}:3:2: 'permissions' stands twice; only the last one counts"]
    assert [rule.text for rule in (*config.deny, *config.ask)] == ["Read(b)"]


def test_settings_of_another_tool_are_read_without_complaint_about_what_is_only_theirs(desk: Desk) -> None:
    desk.claude_user(
        {"brandNew": 1, "hooks": {}, "model": "opus", "permissions": {"allow": ["Read"]}, "env": {"A": "1"}}
    )
    config = desk.load()
    assert config.problems == ()
    assert (config.settings.model, len(config.allow)) == ("opus", 1)
    desk.env["CLAUDE_CONFIG_DIR"] = str(desk.home / "elsewhere")
    assert desk.load().settings == Settings()


def test_a_rule_that_cannot_be_read_stops_a_session_and_names_file_and_rule(desk: Desk) -> None:
    path = desk.user({"permissions": {"deny": ["Read(a", "Read(b)"]}})
    config = desk.load()
    assert [rule.text for rule in config.deny] == ["Read(b)"]
    with pytest.raises(ConfigError) as caught:
        config.require_sound()
    assert "'Read(a'" in str(caught.value)
    assert str(path) in str(caught.value)
    desk.user({})
    desk.load().require_sound()


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b'{\n  "a": 1,\n}', ":3:1: broken JSON: "),
        (b'{"a" 1}', ":1:6: broken JSON: "),
        (b"nonsense", ":1:1: broken JSON: "),
        (b"[1]", ":1:1: expected an object with settings, got `array`"),
        (b'"x"', ":1:1: expected an object with settings, got `str`"),
        (b"null", ":1:1: expected an object with settings, got `null`"),
        (b'{"a":\n"\xff"}', ":2: is not UTF-8 text"),
        (b"\x00\x01\x02", ":1:1: broken JSON: "),
        (b"{" + b'"a":{' * 100_000, ": broken JSON: "),
        (b"[" * 200_000, ": broken JSON: "),
        (b'{"a": ' + b"9" * 10_000 + b"}", ": broken JSON: "),
        (b"x" * 1_000_001, ": too big for settings: 1000001 bytes, 1000000 at most"),
    ],
)
def test_a_broken_file_is_one_clear_error_and_the_other_layers_count(desk: Desk, raw: bytes, said: str) -> None:
    path = desk.user({})
    path.write_bytes(raw)
    desk.project_file({"theme": "x"})
    config = desk.load(trusted=True)
    assert config.settings.theme == "x"
    assert len(config.problems) == 1
    assert config.problems[0].level == "error"
    assert config.problems[0].text.startswith(str(path) + said)
    assert "\n" not in config.problems[0].text


def test_a_file_with_a_byte_order_mark_and_an_empty_file_are_fine(desk: Desk) -> None:
    desk.user({}).write_bytes(b'\xef\xbb\xbf{"theme": "x"}')
    assert desk.load().settings.theme == "x"
    desk.user("  \n")
    assert desk.load() == desk.load()
    assert desk.load().problems == ()


def test_a_folder_a_pipe_or_an_unreadable_file_in_place_of_settings_is_said(desk: Desk) -> None:
    path = desk.user({})
    path.unlink()
    path.mkdir()
    assert texts(desk.load()) == [f"{path}: cannot be read as settings: it is a folder"]
    path.rmdir()
    os.mkfifo(path)
    assert texts(desk.load()) == [f"{path}: cannot be read as settings: it is no regular file"]
    path.unlink()
    path.symlink_to(path)
    assert texts(desk.load())[0].startswith(f"{path}: cannot be read: ")


def test_settings_named_on_the_command_line_must_be_there(desk: Desk) -> None:
    config = desk.load(settings="nowhere.json")
    with pytest.raises(ConfigError, match=r"--settings: there is no file .*nowhere\.json"):
        config.require_sound()
    (desk.project / "mine.json").write_text('{"theme": "mine"}')
    assert desk.load(settings="mine.json").settings.theme == "mine"
    assert texts(desk.load(settings='{"theme": 5')) != []


def test_wrong_flags_are_said(desk: Desk) -> None:
    assert texts(desk.load(flags={"limits.maxTurns": 0})) == ["command line: limits.maxTurns: expected `int` >= 1"]


def test_keys_come_from_the_environment_and_are_never_shown(desk: Desk) -> None:
    desk.env |= {
        "ANTHROPIC_API_KEY": "sk-canary ",
        "OPENAI_API_KEY": "sk-canary2",
        "OPENAI_BASE_URL": "http://user:canary@h/v1",
    }
    desk.user(
        {
            "env": {"MY_TOKEN": "canary", "PLAIN": "seen"},
            "providers": {"openai": {"headers": {"X-Api-Key": "canary", "X-Plain": "seen"}}},
        }
    )
    config = desk.load()
    assert config.secrets.anthropic_api_key == "sk-canary"
    assert "canary" not in repr(config.secrets)
    assert str(config.secrets) == "Secrets(anthropic_api_key, openai_api_key)"
    text = show.render(config, origin=True)
    assert "canary" not in text
    assert text.count("seen") == 2


def test_what_counts_is_shown_with_its_origin(desk: Desk) -> None:
    path = desk.user({"network": {"idleTimeout": 5}, "theme": "a\x1b[31mb"})
    desk.project_file({"model": "m"})
    config = desk.load()
    rows = {row.name: row for row in show.rows(config)}
    assert rows["network.idleTimeout"] == show.Row("network.idleTimeout", "5.0", f"user: {path}")
    assert rows["network.maxRetries"] == show.Row("network.maxRetries", "8", "default")
    text = show.render(config, origin=True)
    assert "\x1b" not in text
    assert f"not trusted, does not count: model in {desk.project}/.tugline/settings.json" in text
    assert "(user: " not in show.render(config)


def test_the_published_schema_and_reference_are_those_of_the_code() -> None:
    published = ROOT / "docs/reference"
    assert (published / "settings.schema.json").read_text(encoding="utf-8") == show.schema_text()
    assert (published / "settings.md").read_text(encoding="utf-8") == show.reference()


def test_the_schema_accepts_and_refuses_what_the_loader_does() -> None:
    schema = show.schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    good = {
        "model": "m",
        "network": {"idleTimeout": 5, "firstByteTimeout": None},
        "permissions": {"deny": ["Read"], "defaultMode": "plan"},
        "models": {"m": {"window": 5000, "price": {"input": 1}}},
        "providers": {"openai": {"api": "chat"}},
        "hooks": {},
    }
    jsonschema.validate(good, schema)
    for bad in ({"network": {"idleTimeout": 0}}, {"permissions": {"defaultMode": "x"}}, {"env": {"A": 1}}):
        source, problems = read_json(json.dumps(bad).encode(), "user", "x")
        assert source is not None
        assert len(problems) == 1
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(bad, schema)


def test_every_setting_has_a_variable_of_its_own_and_a_description() -> None:
    lines = [line for line in show.reference().splitlines() if line.startswith("| `")]
    assert len({line.split("|")[3] for line in lines}) == len(lines)
    assert all(line.split("|")[4].strip() for line in lines)
    assert variable(("network", "idleTimeout")) == "TUGLINE_NETWORK_IDLE_TIMEOUT"


def test_folders_follow_xdg_or_stand_together_below_one(desk: Desk) -> None:
    home = str(desk.home)
    plain = find_folders({}, home)
    assert (plain.config, plain.data, plain.cache, plain.claude) == (
        f"{home}/.config/tugline",
        f"{home}/.local/share/tugline",
        f"{home}/.cache/tugline",
        f"{home}/.claude",
    )
    xdg = find_folders({"XDG_CONFIG_HOME": "/x", "XDG_DATA_HOME": "relative", "CLAUDE_CONFIG_DIR": "~/c"}, home)
    assert (xdg.config, xdg.data, xdg.claude) == ("/x/tugline", f"{home}/.local/share/tugline", f"{home}/c")
    own = find_folders({"TUGLINE_HOME": "/t", "XDG_CONFIG_HOME": "/x"}, home)
    assert (own.config, own.data, own.cache) == ("/t/config", "/t/data", "/t/cache")
    assert own.user_settings == "/t/config/settings.json"


def test_folders_are_made_for_the_user_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        made = make_private(str(tmp_path / "a" / "b"))
    finally:
        os.umask(before)
    assert [stat.S_IMODE(os.stat(path).st_mode) for path in (made, os.path.dirname(made))] == [0o700, 0o700]
    assert make_private(made) == made
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        make_private(str(tmp_path / "file" / "x"))


def test_reading_makes_no_folder(desk: Desk) -> None:
    desk.load()
    assert list(desk.home.iterdir()) == []


def test_the_project_root_is_the_repository_and_never_the_home_above(desk: Desk) -> None:
    deep = desk.project / "a" / "b"
    deep.mkdir(parents=True)
    assert find_project_root(str(deep), str(desk.home)) == str(desk.project)
    assert desk.load(cwd=str(deep)).project_root == str(desk.project)
    (desk.home / ".git").mkdir()
    (desk.home / "x").mkdir()
    assert find_project_root(str(desk.home / "x"), str(desk.home)) == str(desk.home / "x")


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["network", "idleTimeout", "permissions", "deny", "env", "models", "model", "theme"])
            | st.text(max_size=4),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(_JSON)
def test_any_json_is_settings_or_problems_that_say_where(data: Any) -> None:
    source, problems = read_json(json.dumps(data, indent=1).encode(), "user", "f.json")
    for problem in problems:
        assert problem.text.startswith("f.json:")
        assert len(problem.text.splitlines()) == 1
    assert source is not None or problems


@given(st.binary(max_size=40) | st.text('{}[]":,1ax\\ \n', max_size=30).map(str.encode))
def test_any_bytes_are_settings_or_problems(raw: bytes) -> None:
    source, problems = read_json(raw, "user", "f.json")
    assert source is not None or problems or not raw.decode("utf-8-sig").strip()


@given(_JSON)
def test_every_value_is_found_where_it_stands(data: Any) -> None:
    for ascii_only in (True, False):
        text = json.dumps(data, indent=2, ensure_ascii=ascii_only)

        def visit(value: Any, path: tuple[str | int, ...], text: str = text) -> None:
            spot = locate(text, path)
            assert spot is not None
            line = text.split("\n")[spot[0] - 1][spot[1] - 1 :]
            if path and isinstance(path[-1], str):
                assert line.startswith('"')
            inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
            for key, item in inner:
                visit(item, (*path, key))

        visit(data, ())
    assert locate("{", ("a",)) is None
    assert locate('{"a": 1}', ("b",)) is None
    assert locate('{"a": 1, "a": 2}', ("a",)) == (1, 10)


@pytest.mark.parametrize(
    "text",
    [
        "{" + ",".join(f'"k{i}":1' for i in range(60_000)) + "}",
        "{" + ",".join(f'"k{i}":1' for i in range(60_000)) + ',"k0":2}',
        '{"permissions":{"allow":[' + ",".join("1" for _ in range(100_000)) + "]}}",
        '{"permissions":{"allow":[' + ",".join('"("' for _ in range(100_000)) + "]}}",
    ],
    ids=["unknown", "twice", "wrong type", "wrong rule"],
)
def test_a_file_full_of_mistakes_is_read_at_once_and_told_in_short(desk: Desk, text: str) -> None:
    desk.project_file(text)
    said = texts(desk.load(trusted=True))
    assert len(said) <= 42
    assert any("more problems" in line for line in said)


def test_a_rule_that_forbids_and_cannot_be_read_stops_a_session_also_behind_many_others(desk: Desk) -> None:
    rules = ["Read(a)", *["("] * 30]
    desk.user({"permissions": {"allow": ["("] * 30, "deny": rules}})
    config = desk.load()
    assert [problem.fatal for problem in config.problems][-1]
    with pytest.raises(ConfigError):
        config.require_sound()


def test_what_is_no_text_is_told_and_does_not_count(desk: Desk) -> None:
    desk.user('{"model": "\\ud800"}')
    desk.env |= {"TUGLINE_MODEL": "m\udcff", "ANTHROPIC_BASE_URL": "http://\udcff", "TUGLINE_THEME": "\udcff"}
    config = desk.load()
    assert config.settings == Settings()
    assert len(texts(config)) == 4
    assert all("UTF-8" in text or "alf of a pair" in text for text in texts(config))
    desk.env = {"TUGLINE_PERMISSIONS_DENY": "Read(/x\udcff)"}
    with pytest.raises(ConfigError):
        desk.load().require_sound()
