"""Paths: resolved as the kernel does it, compared by components."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tugline.ports import WorkspaceError
from tugline.workspaces.paths import is_forbidden, is_inside, resolve


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Folders and links in all directions."""
    root = Path(os.path.realpath(tmp_path_factory.mktemp("tree")))
    (root / "a/b").mkdir(parents=True)
    (root / "c").mkdir()
    (root / "a/file").write_text("x")
    (root / "c/up").symlink_to("../a/b")
    (root / "a/abs").symlink_to(root / "c")
    (root / "a/b/dot").symlink_to(".")
    (root / "gone").symlink_to("nowhere/x")
    (root / "c/chain").symlink_to("up/../../gone")
    return str(root)


def test_names_keep_their_links_and_targets_do_not(tree: str) -> None:
    assert resolve("c/up", tree) == (f"{tree}/c/up", f"{tree}/a/b")
    assert resolve("c/up/new.txt", tree) == (f"{tree}/c/up/new.txt", f"{tree}/a/b/new.txt")
    assert resolve(f"{tree}/./a//abs/", "/") == (f"{tree}/a/abs", f"{tree}/c")


def test_dots_after_a_link_lead_to_the_parent_of_its_target(tree: str) -> None:
    assert resolve("c/up/../file", tree) == (f"{tree}/a/file", f"{tree}/a/file")
    assert resolve("../../../../../../../../..", tree) == ("/", "/")


def test_dangling_links_lead_to_what_is_not_there(tree: str) -> None:
    assert resolve("gone/y", tree) == (f"{tree}/gone/y", f"{tree}/nowhere/x/y")
    assert resolve("c/chain", tree) == (f"{tree}/c/chain", f"{tree}/nowhere/x")


def test_home_is_the_users(monkeypatch: pytest.MonkeyPatch, tree: str) -> None:
    monkeypatch.setenv("HOME", tree)
    assert resolve("~", "/")[0] == tree
    assert resolve("~/a", "/")[0] == f"{tree}/a"
    assert resolve("~x", tree)[0] == f"{tree}/~x"


def test_loops_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b/x")
    (tmp_path / "b").symlink_to("a/y")
    with pytest.raises(WorkspaceError, match="too many links") as caught:
        resolve("a", str(tmp_path))
    assert caught.value.kind == "invalid"


@pytest.mark.parametrize("path", ["", " ", "a\0", "\ud800", "x" * 300])
def test_what_is_no_path_is_refused(path: str, tree: str) -> None:
    with pytest.raises(WorkspaceError) as caught:
        resolve(path, tree)
    assert caught.value.kind == "invalid"


def test_inside_is_decided_by_components() -> None:
    assert is_inside("/proj/a", "/proj")
    assert is_inside("/proj", "/proj/")
    assert is_inside("/proj", "/")
    assert not is_inside("/proj-evil", "/proj")
    assert not is_inside("/pro", "/proj")
    assert not is_inside("/", "/proj")


def test_kernel_files_are_forbidden_but_not_what_only_sounds_like_them() -> None:
    assert is_forbidden("/proc/self/mem")
    assert is_forbidden("/dev")
    assert not is_forbidden("/device")
    assert not is_forbidden("/home/dev")


steps = st.lists(
    st.sampled_from(["a", "b", "c", "up", "abs", "dot", "gone", "chain", "file", "new", "..", ".", ""]), max_size=9
)


@given(steps)
def test_targets_are_those_of_the_system(tree: str, path: list[str]) -> None:
    written = "/".join([tree, *path])
    name, target = resolve(written, "/")
    assert target == os.path.realpath(written)
    assert os.path.realpath(name) == target
    assert ".." not in name.split("/")
    assert resolve(target, "/") == (target, target)
