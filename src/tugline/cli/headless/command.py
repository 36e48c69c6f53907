"""`tugline -p`: from the flags to a run."""

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial

from msgspec import structs

from tugline import __version__
from tugline.cli import streams
from tugline.cli.ansi import columns, is_terminal, palette
from tugline.cli.arguments import Arguments, as_text
from tugline.cli.headless.ending import Cards
from tugline.cli.headless.notices import error_lines
from tugline.cli.headless.printer import JsonResult, PlainText, Printer, Uuids
from tugline.cli.headless.prompt import LIMIT, read_prompt
from tugline.cli.headless.run import HeadlessRun
from tugline.cli.headless.stream_json import StreamJson
from tugline.cli.story import Story
from tugline.cli.version import PROTOCOL_LEVEL
from tugline.observe.debug_log import DebugLog
from tugline.options import Options
from tugline.protocol.errors import UsageError
from tugline.rules.rule import Kind, RuleError, parse_rule
from tugline.rules.terminal import clean, clean_controls
from tugline.runtime.system import new_uuid


def run_headless(arguments: Arguments, closed: frozenset[int], log: DebugLog | None) -> int:
    """Run the prompt of the command line and of stdin; the exit code. `closed`: descriptors that were closed."""
    if 1 in closed:
        streams.complain("stdout is closed, so no answer can be shown. Add: > /dev/null")
        return 1
    try:
        if arguments.resume is not None:
            from tugline.cli.picker import settle_resume  # noqa: PLC0415  imported here: start-up cost

            arguments = structs.replace(arguments, resume=settle_resume(arguments.resume))
        options = make_options(arguments)
    except UsageError as error:
        streams.complain(clean(str(error)))
        return 2
    run = HeadlessRun(
        options,
        lambda cards: make_printer(arguments, options.session_id or "", cards),
        story=make_story(arguments),
        around=partial(replaying, arguments.replay) if arguments.replay else None,
        log=log,
    )
    return run.run(lambda: read_prompt(arguments.prompt))


def make_printer(arguments: Arguments, session: str, cards: Cards) -> Printer:
    """The format that was asked for."""
    match arguments.output_format:
        case "json":
            return JsonResult(session, Uuids(new_uuid()), cards)
        case "stream-json":
            return StreamJson(
                session,
                Uuids(new_uuid()),
                cards,
                level=PROTOCOL_LEVEL,
                version=__version__,
                partial_messages=arguments.partial,
                hook_events=arguments.hook_events,
            )
        case _:
            return PlainText(clean if is_terminal(1) else clean_controls)


def make_story(arguments: Arguments) -> Story | None:
    """What goes on, told on stderr: in text format, if a person sits there or asked for it."""
    if arguments.output_format != "text" or not (arguments.verbose or (is_terminal(2) and not arguments.bare)):
        return None
    return Story(palette(2, os.environ), columns(2))


def make_options(arguments: Arguments) -> Options:
    """The session's options; reads the files that the flags name."""
    resumes = arguments.continue_session or arguments.resume is not None
    _check_rules("--allowed-tools", arguments.allowed_tools, "allow")
    _check_rules("--disallowed-tools", arguments.disallowed_tools, "deny")
    return Options(
        model=arguments.model,
        fallback_model=arguments.fallback_model,
        add_dirs=arguments.add_dirs,
        builtin_tools=arguments.tools,
        allowed_tools=arguments.allowed_tools,
        disallowed_tools=arguments.disallowed_tools,
        permission_mode=arguments.permission_mode,
        system_prompt=_words(arguments.system_prompt, arguments.system_prompt_file, "--system-prompt-file"),
        append_system_prompt=_words(
            arguments.append_system_prompt, arguments.append_system_prompt_file, "--append-system-prompt-file"
        ),
        max_turns=arguments.max_turns,
        max_budget_usd=arguments.max_budget_usd,
        effort=arguments.effort,
        thinking_tokens=arguments.thinking_tokens,
        settings=arguments.settings,
        setting_sources=arguments.setting_sources,
        instruction_files=() if arguments.bare else None,
        no_hooks=arguments.bare,
        trust=arguments.trust or None,
        # known beforehand, so that the result line of a run that could not begin carries it too
        session_id=arguments.session_id or (None if resumes and not arguments.fork_session else new_uuid()),
        resume=arguments.resume,
        continue_session=arguments.continue_session,
        fork_session=arguments.fork_session,
        title=arguments.name,
        record=arguments.record,
        debug=arguments.debug,
    )


def _check_rules(flag: str, rules: Sequence[str], kind: Kind) -> None:
    for rule in rules:
        try:
            parse_rule(rule, kind)
        except RuleError as error:
            raise UsageError(f"{flag}: {error}.") from None


def _words(given: str | None, path: str | None, flag: str) -> str | None:
    if path is None:
        return None if given is None else as_text(given)
    try:
        with open(path, "rb") as file:
            data = file.read(LIMIT + 1)
        if len(data) > LIMIT:
            raise UsageError(f"{flag}: {as_text(path)} is larger than {LIMIT >> 20} MB.")
        return data.decode()
    except OSError as error:
        raise UsageError(f"{flag}: {as_text(path)} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{flag}: {as_text(path)} is not UTF-8 text (byte {error.start}).") from None


@asynccontextmanager
async def replaying(path: str, options: Options) -> AsyncIterator[Options]:
    """Inside, a scripted model answers the session from the script at `path`, over HTTP on loopback."""
    from tugline.testing.model_server import ModelServer  # noqa: PLC0415  imported here: start-up cost
    from tugline.testing.reading import load_script  # noqa: PLC0415  imported here: start-up cost

    async with ModelServer(load_script(path), lenient=True, keep_requests=False) as server:
        environ = pointed_at(server.url, server.openai_url, os.environ)
        yield structs.replace(options, environ=environ)
        if summary := server.summary():
            streams.say(error_lines(f"{path}: {summary}"))


def pointed_at(anthropic_url: str, openai_url: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a session whose models are all at these addresses, reached directly and without a key."""
    dropped = ("ANTHROPIC_AUTH_TOKEN", "HTTP_PROXY", "ALL_PROXY", "http_proxy", "all_proxy")
    kept = {name: value for name, value in environ.items() if name not in dropped}
    key = "scripted"
    return kept | {
        "ANTHROPIC_BASE_URL": anthropic_url,
        "ANTHROPIC_API_KEY": key,
        "OPENAI_BASE_URL": openai_url,
        "OPENAI_API_KEY": key,
    }
