"""What the commands of `tugline policy` share: the calls and the settings that their words name."""

from collections.abc import Mapping, Sequence
from typing import Any

from tugline.app.calls import BadCall, parse_call
from tugline.app.config import load_config
from tugline.app.policy import Desk, make_desk
from tugline.app.standing_policy import policy_of
from tugline.cli.arguments import Arguments, read_arguments
from tugline.config.load import Config
from tugline.options import Options
from tugline.protocol.codec import DecodeError, decode_json
from tugline.protocol.errors import UsageError


def call_of(words: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """A call in one or two words: `Bash(git push)`, `Edit '{"file_path": …}'`, or JSON with tool and input."""
    if len(words) == 2:
        return words[0], _object(words[1], f"the input of {words[0]}")
    if len(words) != 1:
        raise UsageError("One call, such as 'Bash(git push)', or a tool and its input as JSON.")
    if words[0].lstrip().startswith("{"):
        found = _object(words[0], "the call")
        tool, given = found.get("tool"), found.get("input", {})
        if not isinstance(tool, str) or not isinstance(given, dict):
            raise BadCall('A call as JSON is {"tool": NAME, "input": {…}}.')
        return tool, given
    return parse_call(words[0])


def _object(text: str, what: str) -> dict[str, Any]:
    try:
        found = decode_json(text.encode("utf-8", "replace"))
    except (DecodeError, RecursionError) as error:
        raise BadCall(f"{what} is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise BadCall(f"{what} must be a JSON object")
    return found


def read_words(command: str, words: Sequence[str]) -> tuple[list[str], Arguments]:
    """Words that are not flags, and the flags: those of a session that are settings."""
    own, flags, plain = list(words), [], []
    while own:
        word = own.pop(0)
        if word == "--":
            plain += own
            break
        if word.startswith("-") and word != "-":
            flags.append(word)
            if "=" not in word and word not in ("--trust", "--json", "--dangerously-skip-permissions") and own:
                flags.append(own.pop(0))
        else:
            plain.append(word)
    arguments = read_arguments(flags)
    if arguments.headless or arguments.prompt is not None:
        raise UsageError(f"`tugline policy {command}` takes flags that are settings; see `tugline policy --help`.")
    return plain, arguments


def config_of(given: Arguments, settings: str | Mapping[str, Any] | None = None) -> Config:
    """The configuration that a session would have here; `ConfigError` for rules that cannot be read."""
    config = load_config(
        Options(
            settings=given.settings if settings is None else settings,
            setting_sources=given.setting_sources,
            trust=given.trust,
            permission_mode=given.permission_mode,
            allowed_tools=given.allowed_tools,
            disallowed_tools=given.disallowed_tools,
            add_dirs=given.add_dirs,
        )
    )
    config.require_sound()
    return config


def desk_of(config: Config) -> Desk:
    """Where calls are judged by a configuration."""
    return make_desk(policy_of(config))
