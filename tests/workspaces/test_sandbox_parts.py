"""The parts of the sandbox that need none: the filter, the order of mounts, the profile for macOS, settings."""

import struct
from pathlib import Path

import pytest

from tugline.config.load import Config, load
from tugline.rules.permission import is_excluded
from tugline.workspaces.bubblewrap import bwrap_arguments
from tugline.workspaces.denied_files import DeniedFiles
from tugline.workspaces.layout import Layout
from tugline.workspaces.seatbelt import seatbelt_profile
from tugline.workspaces.seccomp import seccomp_filter

ALLOW, EPERM, ENOSYS, EAFNOSUPPORT = 0x7FFF0000, 0x50001, 0x50026, 0x50061
ARCHES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
NUMBERS = {
    "x86_64": {"read": 0, "socket": 41, "ioctl": 16, "ptrace": 101, "clone": 56, "unshare": 272, "keyctl": 250},
    "aarch64": {"read": 63, "socket": 198, "ioctl": 29, "ptrace": 117, "clone": 220, "unshare": 97, "keyctl": 219},
}


def judged(program: bytes, arch: int, number: int, *arguments: int) -> int:
    """What the kernel would make of a call: the machine that the filter is written for, in a few lines."""
    data = struct.pack("=IIQ6Q", number, arch, 0, *[*arguments, 0, 0, 0, 0, 0, 0][:6])
    steps = list(struct.iter_unpack("=HBBI", program))
    at = register = 0
    while True:
        code, yes, no, value = steps[at]
        at += 1
        match code:
            case 0x20:
                (register,) = struct.unpack_from("=I", data, value)
            case 0x15:
                at += yes if register == value else no
            case 0x35:
                at += yes if register >= value else no
            case 0x45:
                at += yes if register & value else no
            case _:
                return int(value)


@pytest.mark.parametrize("machine", ARCHES)
@pytest.mark.parametrize("unix", [False, True])
def test_the_filter_says_the_same_on_each_machine(machine: str, unix: bool) -> None:
    program = seccomp_filter(machine, unix_sockets=unix)
    assert program is not None
    arch, numbers = ARCHES[machine], NUMBERS[machine]

    def ask(name: str, *arguments: int) -> int:
        return judged(program or b"", arch, numbers[name], *arguments)

    assert ask("read", 1, 2, 3) == ALLOW
    assert [ask(name) for name in ("ptrace", "unshare", "keyctl")] == [EPERM] * 3
    assert [judged(program, arch, number) for number in (425, 426, 427)] == [EPERM] * 3
    assert judged(program, arch, 435) == ENOSYS
    assert ask("clone", 0x11) == ALLOW
    assert ask("clone", 0x10000011) == EPERM
    assert [ask("socket", family) for family in (2, 10, 16)] == [ALLOW] * 3
    assert ask("socket", 1) == (ALLOW if unix else EAFNOSUPPORT)
    assert [ask("socket", family) for family in (0, 17, 38, 40)] == [EAFNOSUPPORT] * 4
    assert ask("ioctl", 0, 0x5401) == ALLOW
    assert [ask("ioctl", 0, request) for request in (0x5412, 0x541C, 0xFFFFFFFF00005412)] == [EPERM] * 3
    assert judged(program, 0x40000003, 11) == ENOSYS


def test_a_machine_whose_calls_are_not_known_has_no_filter() -> None:
    assert seccomp_filter("m68k") is None


LAYOUT = Layout(
    writable=("/home/u/work", "/home/u"),
    fixed=("/home/u/work/.git",),
    read_only=("/home/u/work/.git/config", "/home/u/.ssh/config"),
    absent=("/home/u/work/.mcp.json",),
    hidden_folders=("/home/u/.ssh", "/data"),
    hidden_files=("/home/u/.netrc",),
    shown=("/data/kept",),
    watched=(("/home/u/work/.git/commondir", None),),
)


def test_the_more_special_place_shows() -> None:
    words = bwrap_arguments(LAYOUT, cwd="/home/u/work", shared=("/tmp",), private="/p", empty="/e", nested=True)
    places = [word for word in words if word.startswith(("/home", "/data", "/tmp"))]
    order = list(dict.fromkeys(places))
    assert order.index("/home/u") < order.index("/home/u/work") < order.index("/home/u/work/.git")
    assert order.index("/home/u/work/.git") < order.index("/home/u/work/.git/config")
    assert order.index("/home/u") < order.index("/home/u/.ssh")
    assert order.index("/data") < order.index("/data/kept")
    # what lies in something hidden is not shown by protecting it
    assert "/home/u/.ssh/config" not in words
    assert words[-2:] == ["--chdir", "/home/u/work"]


def test_the_profile_for_macos_says_the_same() -> None:
    profile = seatbelt_profile(LAYOUT, tmp='/private/"tmp')
    lines = profile.splitlines()
    assert lines[:2] == ["(version 1)", "(deny default)"]
    assert lines[-1] == "(deny network*)"
    assert '(allow file-write* (subpath "/private/\\"tmp"))' in lines
    write = lines.index('(allow file-write* (subpath "/home/u"))')
    assert write < lines.index('(deny file-write* (subpath "/home/u/work/.git/config"))')
    assert write < lines.index('(deny file-write* (subpath "/home/u/work/.mcp.json"))')
    assert write < lines.index('(deny file-read* file-write* (subpath "/home/u/.ssh"))')
    assert '(deny file-write-unlink (literal "/home/u/work/.git"))' in lines
    assert profile.count("(") == profile.count(")")


def test_denied_files_are_found_and_found_anew_when_something_changed(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.pem").write_text("")
    looked: list[str] = []

    def hides(name: str, target: str) -> bool:
        looked.append(name)
        return name.endswith(".pem") or target.endswith(".pem")

    denied = DeniedFiles([str(tmp_path)], hides)
    assert list(denied()) == [str(tmp_path / "a" / "x.pem")]
    looked.clear()
    assert list(denied()) == [str(tmp_path / "a" / "x.pem")]
    assert looked == []
    (tmp_path / "b").symlink_to(tmp_path / "a" / "x.pem")
    (tmp_path / "c.pem").mkdir()
    assert set(denied()) == {str(tmp_path / "a" / "x.pem"), str(tmp_path / "c.pem")}
    few = DeniedFiles([str(tmp_path)], hides, limit=1)
    few()
    assert (few.truncated, denied.truncated) == (True, False)


@pytest.mark.parametrize(
    ("command", "excluded"),
    [
        ("docker ps", True),
        ("docker", True),
        ("docker ps 2>/dev/null", True),
        ("docker build . && docker push x", True),
        ("docker ps > /etc/x", False),
        ("docker ps; rm x", False),
        ("docker ps $(rm x)", False),
        ("dockerx ps", False),
        ("npm run build", True),
        ("npm run test", False),
        ("", False),
        ("docker 'unclosed", False),
    ],
)
def test_a_command_is_excluded_only_as_a_whole(command: str, excluded: bool) -> None:
    assert is_excluded(command, ["docker", "npm run build*", "", "("], "/work") is excluded


def read(tmp_path: Path, text: str, *, trusted: bool = True, layer: str = ".claude/settings.json") -> Config:
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True, exist_ok=True)
    (folder / layer).parent.mkdir(parents=True, exist_ok=True)
    (folder / layer).write_text(text)
    return load(cwd=str(folder), environ={"TUGLINE_HOME": str(tmp_path / "h")}, home=str(tmp_path), trusted=trusted)


def test_settings_of_claude_code_count_as_they_stand(tmp_path: Path) -> None:
    config = load_claude(tmp_path, trusted=True)
    sandbox = config.settings.sandbox
    assert (sandbox.enabled, sandbox.required, sandbox.auto_allow, sandbox.allow_unsandboxed_commands) == (
        True, True, False, False,
    )  # fmt: skip
    assert (sandbox.allow_write, sandbox.deny_write, sandbox.deny_read) == (("/w",), ("/d",), ("~/.x",))
    assert sandbox.excluded_commands == ("docker *",)
    assert (sandbox.network.allowed_domains, sandbox.network.denied_domains) == (("a.com",), ("b.com",))
    assert sandbox.network.allow_all_unix_sockets
    assert config.problems == ()


def load_claude(tmp_path: Path, *, trusted: bool) -> Config:
    text = """{"sandbox": {
      "enabled": true, "failIfUnavailable": true, "autoAllowBashIfSandboxed": false,
      "allowUnsandboxedCommands": false, "excludedCommands": ["docker *"],
      "filesystem": {"allowWrite": ["/w"], "denyWrite": ["/d"], "denyRead": ["~/.x"], "allowRead": ["."]},
      "network": {"allowedDomains": ["a.com"], "deniedDomains": ["b.com"], "allowAllUnixSockets": true,
                  "allowUnixSockets": ["/x"], "allowLocalBinding": true, "httpProxyPort": 8080},
      "enableWeakerNestedSandbox": false}}"""
    return read(tmp_path, text, trusted=trusted)


def test_of_a_folder_that_is_not_trusted_only_what_forbids_counts(tmp_path: Path) -> None:
    sandbox = load_claude(tmp_path, trusted=False).settings.sandbox
    assert (sandbox.enabled, sandbox.allow_write, sandbox.excluded_commands) == (False, (), ())
    assert (sandbox.deny_write, sandbox.deny_read, sandbox.network.denied_domains) == (("/d",), ("~/.x",), ("b.com",))


def test_no_project_switches_the_sandbox_off(tmp_path: Path) -> None:
    (tmp_path / "h" / "config").mkdir(parents=True)
    (tmp_path / "h" / "config" / "settings.json").write_text('{"sandbox": {"enabled": true, "required": true}}')
    config = read(tmp_path, '{"sandbox": {"enabled": false, "required": false}}', layer=".tugline/settings.json")
    assert config.settings.sandbox.enabled
    assert config.settings.sandbox.required
    assert ["is not for a project" in problem.text for problem in config.problems] == [True, True]


def test_a_host_that_is_none_is_said_and_stops_a_session_where_it_would_forbid(tmp_path: Path) -> None:
    network = '{"allowedDomains": ["a b", "ok.com"], "deniedDomains": ["*x"]}'
    text = '{"sandbox": {"network": %s, "filesystem": {"x": 1}}}'.replace("%s", network)
    config = read(tmp_path, text, layer=".tugline/settings.json")
    said = {problem.text.split(": ", 1)[1]: problem.fatal for problem in config.problems}
    assert sum(said.values()) == 1
    assert any("'a b'" in text and not fatal for text, fatal in said.items())
    assert any("'*x'" in text and fatal for text, fatal in said.items())
    assert config.settings.sandbox.network.allowed_domains == ("ok.com",)
