"""`tugline config`: show the settings, their schema, and the files of instructions."""

from collections.abc import Sequence

from tugline.app.config import load_config
from tugline.cli import streams
from tugline.cli.arguments import read_arguments
from tugline.cli.help import CONFIG
from tugline.options import Options
from tugline.protocol.codec import decode_json, encode, to_plain
from tugline.protocol.errors import UsageError


def show_config(words: Sequence[str]) -> int:
    """`show [--origin] [--json]`, `context [--json]` or `schema`; the exit code."""
    if not words or "--help" in words or "-h" in words:
        return streams.put(CONFIG)
    what, *rest = words
    match what:
        case "schema" if not rest:
            from tugline.config.show import schema_text  # noqa: PLC0415  imported here: start-up cost

            return streams.put(schema_text())
        case "show":
            return _show(rest)
        case "context":
            return _show_context(rest)
    raise UsageError(
        f"`tugline config {' '.join(words)}` is nothing I know. There are: config show, config context, config schema."
    )


def _show(words: Sequence[str]) -> int:
    from tugline.config.show import render, rows  # noqa: PLC0415  imported here: start-up cost

    config = load_config(_options("show", words, ("--origin", "--json")))
    if "--json" in words:
        plain = {
            "settings": {row.name: {"value": decode_json(row.value), "origin": row.origin} for row in rows(config)},
            "hooks": [to_plain(hook) for hook in config.hooks],
            "problems": [to_plain(problem) for problem in config.problems],
        }
        return streams.put(encode(plain).decode() + "\n")
    return streams.put(render(config, origin="--origin" in words))


def _show_context(words: Sequence[str]) -> int:
    from tugline.app.briefing import survey_instructions  # noqa: PLC0415  imported here: start-up cost
    from tugline.cli.context import render_survey, survey_json  # noqa: PLC0415  imported here: start-up cost

    found = survey_instructions(_options("context", words, ("--json",)))
    return streams.put(survey_json(found) if "--json" in words else render_survey(found))


def _options(command: str, words: Sequence[str], own: Sequence[str]) -> Options:
    """The options of a session with these words, less the command's own flags."""
    given = read_arguments([word for word in words if word not in own])
    if given.prompt is not None or given.headless:
        raise UsageError(f"`tugline config {command}` takes {', '.join(own)} and flags that are settings.")
    return Options(
        settings=given.settings,
        setting_sources=given.setting_sources,
        instruction_files=() if given.bare else None,
        no_hooks=given.bare,
        trust=given.trust or None,
        model=given.model,
        permission_mode=given.permission_mode,
        allowed_tools=given.allowed_tools,
        disallowed_tools=given.disallowed_tools,
        add_dirs=given.add_dirs,
    )
