"""The words of the command line, typed."""

import math
import os
import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from tugline.cli.flags import BY_NAME, COMMANDS, LATER_COMMANDS, LATER_FLAGS, TOOL_NAMES, Flag
from tugline.protocol.errors import UsageError
from tugline.protocol.specs import Effort, Mode

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


class Arguments(Struct, frozen=True, kw_only=True):
    """What was asked for. `command` is a sub-command and `rest` its own words; else the fields are the flags."""

    command: str = ""
    rest: tuple[str, ...] = ()
    prompt: str | None = None
    headless: bool = False
    model: str | None = None
    fallback_model: str | None = None
    output_format: str = "text"
    input_format: str = "text"
    partial: bool = False
    hook_events: bool = False
    verbose: bool = False
    max_turns: int | None = None
    max_budget_usd: float | None = None
    thinking_tokens: int | None = None
    effort: Effort | None = None
    allowed_tools: tuple[str, ...] = ()
    disallowed_tools: tuple[str, ...] = ()
    tools: tuple[str, ...] | None = None
    permission_mode: Mode | None = None
    skip_permissions: bool = False
    add_dirs: tuple[str, ...] = ()
    system_prompt: str | None = None
    system_prompt_file: str | None = None
    append_system_prompt: str | None = None
    append_system_prompt_file: str | None = None
    settings: str | None = None
    setting_sources: tuple[str, ...] | None = None
    session_id: str | None = None
    continue_session: bool = False
    resume: str | None = None
    fork_session: bool = False
    name: str | None = None
    trust: bool = False
    bare: bool = False
    debug: bool = False
    record: str | None = None
    replay: str | None = None
    version: bool = False
    help: bool = False


def read_arguments(argv: Sequence[str]) -> Arguments:
    """The words as `Arguments`; raises `UsageError` that names the word and the nearest right one.

    A sub-command is one only as the first word. A prompt may stand anywhere among the flags, or after `--`.
    """
    if argv and argv[0] in COMMANDS:
        return Arguments(command=argv[0], rest=tuple(argv[1:]))
    if argv and argv[0] in LATER_COMMANDS:
        raise UsageError(f"`tugline {argv[0]}` is not available in this version. To send that word: tugline -- WORD")
    words = _Words(argv)
    words.read()
    values = words.values
    if len(words.prompts) > 1:
        first, second = (repr(_short(prompt)) for prompt in words.prompts[:2])
        raise UsageError(f"There are two prompts, {first} and {second}. Put quotes around the whole prompt.")
    if words.prompts:
        values["prompt"] = as_text(words.prompts[0])
    _check_together(values)
    return Arguments(**values)


class _Words:
    """Reads one word after the other."""

    def __init__(self, argv: Sequence[str]) -> None:
        self.values: dict[str, Any] = {}
        self.prompts: list[str] = []
        self._argv = argv
        self._at = 0

    def read(self) -> None:
        while self._at < len(self._argv):
            word = self._argv[self._at]
            self._at += 1
            if word == "--":
                self.prompts.extend(self._argv[self._at :])
                return
            if word.startswith("-") and word != "-":
                self._read_flag(word)
            else:
                self.prompts.append(word)

    def _read_flag(self, word: str) -> None:
        name, equals, value = word.partition("=")
        flag = BY_NAME.get(name)
        if flag is None:
            raise UsageError(_unknown(name))
        if flag.kind == "switch":
            if equals:
                raise UsageError(f"{name} takes no value.")
            self.values[flag.field] = True
            return
        if not equals and flag.kind == "maybe":
            more = self._at < len(self._argv) and not _is_flag(self._argv[self._at])
            value = self._argv[self._at] if more else ""
            self._at += more
            self.values[flag.field] = as_text(value)
            return
        if not equals:
            if self._at >= len(self._argv) or _is_flag(self._argv[self._at]):
                hint = f" If the value begins with a dash: {name}=VALUE" if self._at < len(self._argv) else ""
                raise UsageError(f"{name} needs a value ({flag.placeholder}).{hint}")
            value = self._argv[self._at]
            self._at += 1
        if not value and not flag.empty:
            raise UsageError(f"{name} needs a value ({flag.placeholder}), not an empty one.")
        self._take(flag, name, value)

    def _take(self, flag: Flag, name: str, value: str) -> None:
        match flag.kind:
            case "words":
                rules = [*split_rules(value), *self._more(_is_rule)]
                self._take_rules(flag, rules)
            case "folders":
                self.values[flag.field] = (*self.values.get(flag.field, ()), value, *self._more(os.path.isdir))
            case _:
                self.values[flag.field] = _typed(flag, name, value)

    def _take_rules(self, flag: Flag, rules: list[str]) -> None:
        if flag.field == "tools" and rules == ["default"]:
            self.values["tools"] = None
            return
        before = self.values.get(flag.field) or ()
        self.values[flag.field] = (*before, *(rule for rule in rules if rule not in before))

    def _more(self, fits: Any) -> list[str]:
        """Further values of a flag that takes several: as many words as are plainly values and no prompt."""
        found: list[str] = []
        while self._at < len(self._argv) and not _is_flag(self._argv[self._at]) and fits(self._argv[self._at]):
            found.append(self._argv[self._at])
            self._at += 1
        return found


def _is_flag(word: str) -> bool:
    return word.startswith("-") and word != "-" and (word == "--" or not _is_number(word))


def _is_number(word: str) -> bool:
    return re.fullmatch(r"-[\d.]+", word) is not None


def _is_rule(word: str) -> bool:
    rules = split_rules(word)
    return bool(rules) and all(
        rule in TOOL_NAMES or rule.startswith("mcp__") or (rule.partition("(")[0] in TOOL_NAMES and rule.endswith(")"))
        for rule in rules
    )


def _typed(flag: Flag, name: str, value: str) -> Any:
    match flag.kind:
        case "choice":
            return _choice(flag, name, value)
        case "whole":
            if not re.fullmatch(r"\d{1,9}", value) or (int(value) < 1 and flag.field == "max_turns"):
                raise UsageError(f"{name} must be a whole number{_least(flag)}, not {_short(value)!r}.")
            return int(value)
        case "money":
            return _money(name, value)
        case "sources":
            return _sources(flag, name, value)
        case "uuid":
            if not _UUID.fullmatch(value):
                raise UsageError(f"{name} must be a UUID such as 4f0c3b5e-8a52-4c5d-9d6b-0f5c7d1c2b3a.")
            return value.lower()
        case _:
            return value


def _least(flag: Flag) -> str:
    return " of at least 1" if flag.field == "max_turns" else ""


def _choice(flag: Flag, name: str, value: str) -> str:
    if value in flag.choices:
        return "default" if value == "manual" else value
    if flag.field == "input_format" and value == "stream-json":
        raise UsageError("--input-format stream-json is not available in this version.")
    near = _near(value, flag.choices)
    raise UsageError(f"{name} must be one of {', '.join(flag.choices)}, not {_short(value)!r}.{near}")


def _money(name: str, value: str) -> float:
    try:
        amount = float(value)
    except ValueError:
        amount = math.nan
    if not (0 < amount < math.inf):
        raise UsageError(f"{name} must be an amount in USD above 0, not {_short(value)!r}.")
    return amount


def _sources(flag: Flag, name: str, value: str) -> tuple[str, ...]:
    sources = tuple(part.strip() for part in value.split(",") if part.strip())
    for source in sources:
        if source not in flag.choices:
            near = _near(source, flag.choices)
            raise UsageError(f"{name} takes {', '.join(flag.choices)}, separated by commas, not {source!r}.{near}")
    return sources


def split_rules(text: str) -> list[str]:
    """Rules separated by commas or blanks, those inside parentheses apart."""
    rules: list[str] = []
    depth, current = 0, ""
    for char in text:
        if depth == 0 and (char == "," or char.isspace()):
            rules.append(current)
            current = ""
            continue
        depth += (char == "(") - (char == ")" and depth > 0)
        current += char
    rules.append(current)
    return [rule for rule in rules if rule]


def _check_together(values: dict[str, Any]) -> None:
    for name in ("system_prompt", "append_system_prompt"):
        if name in values and f"{name}_file" in values:
            flag = "--" + name.replace("_", "-")
            raise UsageError(f"{flag} and {flag}-file cannot both be given.")
    if values.get("skip_permissions"):
        mode = values.setdefault("permission_mode", "bypassPermissions")
        if mode != "bypassPermissions":
            raise UsageError(f"--dangerously-skip-permissions and --permission-mode {mode} contradict each other.")
    if values.get("partial") and values.get("output_format", "text") != "stream-json":
        raise UsageError("--include-partial-messages needs --output-format stream-json.")
    if values.get("hook_events") and values.get("output_format", "text") != "stream-json":
        raise UsageError("--include-hook-events needs --output-format stream-json.")
    if "resume" in values and values.get("continue_session"):
        raise UsageError("--resume and --continue cannot both be given.")
    resumes = "resume" in values or values.get("continue_session", False)
    if values.get("fork_session") and not resumes:
        raise UsageError("--fork-session needs --resume or --continue.")
    if resumes and "session_id" in values and not values.get("fork_session"):
        raise UsageError("--session-id with --resume or --continue needs --fork-session: a session keeps its id.")
    if "record" in values and "replay" in values:
        raise UsageError("--record and --replay cannot both be given.")


def _unknown(name: str) -> str:
    if name in LATER_FLAGS:
        return f"{name} is not available in this version."
    known = [spelling for spelling in BY_NAME if spelling.startswith("--")]
    return f"There is no flag {_short(name)}.{_near(name, known) or ' See `tugline --help`.'}"


def _near(word: str, known: Sequence[str]) -> str:
    from difflib import get_close_matches  # noqa: PLC0415  imported here: start-up cost

    found = get_close_matches(word, known, 1)
    return f" Did you mean {found[0]}?" if found else ""


def _short(text: str) -> str:
    return as_text(text if len(text) <= 60 else text[:57] + "...")


def as_text(word: str) -> str:
    """A word of the command line as text: bytes that are no UTF-8 become replacement characters."""
    return word if word.isascii() else os.fsencode(word).decode("utf-8", "replace")
