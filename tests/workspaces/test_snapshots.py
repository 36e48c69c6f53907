"""Looks at work trees of every kind: what changed, and that the repository neither runs anything nor is touched."""

import os
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from living import alive
from workshop import Workshop

from tugline.config.folders import make_private
from tugline.ports import Moved, Unlookable
from tugline.rules.rewinding import digest_of
from tugline.stores.contents import Contents
from tugline.workspaces.snapshots import Limits, Shelf, WorkTree


class Looker:
    """A work tree and our store beside it."""

    def __init__(self, shop: Workshop, *, root: Path | None = None, search: str = "", **limits: Any) -> None:
        self.root = root or shop.work
        self.contents = Contents(str(shop.folder / "kept"), make_private)
        shelf = Shelf(
            data=str(shop.folder / "kept"),
            excludes=b"*.everywhere",
            search=search or os.environ["PATH"],
            objects=self.contents.objects,
            put=self.contents.put,
            has=self.contents.has,
            own=self.contents.own,
            make=make_private,
        )
        self.make: Callable[[], WorkTree] = lambda: WorkTree(
            str(self.root), str(shop.folder / "kept/work/s/0"), shelf, Limits(**limits)
        )
        self.tree = self.make()

    def look(self) -> list[Moved]:
        found = self.tree.look()
        self.tree.settle()
        return found

    def names(self) -> dict[str, str]:
        """What a look found, by name: `+` made, `-` gone, `~` another one."""
        return {
            os.path.relpath(one.path, self.root): "+" if one.before is None else "-" if one.after is None else "~"
            for one in self.look()
        }

    def former(self, name: str, found: list[Moved]) -> bytes | None:
        (one,) = (one for one in found if one.path == str(self.root / name))
        assert one.before is not None
        return self.contents.get(one.before.digest)


def make(tmp_path: Path, has: dict[str, str | bytes] | None = None, **given: Any) -> tuple[Workshop, Looker]:
    shop = Workshop(tmp_path, files={"a.txt": "a\n", "d/b.txt": "b\n"} if has is None else has)
    return shop, Looker(shop, **given)


def test_a_look_finds_what_was_made_changed_and_removed(tmp_path: Path) -> None:
    shop, looker = make(tmp_path)
    shop.write("untracked", "u\n")
    assert looker.look() == []
    shop.write("a.txt", "other\n")
    shop.write("new/n", "n\n")
    (shop.work / "untracked").unlink()
    (shop.work / "d/b.txt").chmod(0o600)
    found = looker.look()
    kinds = {os.path.relpath(one.path, shop.work): (one.before is None, one.after is None) for one in found}
    assert kinds == {
        "a.txt": (False, False), "new/n": (True, False), "untracked": (False, True), "d/b.txt": (False, False),
    }  # fmt: skip
    assert looker.former("a.txt", found) == b"a\n"
    assert looker.former("untracked", found) == b"u\n"
    assert {one.after.mode for one in found if one.path.endswith("b.txt") and one.after} == {0o600}
    assert looker.look() == []


def test_a_file_that_is_written_again_and_again_is_seen_each_time(tmp_path: Path) -> None:
    shop, looker = make(tmp_path)
    looker.look()
    for letter in "xyzxyz":
        shop.write("a.txt", f"{letter}\n")
        assert looker.names() == {"a.txt": "~"}


def test_a_change_within_one_second_that_keeps_the_size_is_seen(tmp_path: Path) -> None:
    """git compares whole seconds, and looks closer only at files that are as young as its index."""
    shop, looker = make(tmp_path)
    past = (time.time_ns() // 1_000_000_000 - 10) * 1_000_000_000
    os.utime(shop.work / "a.txt", ns=(past, past))
    looker.look()
    shop.write("a.txt", "x\n")
    os.utime(shop.work / "a.txt", ns=(past + 1, past + 1))
    assert looker.names() == {"a.txt": "~"}


def test_what_git_ignores_is_left_out_but_not_what_it_tracks_all_the_same(tmp_path: Path) -> None:
    shop, looker = make(tmp_path, {".gitignore": "build/\n*.log\n", "kept.txt": ""})
    shop.write("kept.log", "tracked\n")
    shop.git("add", "-f", "kept.log")
    (shop.work / ".git/info/exclude").write_text("mine\n")
    looker.look()
    for name in ("build/x", "y.log", "mine", "z.everywhere", "kept.log", "seen"):
        shop.write(name, "changed\n")
    assert looker.names() == {"kept.log": "~", "seen": "+"}


def test_nothing_of_the_repository_runs_and_contents_are_as_they_are(tmp_path: Path) -> None:
    shop, looker = make(tmp_path, {"a.txt": "$Id$ a\r\nb\n"})
    attributes = "* filter=evil text eol=crlf ident diff=evil working-tree-encoding=UTF-16\n"
    shop.write(".gitattributes", attributes)
    shop.write(".git/info/attributes", attributes)
    marker = shop.folder / "ran"
    hook = shop.write(".git/hooks/post-index-change", f"#!/bin/sh\ntouch {marker}\n")
    hook.chmod(0o755)
    config = f"""[core]
    fsmonitor = touch {marker}
    hooksPath = {hook.parent}
    autocrlf = true
    sshCommand = touch {marker}
[filter "evil"]
    clean = touch {marker}; cat
    smudge = touch {marker}; cat
    process = touch {marker}
    required = true
[diff "evil"]
    textconv = touch {marker}
[include]
    path = {shop.folder}/nowhere
"""
    (shop.work / ".git/config").write_text(config)
    looker.look()
    shop.write("a.txt", "other\r\n")
    found = looker.look()
    assert looker.former("a.txt", found) == b"$Id$ a\r\nb\n"
    assert found[0].after is not None
    assert found[0].after.digest == digest_of(b"other\r\n")
    assert not marker.exists()


def test_names_links_and_kinds_of_every_sort(tmp_path: Path) -> None:
    shop, looker = make(tmp_path)
    top = os.fsencode(shop.work)
    looker.look()
    odd = [b"new\nline", b'tab\tq"uote\\', b"\xff\xfe", b"-rf", b" lead", b":(glob)x", b"*", "é".encode(), b"git~1"]
    for name in odd:
        Path(os.fsdecode(os.path.join(top, name))).write_bytes(name)
    (shop.work / "link").symlink_to("nowhere\n")
    (shop.work / "out").symlink_to("/etc")
    os.mkfifo(shop.work / "pipe")
    found = {os.fsencode(one.path)[len(top) + 1 :]: one.after for one in looker.look()}
    assert set(found) == {*odd, b"link", b"out"}
    assert all((state is not None and state.digest == digest_of(name)) for name, state in found.items() if name in odd)
    link = found[b"link"]
    assert link is not None
    assert (link.link, looker.contents.get(link.digest)) == (True, b"nowhere\n")
    for name in odd:
        os.unlink(os.path.join(top, name))
    assert {os.fsencode(one.path)[len(top) + 1 :] for one in looker.look() if one.after is None} == set(odd)


def test_a_file_becomes_a_folder_and_back(tmp_path: Path) -> None:
    shop, looker = make(tmp_path)
    looker.look()
    (shop.work / "a.txt").unlink()
    shop.write("a.txt/inside", "x\n")
    assert looker.names() == {"a.txt": "-", "a.txt/inside": "+"}
    (shop.work / "a.txt/inside").unlink()
    (shop.work / "a.txt").rmdir()
    (shop.work / "a.txt").symlink_to("d")
    assert looker.names() == {"a.txt": "+", "a.txt/inside": "-"}


def repository_unborn(shop: Workshop) -> Path:
    return shop.work


def repository_detached(shop: Workshop) -> Path:
    shop.git("checkout", "-q", "--detach")
    return shop.work


def repository_linked(shop: Workshop) -> Path:
    shop.git("worktree", "add", "-q", "../linked")
    return shop.folder / "linked"


def repository_sparse(shop: Workshop) -> Path:
    shop.git("sparse-checkout", "set", "--sparse-index", "d")
    return shop.work


def repository_merging(shop: Workshop) -> Path:
    shop.git("checkout", "-q", "-b", "side")
    shop.write("a.txt", "side\n")
    shop.git("commit", "-qam", "side")
    shop.git("checkout", "-q", "main")
    shop.write("a.txt", "main\n")
    shop.git("commit", "-qam", "main")
    subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a", "merge", "-q", "side"], cwd=shop.work, check=False
    )
    assert (shop.work / ".git/MERGE_HEAD").exists()
    return shop.work


def repository_split(shop: Workshop) -> Path:
    shop.git("update-index", "--split-index")
    return shop.work


def repository_damaged(shop: Workshop) -> Path:
    for name in ("HEAD", "index", "config"):
        (shop.work / ".git" / name).write_bytes(b"\0garbage")
    for path in (shop.work / ".git/objects").glob("??/*"):
        path.unlink()
    return shop.work


def repository_sha256(shop: Workshop) -> Path:
    other = shop.folder / "other"
    shop.git("init", "-q", "--object-format=sha256", str(other))
    (other / "d").mkdir()
    (other / "d/b.txt").write_text("b\n")
    shop.git("add", "-A", cwd=other)
    return other


def repository_packed(shop: Workshop) -> Path:
    shop.git("gc", "-q", "--prune=now")
    return shop.work


def repository_elsewhere(shop: Workshop) -> Path:
    """With a colon and quotes in its name, which separate and quote in git's list of stores."""
    place = shop.folder / 'a:"b\\'
    shop.work.rename(place)
    return place


KINDS = [value for name, value in sorted(globals().items()) if name.startswith("repository_")]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__.removeprefix("repository_"))
def test_a_repository_of_any_kind_can_be_looked_at(tmp_path: Path, kind: Any) -> None:
    shop = Workshop(tmp_path, git=kind is not repository_unborn, files={"a.txt": "a\n", "d/b.txt": "b\n"})
    if kind is repository_unborn:
        shop.git("init", "-q")
    looker = Looker(shop, root=kind(shop))
    git = looker.root / ".git"
    before = {path: path.read_bytes() for path in git.rglob("*") if path.is_file()} if git.is_dir() else {}
    looker.look()
    (looker.root / "d/b.txt").write_text("other\n")
    (looker.root / "new").write_text("new\n")
    found = looker.look()
    assert {os.path.relpath(one.path, looker.root) for one in found} == {"d/b.txt", "new"}
    assert looker.former("d/b.txt", found) == b"b\n"
    assert before == ({path: path.read_bytes() for path in git.rglob("*") if path.is_file()} if git.is_dir() else {})


def test_what_the_repository_forgets_is_kept_here(tmp_path: Path) -> None:
    shop, looker = make(tmp_path)
    looker.look()
    shop.write("a.txt", "other\n")
    found = looker.look()
    shop.git("commit", "-qam", "other", "--amend")
    shop.git("reflog", "expire", "--expire=now", "--all")
    shop.git("gc", "-q", "--prune=now")
    assert looker.former("a.txt", found) == b"a\n"


def test_repositories_inside_are_looked_at_too(tmp_path: Path) -> None:
    shop, looker = make(tmp_path)
    shop.git("init", "-q", "empty")
    shop.write("empty/file", "e\n")
    inner = shop.work / "inner"
    shop.git("init", "-q", str(inner))
    shop.write("inner/x", "x\n")
    shop.git("add", "-A", cwd=inner)
    shop.git("commit", "-qm", "inner", cwd=inner)
    shop.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "sub")
    assert looker.look() == []
    for name in ("inner/x", "sub/x", "empty/file", "a.txt"):
        shop.write(name, "changed\n")
    found = looker.look()
    names = {os.path.relpath(one.path, shop.work) for one in found}
    assert names == {"inner/x", "sub/x", "empty/file", "a.txt"}
    assert looker.former("sub/x", found) == b"x\n"


def test_our_own_folder_in_the_tree_is_no_part_of_it(tmp_path: Path) -> None:
    shop, _ = make(tmp_path)
    shop.folder = shop.work
    looker = Looker(shop)
    looker.look()
    shop.write("kept/more", "x\n")
    assert looker.names() == {}


def test_a_file_that_is_too_large_or_secret_is_told_of_without_its_content(tmp_path: Path) -> None:
    shop, looker = make(tmp_path, file_bytes=1_000)
    shop.write("big", "x" * 2_000)
    looker.look()
    shop.write("big", "y" * 2_001)
    shop.write("a.txt", "z" * 1_001)
    found = {os.path.basename(one.path): one for one in looker.look()}
    assert found["big"].before is not None
    assert found["big"].before.digest == ""
    assert found["a.txt"].after is not None
    assert found["a.txt"].after.digest == ""
    assert looker.contents.get(digest_of(b"a\n")) == b"a\n"


def limited(tmp_path: Path, words: str, **given: Any) -> None:
    _, looker = make(tmp_path, **given)
    with pytest.raises(Unlookable, match=words):
        looker.look()


def test_a_tree_that_is_too_large_is_not_looked_at(tmp_path: Path) -> None:
    limited(tmp_path, "more than 1 files", files=1)


def test_too_many_bytes_are_not_looked_at(tmp_path: Path) -> None:
    limited(tmp_path, "sessionBytes", total_bytes=3)


def test_without_git_there_is_no_look(tmp_path: Path) -> None:
    limited(tmp_path, "git is not installed", search=str(tmp_path))


def test_a_git_that_hangs_is_ended(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    git = tmp_path / "bin/git"
    git.write_text(f"#!/bin/sh\n/bin/sleep 60 & echo $! > {tmp_path}/pid; wait\n")
    git.chmod(0o755)
    limited(tmp_path, "too long", search=str(git.parent), seconds=0.3)
    pid = int((tmp_path / "pid").read_text())
    while alive(pid):  # it was killed, which takes a moment
        time.sleep(0.01)


def test_a_look_that_is_broken_off_loses_nothing(tmp_path: Path) -> None:
    shop, looker = make(tmp_path)
    looker.look()
    shop.write("a.txt", "other\n")
    (tmp_path / "bin").mkdir()
    git = tmp_path / "bin/git"
    git.write_text(f"#!/bin/sh\n/usr/bin/touch {tmp_path}/runs; /bin/sleep 60\n")
    git.chmod(0o755)
    looker.tree._git._search = str(git.parent)  # the same tree, with a git that hangs
    broken: list[str] = []

    def look() -> None:
        try:
            looker.tree.look()
        except Unlookable as error:
            broken.append(str(error))

    thread = threading.Thread(target=look)
    thread.start()
    while not (tmp_path / "runs").exists():
        time.sleep(0.005)  # the other thread's process says that it runs by this file
    looker.tree.stop()
    thread.join(10)
    assert broken == ["it was broken off"]
    looker.tree._git._search = os.environ["PATH"]
    assert looker.names() == {"a.txt": "~"}


def test_what_was_not_settled_is_told_again_also_by_another_process(tmp_path: Path) -> None:
    shop, looker = make(tmp_path)
    looker.look()
    shop.write("a.txt", "other\n")
    looker.tree.mark(["call_1"])
    assert len(looker.tree.look()) == 1
    assert len(looker.tree.look()) == 1
    after = looker.make()
    assert after.marked() == ["call_1"]
    found = after.look()
    assert [(os.path.basename(one.path), one.before and one.before.digest) for one in found] == [
        ("a.txt", digest_of(b"a\n"))
    ]


def test_a_folder_that_is_gone_is_said(tmp_path: Path) -> None:
    shop, looker = make(tmp_path)
    looker.look()
    shop.work.rename(shop.folder / "away")
    with pytest.raises(Unlookable, match="is gone"):
        looker.look()


def test_a_content_that_the_repository_has_lost_is_not_taken_for_kept(tmp_path: Path) -> None:
    shop, looker = make(tmp_path)
    for path in (shop.work / ".git/objects").glob("??/*"):
        path.chmod(0o600)
        path.write_bytes(b"")
    looker.look()
    shop.write("a.txt", "other\n")
    assert looker.former("a.txt", looker.look()) is None
    assert looker.tree.trouble or not looker.contents.has(digest_of(b"a\n"))


def reveal_by_rules(shop: Workshop) -> None:
    shop.write(".gitignore", "")


def reveal_by_tracking(shop: Workshop) -> None:
    shop.git("add", "-f", "secret.env")


def reveal_by_removing_a_repository(shop: Workshop) -> None:
    (shop.work / "inner/.git").rename(shop.folder / "away")


REVEALS = [value for name, value in sorted(globals().items()) if name.startswith("reveal_")]


@pytest.mark.parametrize("reveal", REVEALS, ids=lambda one: one.__name__.removeprefix("reveal_by_"))
def test_what_was_only_hidden_before_is_not_taken_for_made(tmp_path: Path, reveal: Any) -> None:
    shop, looker = make(tmp_path, {".gitignore": "*.env\n"})
    shop.write("secret.env", "key\n")
    shop.git("init", "-q", "inner")
    shop.write("inner/x", "x\n")
    looker.look()
    looker.look()
    reveal(shop)
    shop.write("made", "by the call\n")
    assert {name for name, kind in looker.names().items() if kind == "+"} == {"made"}
    shop.write("secret.env", "another one\n")
    shop.write("inner/x", "another one\n")
    assert set(looker.names()) >= ({"inner/x"} if reveal is reveal_by_removing_a_repository else {"secret.env"})
