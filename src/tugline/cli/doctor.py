"""`tugline doctor`: what works here, what does not, and the remedy."""

from collections.abc import Sequence

import anyio

from tugline.app.checkup import Finding, examine
from tugline.cli import streams
from tugline.cli.ansi import Palette, palette
from tugline.cli.arguments import read_arguments
from tugline.cli.help import DOCTOR
from tugline.options import Options
from tugline.protocol.codec import encode, to_plain
from tugline.protocol.errors import UsageError
from tugline.rules.terminal import clean

_COLOURS = {"ok": "green", "note": "dim", "warning": "yellow", "problem": "red"}
_OWN = ("--json",)


def doctor(words: Sequence[str]) -> int:
    """Say what was found; 0 where nothing that is set up fails, else 1."""
    if "--help" in words or "-h" in words:
        return streams.put(DOCTOR)
    given = read_arguments([word for word in words if word not in _OWN])
    if given.prompt is not None or given.headless or given.command:
        raise UsageError("`tugline doctor` takes --json and flags that are settings.")
    options = Options(
        settings=given.settings, setting_sources=given.setting_sources, trust=given.trust, model=given.model
    )
    return anyio.run(_report, options, "--json" in words)


async def _report(options: Options, as_json: bool) -> int:
    import os  # noqa: PLC0415  imported here: start-up cost

    found: list[Finding] = []
    colours = palette(1, os.environ)
    part = ""
    async for finding in examine(options):
        found.append(finding)
        if not as_json:
            ended = streams.put(_lines(finding, colours, heading=finding.part != part))
            part = finding.part
            if ended:
                return ended
    bad = sum(finding.state == "problem" for finding in found)
    if as_json:
        told = {"ok": not bad, "findings": [to_plain(finding) for finding in found]}
        ended = streams.put(encode(told).decode() + "\n")
    else:
        ended = streams.put(f"\n{bad} problem{'' if bad == 1 else 's'}.\n" if bad else "\nNo problems.\n")
    return ended or (1 if bad else 0)


def _lines(finding: Finding, colours: Palette, *, heading: bool) -> str:
    text = ": ".join(part for part in (finding.name, finding.text) if part)
    lines = [f"\n{finding.part}"] if heading else []
    lines.append(f"  {colours.paint(f'{finding.state:<8}', _COLOURS[finding.state])} {_shown(text)}")
    if finding.remedy:
        lines.append(f"           {_shown(finding.remedy)}")
    return "\n".join(lines) + "\n"


def _shown(text: str) -> str:
    return clean(text).replace("\n", "\\n").replace("\t", " ")
