"""`tugline demo`: the main job of tugline on a small project, with a scripted model and real tools."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from msgspec import structs

from tugline.cli import streams
from tugline.cli.ansi import Palette, columns, palette
from tugline.cli.headless.command import pointed_at
from tugline.cli.headless.printer import PlainText
from tugline.cli.headless.run import HeadlessRun
from tugline.cli.help import DEMO
from tugline.cli.story import Story
from tugline.options import Options
from tugline.protocol.errors import UsageError
from tugline.protocol.events import TurnFinished
from tugline.rules.terminal import clean

PROMPT = "A test of this project fails. Find out why, mend it, and show that all tests pass."
ALLOWED = ("Bash(python3 -m unittest)", "Edit(/shop/**)")
"""What the demo needs beyond reading; all else would be denied, as in any run with nobody to ask."""
TESTS = ("-m", "unittest")


def demo(words: Sequence[str], closed: frozenset[int]) -> int:
    """Run the demo; 0 only if the tests of the sample pass at the end, 1 if not."""
    if "--help" in words or "-h" in words:
        return streams.put(DEMO)
    if any(word != "--keep" for word in words):
        raise UsageError("`tugline demo` takes no arguments but --keep.")
    if 1 in closed:
        streams.complain("stdout is closed, so nothing can be shown.")
        return 1
    with tempfile.TemporaryDirectory(prefix="tugline-demo-state-") as state:
        folder = os.path.realpath(tempfile.mkdtemp(prefix="tugline-demo-"))
        try:
            _copy(files("tugline.cli.demo").joinpath("project"), folder)
            return _Demo(folder, state, keep="--keep" in words).run()
        finally:
            if "--keep" not in words:
                shutil.rmtree(folder, ignore_errors=True)


def _copy(source: Traversable, target: str) -> None:
    """The sample project; its files end in `.txt` so that no tool takes them for part of our own code."""
    os.makedirs(target, exist_ok=True)
    for entry in source.iterdir():
        name = os.path.join(target, entry.name.removesuffix(".txt"))
        if entry.is_dir():
            _copy(entry, name)
        else:
            with open(name, "wb") as file:
                file.write(entry.read_bytes())


class _Demo:
    """One run of the demo in a folder of its own."""

    def __init__(self, folder: str, state: str, *, keep: bool) -> None:
        self._folder = folder
        self._keep = keep
        self._environ = _environment(os.environ, state)
        self._palette = palette(1, os.environ)
        self._leftover = ""

    def run(self) -> int:
        paint = self._palette.paint
        code = streams.put(
            f"{paint('tugline demo', 'bold')}: a scripted model over HTTP, real tools, no key\n"
            f"{paint(f'The project is a copy in {self._folder}', 'dim')}\n\n"
            f"{paint('>', 'cyan', 'bold')} {paint(PROMPT, 'bold')}\n"
        )
        if code:
            return code
        # the shell of the tools inherits this; the scripted model is to be found by nobody else
        os.environ.clear()
        os.environ.update(self._environ)
        options = Options(cwd=self._folder, allowed_tools=ALLOWED, setting_sources=(), model="claude-sonnet-4-5")
        run = HeadlessRun(
            options,
            lambda cards: _Answer(self._palette),
            story=Story(self._palette, columns(1)),
            tell=streams.put_quietly,
            around=self._served,
        )
        code = run.run(lambda: PROMPT)
        if code:
            return code
        if run.finished is None or self._leftover:
            streams.complain(f"the demo did not go as scripted: {self._leftover}")
            return 1
        return self._check(run.finished)

    @asynccontextmanager
    async def _served(self, options: Options) -> AsyncIterator[Options]:
        from tugline.testing.model_server import ModelServer  # noqa: PLC0415  imported here: start-up cost
        from tugline.testing.reading import parse_script  # noqa: PLC0415  imported here: start-up cost

        text = files("tugline.cli.demo").joinpath("script.yaml").read_text("utf-8")
        async with ModelServer(parse_script(text, "script.yaml"), lenient=True, keep_requests=False) as server:
            yield structs.replace(options, environ=pointed_at(server.url, server.openai_url, self._environ))
            self._leftover = server.summary()

    def _check(self, finished: TurnFinished) -> int:
        """Believe nobody: run the tests ourselves."""
        command = [sys.executable, *TESTS]
        tests = subprocess.run(
            command, cwd=self._folder, env=self._environ, capture_output=True, timeout=60, check=False
        )
        if tests.returncode:
            streams.complain("the tests of the sample project do not pass: the demo failed.")
            streams.say(clean(tests.stderr.decode("utf-8", "replace"))[-2_000:])
            return 1
        where = f"The copy is in {self._folder}" if self._keep else "The copy was removed (--keep leaves it)"
        figures = f"{finished.steps} steps, {finished.duration:.1f} s, ${finished.total_cost_usd:.4f} had it been real"
        line = f"{figures}. The tests were run once more and pass. {where}."
        return streams.put(f"\n{self._palette.paint(line, 'dim')}\n")


class _Answer(PlainText):
    """The answer, set apart from what led to it."""

    def __init__(self, palette: Palette) -> None:
        super().__init__(lambda text: f"\n{palette.paint(palette.dot, 'green')} {clean(text).rstrip()}\n")


def _environment(environ: Mapping[str, str], state: str) -> dict[str, str]:
    """The user's environment without what would change the demo, and with a place of its own for what it writes."""
    dropped = ("TUGLINE_", "ANTHROPIC_", "OPENAI_", "CLAUDE_", "PYTHON")
    kept = {name: value for name, value in environ.items() if not name.startswith(dropped)}
    kept["TUGLINE_HOME"] = state
    kept["PYTHONDONTWRITEBYTECODE"] = "1"
    kept["PATH"] = _with_python3(kept.get("PATH", os.defpath), state)
    return kept


def _with_python3(path: str, state: str) -> str:
    """A PATH on which `python3` is the Python that runs us."""
    folder = os.path.join(state, "bin")
    os.makedirs(folder, exist_ok=True)
    Path(folder, "python3").symlink_to(sys.executable)
    return f"{folder}{os.pathsep}{path}"
