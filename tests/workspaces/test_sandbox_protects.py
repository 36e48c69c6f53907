"""What lies in a folder that commands may write, and that they may not write all the same."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from sandboxing import cell, needs_sandbox

from tugline.workspaces.layout import ABSENT
from tugline.workspaces.placeholders import Placeholders, is_placeholder, sweep
from tugline.workspaces.sandbox import mend
from tugline.workspaces.sandbox_state import SandboxState

HOOK = "#!/bin/sh\necho evil\n"


def git(folder: Path, *words: str) -> str:
    configured = ("-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main")
    environ = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(folder)}
    ended = subprocess.run(["git", *configured, *words], cwd=folder, env=environ, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    git(folder, "init")
    (folder / "a.txt").write_text("a")
    git(folder, "add", ".")
    git(folder, "commit", "-m", "one")
    return folder


SETTINGS = {
    "a settings file": "echo evil > .tugline/settings.json",
    "a new settings file": "echo evil > .tugline/settings.local.json",
    "its folder, moved away": "mv .tugline x && mkdir .tugline && echo evil > .tugline/settings.json",
    "its folder, removed": "rm -rf .tugline; mkdir .tugline && echo evil > .tugline/settings.json",
    "a link in its place": "ln -sfn /tmp .tugline; ln -sf /tmp/x .tugline/settings.json",
    "the folder above, moved away": "cd ..; mv work x; mkdir -p work/.tugline && echo e > work/.tugline/settings.json",
    "settings of another tool": "mkdir -p .claude && echo evil > .claude/settings.json",
    "servers": "echo evil > .mcp.json; ln -s /tmp/x .mcp.json; mv a.txt .mcp.json",
    "tasks of an editor": "mkdir -p .vscode && echo evil > .vscode/tasks.json",
    "a hook": "echo evil > .git/hooks/pre-commit",
    "a hook by moving": "echo evil > h; mv h .git/hooks/pre-commit",
    "the hooks' folder": "mv .git/hooks x; mkdir .git/hooks; echo evil > .git/hooks/pre-commit",
    "the configuration": "git config core.hooksPath /tmp/evil; git config core.fsmonitor evil",
    "the configuration by moving": "echo evil > c; mv c .git/config; rm -f .git/config; cp c .git/config",
    "the whole repository": "mv .git x; cp -r x .git; echo evil > .git/hooks/pre-commit",
    "another configuration": "mkdir evil; echo ../evil > .git/commondir",
}


@pytest.mark.parametrize("exists", [True, False], ids=["there", "absent"])
@pytest.mark.parametrize("what", SETTINGS)
@needs_sandbox
async def test_what_programs_obey_stays_as_it_is(tmp_path: Path, work: Path, what: str, exists: bool) -> None:
    if exists:
        for name in (".tugline/settings.json", ".claude/settings.json", ".mcp.json", ".vscode/tasks.json"):
            (work / name).parent.mkdir(exist_ok=True)
            (work / name).write_text("{}")
    else:
        for hook in (work / ".git" / "hooks").iterdir():
            hook.unlink()
        (work / ".git" / "hooks").rmdir()

    def guarded() -> dict[str, str]:
        places = [work / ".mcp.json", work / ".git" / "config", work / ".git" / "commondir"]
        places += [p for name in (".tugline", ".claude", ".vscode", ".git/hooks") for p in (work / name).rglob("*")]
        return {str(place): place.read_text() for place in places if place.is_file()}

    before = guarded()
    async with cell(tmp_path) as made:
        await made.run(SETTINGS[what])
        assert guarded() == before
        # and nothing that was put there for the time of the command is left
        assert [name for name in ABSENT if is_placeholder(str(work / name))] == []
        assert (work / ".tugline").exists() == exists


@needs_sandbox
async def test_git_works_as_ever(tmp_path: Path, work: Path) -> None:
    (work / "b.txt").write_text("b")
    environ = {
        "GIT_AUTHOR_NAME": "A",
        "GIT_AUTHOR_EMAIL": "a@b.c",
        "GIT_COMMITTER_NAME": "A",
        "GIT_COMMITTER_EMAIL": "a@b.c",
    }
    async with cell(tmp_path) as made:
        script = (
            "set -e; git status --short; git add -A; git commit -qm two; git checkout -qb other; git stash list; "
            "echo c > c.txt; git stash -qu; git stash pop -q; "
            "git clean -nd; git rebase -q main; git branch; git gc -q; git log --format=%s"
        )
        ran = await made.run(script, env=environ)
    assert ran.status == 0, ran.text
    assert ran.text.splitlines()[0] == "?? b.txt"
    assert ran.text.splitlines()[-2:] == ["two", "one"]
    assert git(work, "log", "--format=%s", "other").split() == ["two", "one"]


@needs_sandbox
async def test_git_works_in_a_work_tree_whose_repository_lies_outside(tmp_path: Path) -> None:
    main = tmp_path / "repository"
    main.mkdir()
    git(main, "init")
    git(main, "commit", "--allow-empty", "-m", "one")
    git(main, "worktree", "add", "-b", "side", str(tmp_path / "work"))
    before = (main / ".git" / "config").read_text()
    environ = {
        "GIT_AUTHOR_NAME": "A",
        "GIT_AUTHOR_EMAIL": "a@b.c",
        "GIT_COMMITTER_NAME": "A",
        "GIT_COMMITTER_EMAIL": "a@b.c",
    }
    async with cell(tmp_path) as made:
        ran = await made.run("echo x > x && git add x && git commit -qm two && git log --format=%s", env=environ)
        assert ran.text.split() == ["two", "one"]
        evil = f"echo evil > {main}/.git/hooks/pre-commit; echo evil > {main}/.git/config; echo evil > {main}/x"
        await made.run(evil)
        await made.run("echo gitdir: /tmp/evil > .git; mv .git x")
    assert git(main, "log", "--format=%s", "side").split() == ["two", "one"]
    assert not (main / ".git" / "hooks" / "pre-commit").exists()
    assert not (main / "x").exists()
    assert (main / ".git" / "config").read_text() == before


@needs_sandbox
async def test_a_folder_that_claims_a_repository_that_does_not_know_it_gets_nothing(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    git(victim, "init")
    git(victim, "commit", "--allow-empty", "-m", "one")
    git(victim, "worktree", "add", "-b", "side", str(tmp_path / "real"))
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / ".git").write_text((tmp_path / "real" / ".git").read_text())
    async with cell(tmp_path) as made:
        ran = await made.run(f"echo evil > {victim}/.git/worktrees/real/HEAD; echo evil > {victim}/.git/refs/heads/x")
    assert ran.status != 0
    assert not (victim / ".git" / "refs" / "heads" / "x").exists()


@needs_sandbox
async def test_a_link_among_the_settings_is_put_back(tmp_path: Path, work: Path) -> None:
    (tmp_path / "shared").mkdir()
    (work / ".claude").symlink_to(tmp_path / "shared")
    async with cell(tmp_path) as made:
        ran = await made.run("rm .claude; mkdir .claude; echo evil > .claude/settings.json")
    assert os.readlink(work / ".claude") == str(tmp_path / "shared")
    assert list((tmp_path / "shared").iterdir()) == []
    assert any("took away" in note and ".claude" in note for note in ran.notes)
    # nothing is lost: what stood there lies beside it
    moved = [path for path in work.iterdir() if path.name.startswith(".claude.from-sandbox-")]
    assert [(path / "settings.json").read_text() for path in moved] == ["evil\n"]


@needs_sandbox
async def test_own_folders_are_out_of_reach_wherever_they_lie(tmp_path: Path) -> None:
    config, home = tmp_path / "work" / "conf" / "tugline", tmp_path / "work" / "home"
    home.mkdir(parents=True)
    async with cell(tmp_path, own=(str(config),)) as made:
        ran = await made.run("mkdir -p conf/tugline; echo evil > conf/tugline/settings.json; mv conf x")
    assert ran.status != 0
    assert not config.exists()


@needs_sandbox
async def test_in_the_home_folder_the_files_of_the_shell_stay(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / ".bashrc").write_text("kept")
    async with cell(tmp_path, roots=(str(home),)) as made:
        await made.run(
            f"cd {home}; for f in .bashrc .profile .zshenv .gitconfig; do echo evil > $f; done; "
            "mkdir .ssh; echo e > .ssh/k; touch fine"
        )
    assert sorted(path.name for path in home.iterdir()) == [".bashrc", "fine"]
    assert (home / ".bashrc").read_text() == "kept"


@needs_sandbox
async def test_settings_open_and_close_places(tmp_path: Path) -> None:
    for name in ("outside", "work/shut", "work/.vscode"):
        (tmp_path / name).mkdir(parents=True)
    writable = (str(tmp_path / "outside"), str(tmp_path / "work" / ".vscode"))
    async with cell(tmp_path, read_only=(str(tmp_path / "work" / "shut"),), writable=writable) as made:
        ran = await made.run("echo 1 > ../outside/f && echo 1 > .vscode/f && echo 1 > f; echo 1 > shut/f; mv shut x")
    assert ran.status != 0
    found = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("f"))
    assert found == ["outside/f", "work/.vscode/f", "work/f"]


# -- what stands in for what is missing --------------------------------------------------------------------------------


def test_a_placeholder_is_taken_away_by_the_last_who_holds_it(tmp_path: Path) -> None:
    place = str(tmp_path / ".claude")
    first, second = Placeholders(), Placeholders()
    assert first.hold([place]) == [place]
    assert is_placeholder(place)
    assert second.hold([place]) == [place]
    first.release()
    assert is_placeholder(place)
    second.release()
    assert not os.path.lexists(place)


def test_what_somebody_made_is_never_taken_away(tmp_path: Path) -> None:
    for name in ("full", "empty"):
        (tmp_path / name).mkdir()
    (tmp_path / "full" / "file").write_text("kept")
    held = Placeholders()
    held.hold([str(tmp_path / "full"), str(tmp_path / "empty")])
    held.release()
    sweep([str(tmp_path / "full"), str(tmp_path / "empty"), str(tmp_path / "full" / "file"), str(tmp_path / "none")])
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["empty", "file", "full"]


def test_what_a_killed_process_left_behind_is_cleared_away_by_the_next(tmp_path: Path) -> None:
    above, work = tmp_path / "state", tmp_path / "work"
    work.mkdir()
    program = (
        "import os, signal, sys\n"
        "from tugline.workspaces.placeholders import Placeholders\n"
        "from tugline.workspaces.sandbox_state import SandboxState\n"
        "state = SandboxState(sys.argv[1]); place = os.path.join(sys.argv[2], '.claude')\n"
        "state.note([place]); Placeholders().hold([place])\n"
        "open(os.path.join(state.tmp, 'file'), 'w').close(); os.mkdir(os.path.join(state.tmp, 'shut'), 0)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(above), str(work)], check=False)
    assert is_placeholder(str(work / ".claude"))
    assert len(list(above.iterdir())) == 1
    state = SandboxState(str(above))
    try:
        assert list(work.iterdir()) == []
        assert [str(path) for path in above.iterdir()] == [state.folder]
        # one that is alive keeps its own
        other = SandboxState(str(above))
        assert sorted(str(path) for path in above.iterdir()) == sorted([state.folder, other.folder])
        other.close()
    finally:
        state.close()
    assert list(above.iterdir()) == []


def test_what_is_watched_and_as_it_was_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("there")
    watched = [(str(tmp_path / "link"), "there"), (str(tmp_path / "none"), None)]
    assert mend(watched) == []
    (tmp_path / "none").write_text("x")
    assert mend(watched) == [str(tmp_path / "none")]
    assert not (tmp_path / "none").exists()
