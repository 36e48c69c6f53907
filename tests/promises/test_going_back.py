"""Going back: files are what they were before a prompt, and nobody else's work is lost."""

from pathlib import Path

import pytest
from workshop import Workshop, doing, shell

from tugline.app.line_counts import line_counter, session_contents
from tugline.config.folders import find_folders
from tugline.protocol.specs import FileStep
from tugline.rules.changes import changes
from tugline.testing import call


async def test_what_tools_and_commands_changed_comes_back_prompt_by_prompt(tmp_path: Path) -> None:
    shop = Workshop(tmp_path, files={"a.txt": "one\n", "b.txt": "b\n", "run.sh": "echo\n"})
    shop.write("untracked.txt", "mine\n")
    script = [
        *doing(call("Read", file_path="a.txt"), call("Write", file_path="a.txt", content="two\n"),
               call("Write", file_path="new/n.txt", content="new\n")),
        *doing(shell("rm b.txt untracked.txt; echo three > a.txt; mkdir -p d/e; echo x > d/e/f; chmod 755 run.sh")),
        *doing(shell("ln -s a.txt link; mv a.txt moved.txt")),
    ]  # fmt: skip
    states = []
    async with shop.session(script) as session:
        for words in ("one", "two", "three"):
            states.append(shop.tree())
            await session.run(words)
        last = shop.tree()
        prompts = await session.prompts()
        for index in (2, 1, 0):
            steps = (await session.rewind(prompts[index].id, "files")).files
            assert {step.do for step in steps} <= {"restore", "delete", "recreate"}
            assert shop.tree() == states[index]
        assert not (shop.work / "d").exists()
        assert not (shop.work / "new").exists()
        await session.undo_rewind()
        assert shop.tree() == states[1]
    assert last != states[2]
    assert shop.git("status", "--porcelain") != ""


async def test_each_change_is_put_down_to_the_calls_that_made_it(tmp_path: Path) -> None:
    shop = Workshop(tmp_path, files={"a.txt": "one\n"})
    script = doing(
        call("Write", file_path="n.txt", content="n\n"), shell("echo more >> a.txt"), call("Bash", command="cat a.txt")
    )
    async with shop.session(script) as session:
        await session.run("Go")
    made = [(record.calls, [change.path for change in record.files]) for record in shop.changes()]
    assert [paths for _, paths in made] == [["n.txt"], ["a.txt"]]
    assert all(len(calls) == 1 for calls, _ in made)
    assert made[0][0] != made[1][0]
    count = line_counter(
        session_contents(find_folders(shop.environ, str(shop.folder)).checkpoints, str(shop.transcript))
    )
    (turn,) = changes(shop.records(), count)
    assert [(one.calls[0].title, one.files[0].kind, one.files[0].lines) for one in turn.sets] == [
        ("n.txt", "created", (1, 0)), ("echo more >> a.txt", "changed", (1, 0)),
    ]  # fmt: skip


@pytest.mark.parametrize("git", [True, False])
async def test_a_rewind_leaves_what_somebody_else_changed_alone(tmp_path: Path, git: bool) -> None:
    shop = Workshop(tmp_path, git=git, files={"a.txt": "one\n", "mine.txt": "mine\n"})
    script = doing(call("Read", file_path="a.txt"), call("Write", file_path="a.txt", content="two\n"))
    async with shop.session(script) as session:
        await session.run("Go")
        shop.write("a.txt", "by the person\n")
        shop.write("mine.txt", "changed\n")
        (prompt,) = await session.prompts()
        conflict = FileStep("a.txt", "conflict", "somebody else has changed it")
        assert (await session.rewind_preview(prompt.id)).files == (conflict,)
        assert (await session.rewind(prompt.id, "files")).files == (conflict,)
        assert (shop.work / "a.txt").read_text() == "by the person\n"
        await session.rewind(prompt.id, "files", force=True)
        assert (shop.work / "a.txt").read_text() == "one\n"
        await session.undo_rewind()
        assert (shop.work / "a.txt").read_text() == "by the person\n"
        assert (shop.work / "mine.txt").read_text() == "changed\n"


async def test_the_repository_is_not_touched(tmp_path: Path) -> None:
    shop = Workshop(tmp_path, files={"a.txt": "one\n", ".gitignore": "ignored\n"})
    shop.write("a.txt", "staged\n")
    shop.git("add", "a.txt")
    shop.write("a.txt", "not staged\n")
    shop.write("ignored", "secret\n")
    repository = {path: path.read_bytes() for path in sorted((shop.work / ".git").rglob("*")) if path.is_file()}
    async with shop.session(doing(shell("rm a.txt; echo new > n; echo other > ignored"))) as session:
        await session.run("Go")
        (prompt,) = await session.prompts()
        await session.rewind(prompt.id, "both")
    assert repository == {path: path.read_bytes() for path in sorted((shop.work / ".git").rglob("*")) if path.is_file()}
    assert (shop.work / "a.txt").read_text() == "not staged\n"
    assert (shop.work / "ignored").read_text() == "other\n"
    for path in shop.checkpoints.rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path
    assert not list(shop.checkpoints.glob("*/work/*"))
