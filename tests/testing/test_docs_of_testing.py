"""The pages about testing keep what they promise: their examples run."""

import inspect
import re
from pathlib import Path
from typing import Any, get_args

import pytest

from tugline.protocol.script import CutKind
from tugline.testing import parse_script, reading

DOCS = Path(__file__).parents[2] / "docs"
GUIDE = (DOCS / "how-to" / "test-your-agent.md").read_text()
REFERENCE = (DOCS / "reference" / "model-script.md").read_text()


def examples(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


def namespace() -> dict[str, Any]:
    names: dict[str, Any] = {}
    for example in examples(GUIDE, "python"):
        exec(compile(example, "test-your-agent.md", "exec", dont_inherit=True), names)
    return names


TESTS = re.findall(r"async def (test_\w+)", GUIDE)


@pytest.mark.parametrize("name", TESTS)
async def test_an_example_of_the_guide_passes(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUGLINE_HOME", str(tmp_path / "home"))
    work = tmp_path / "work"
    work.mkdir()
    example = namespace()[name]
    given = {"tmp_path": work, "monkeypatch": monkeypatch}
    await example(**{key: given[key] for key in inspect.signature(example).parameters})


async def test_the_suite_of_the_guide_passes() -> None:
    suite = namespace()["TestGreet"]()
    for name in dir(suite):
        if name.startswith("test_"):
            made = getattr(suite, name)()
            if made is not None:
                await made


@pytest.mark.parametrize("example", examples(REFERENCE, "yaml"))
def test_an_example_of_the_reference_is_a_script(example: str) -> None:
    script = parse_script(example)
    assert script.steps


def test_the_reference_names_every_key() -> None:
    named = set(re.findall(r"`(\w+)`", REFERENCE))
    keys = {*reading.STEP_KEYS, *reading.PART_KINDS, *reading.MATCH_KEYS, *get_args(CutKind)}
    assert keys <= named
