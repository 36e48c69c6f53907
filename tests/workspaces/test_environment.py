"""What commands get to see of the user's environment."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tugline.workspaces.environment import child_environment, is_secret_name

FIXED = {"GIT_OPTIONAL_LOCKS": "0", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0", "PAGER": "cat", "TERM": "dumb"}


def test_the_users_environment_passes_and_nothing_waits_at_a_terminal() -> None:
    base = {"PATH": "/bin", "EDITOR": "vim", "PAGER": "less", "TERM": "xterm-256color", "SSH_AUTH_SOCK": "/s"}
    assert child_environment(base) == {"PATH": "/bin", "EDITOR": "vim", "SSH_AUTH_SOCK": "/s", **FIXED}


@pytest.mark.parametrize(
    "name",
    [
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_CUSTOM_HEADERS",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AZURE_CLIENT_SECRET",
        "DB_PASSWORD",
        "GH_TOKEN",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "MYSQL_PWD",
        "OPENAI_API_KEY",
        "PGPASSWORD",
        "SECRET_KEY_BASE",
        "SSH_PASSPHRASE",
        "STRIPE_APIKEY",
        "TOKEN",
        "github_token",
        "npm_config__authToken",
    ],
)
def test_secrets_do_not_pass(name: str) -> None:
    assert is_secret_name(name)
    assert child_environment({name: "x"}) == FIXED


@pytest.mark.parametrize(
    "name",
    [
        "PWD",
        "OLDPWD",
        "KEYBOARD",
        "MONKEY_PATCH",
        "TOKENIZERS_PARALLELISM",
        "SSH_AUTH_SOCK",
        "XAUTHORITY",
        "PYTHONPATH",
    ],
)
def test_what_only_resembles_a_secret_passes(name: str) -> None:
    assert child_environment({name: "x"}) == {name: "x", **FIXED}


@pytest.mark.parametrize(
    "name",
    [
        "BASH_ENV",
        "ENV",
        "SHELLOPTS",
        "BASHOPTS",
        "PS4",
        "IFS",
        "CDPATH",
        "PROMPT_COMMAND",
        "BASH_FUNC_ls%%",
        "GLOBIGNORE",
    ],
)
def test_what_changes_how_a_shell_reads_a_command_does_not_pass(name: str) -> None:
    assert child_environment({name: "x"}) == FIXED
    assert child_environment({name: "x"}, only=[name], keep=[name]) == FIXED


def test_an_allow_list_lets_only_its_names_pass_and_what_nothing_works_without() -> None:
    base = {"PATH": "/bin", "HOME": "/h", "LC_ALL": "C", "CARGO_HOME": "/c", "CARGO_TOKEN": "t", "EDITOR": "vim"}
    want = {"PATH": "/bin", "HOME": "/h", "LC_ALL": "C", "CARGO_HOME": "/c", **FIXED}
    assert child_environment(base, only=["CARGO_*"]) == want


def test_a_secret_passes_where_it_is_named() -> None:
    assert child_environment({"GH_TOKEN": "t", "A_TOKEN": "u"}, keep=["GH_TOKEN"]) == {"GH_TOKEN": "t", **FIXED}
    assert child_environment({"GH_TOKEN": "t"}, only=[], keep=["GH_TOKEN"]) == {"GH_TOKEN": "t", **FIXED}


names = st.text(string.ascii_uppercase + "_", min_size=1, max_size=12)


@given(st.dictionaries(names, st.text(max_size=3)), st.lists(names, max_size=3))
def test_no_setting_adds_what_the_user_has_not_or_lets_an_unnamed_secret_pass(
    base: dict[str, str], only: list[str]
) -> None:
    for result in (child_environment(base), child_environment(base, only=only)):
        assert {name for name in result if is_secret_name(name)} == set()
        assert {name: value for name, value in result.items() if name not in FIXED}.items() <= base.items()


@given(names, st.sampled_from(["KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL", "CREDENTIALS"]))
def test_every_name_that_ends_in_a_secret_word_is_one(prefix: str, word: str) -> None:
    assert is_secret_name(f"{prefix}_{word}")
