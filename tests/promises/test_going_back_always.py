"""Whatever tools and commands did, in whatever order: going back to a prompt gives the files of that moment."""

import os
import shlex
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from workshop import Workshop, doing, shell

import tugline
from tugline.protocol.script import Step
from tugline.testing import ScriptedProvider, call

NAMES = ("a", "b.txt", "d/x", "d/y", "d", "e/f/g", "b.txt/z", "line\nend", "sp ace 'q'", "-rf", ".hidden/x", 'b:\\"c')
BAD_NAME = "$'bad\\xff\\x80'"
"""No UTF-8, as bash writes it."""
WORDS = ("", "one\n", "two\n", "crlf\r\n", "x" * 5_000)


@tugline.tool
async def put(context: tugline.ToolContext, path: str, content: str) -> str:
    """A tool of the user's own, that writes through the workspace."""
    place = context.workspace.resolve(path, context.state.cwd)[0]
    await context.workspace.write(place, content.encode(), expect=await context.workspace.stat(place))
    return "written"


def command(template: str, *names: str) -> str:
    return template.format(*(name if name.startswith("$'") else shlex.quote(f"./{name}") for name in names))


name = st.sampled_from(NAMES)
any_name = st.sampled_from((*NAMES, BAD_NAME))
word = st.sampled_from(WORDS)
tool_calls = st.builds(lambda path, content: call("put", path=path, content=content), name, word)
commands = st.one_of(
    st.builds(
        lambda n, w: command('mkdir -p "$(dirname {0} 2>/dev/null)"; printf %s ' + shlex.quote(w) + " > {0}", n),
        any_name, word,
    ),
    st.builds(lambda n: command("rm -rf {0}", n), any_name),
    st.builds(lambda a, b: command("mv {0} {1}", a, b), any_name, any_name),
    st.builds(lambda a, b: command("ln -sfn {0} {1}", a, b), name, any_name),
    st.builds(lambda n, m: command("chmod " + m + " {0}", n), any_name, st.sampled_from(("755", "600", "640"))),
    st.builds(lambda n, w: command("printf %s " + shlex.quote(w) + " >> {0}", n), any_name, word),
    st.sampled_from(
        ["git add -A; git stash -q", "git commit -qam x", "git rm -rq --cached .", "git reset -q --hard", "git gc -q"]
    ),
)  # fmt: skip
calls = st.one_of(tool_calls, commands.map(lambda text: shell(f"{text}; true")))
turns = st.lists(st.lists(calls, min_size=1, max_size=2), min_size=1, max_size=3)


async def play(folder: Path, first: list[list[Any]], second: list[list[Any]], back: int) -> None:
    shop = Workshop(folder, files={"a": "committed\n", "d/x": "x\n", "d/y": "y\n", "e/f/g": "g\n"})
    shop.write("b.txt", "untracked\n")
    environment = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a"}
    shop.environ |= {**environment, "GIT_COMMITTER_EMAIL": "a@b"}
    script: list[Step] = [step for turn in (*first, *second) for step in doing(*turn)]
    states = []
    async with shop.session(provider=ScriptedProvider(script), tools=[put]) as session:

        async def run(some: list[list[Any]]) -> None:
            for _ in some:
                states.append(shop.tree())
                await session.run("Go")

        async def back_to(index: int) -> None:
            prompt, now = (await session.prompts())[index], shop.tree()
            if (await session.rewind(prompt.id, "files")).files:
                await session.undo_rewind()
                assert shop.tree() == now
            steps = (await session.rewind(prompt.id, "files")).files
            assert not [step for step in steps if step.do in ("conflict", "lost")]
            assert shop.tree() == states[index]

        await run(first)
        await back_to(back % len(states))
        here = shop.tree()
        await run(second)
        assert states[len(first)] == here if second else True
        await back_to(back * 7 % len(states))


@settings(max_examples=6, suppress_health_check=[HealthCheck.too_slow])
@given(turns, turns, st.integers(0, 5))
@example([[shell(command("rm -rf {0}; mkdir -p {0}; echo x > {0}/z", "b.txt"))]], [], 0)
@example([[shell("rm -rf d; echo x > d")]], [], 0)
@example([[shell(f"echo one > {BAD_NAME}")], [shell(f"rm {BAD_NAME}")]], [], 1)
async def test_a_rewind_gives_the_files_of_that_moment(first: Any, second: Any, back: int) -> None:
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        await play(Path(folder), first, second, back)


persons = st.lists(st.tuples(name, word), max_size=2)


async def play_with_a_person(folder: Path, moves: list[tuple[list[Any], list[tuple[str, str]]]], back: int) -> None:
    shop = Workshop(folder, files={"a": "committed\n", "d/x": "x\n"})
    script: list[Step] = [step for turn, _ in moves for step in doing(*turn)]
    theirs: dict[bytes, Any] = {}

    def still_theirs() -> dict[bytes, Any]:
        tree = shop.tree()
        return {path: file for path, file in theirs.items() if tree.get(path) == file}

    async with shop.session(provider=ScriptedProvider(script), tools=[put]) as session:
        for _, edits in moves:
            await session.run("Go")
            theirs = still_theirs()
            for path, content in edits:
                target = shop.work / path
                if (
                    not target.is_dir()
                    and not any(above.is_file() for above in target.parents)
                    and not target.is_symlink()
                ):
                    shop.write(path, content + "by the person\n")
                    theirs[os.fsencode(path)] = shop.tree().get(os.fsencode(path))
        theirs = still_theirs()
        prompts = await session.prompts()
        await session.rewind(prompts[back % len(prompts)].id, "files")
        assert still_theirs() == theirs


@settings(max_examples=5, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.lists(calls, min_size=1, max_size=2), persons), min_size=1, max_size=3), st.integers(0, 3))
async def test_a_rewind_takes_nothing_from_the_person(moves: Any, back: int) -> None:
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        await play_with_a_person(Path(folder), moves, back)
