"""Ways out of the sandbox, each tried for real by a command inside."""

import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
from sandboxing import Cell, FixedHosts, cell, needs_sandbox

pytestmark = needs_sandbox


@pytest.fixture
async def inside(tmp_path: Path) -> AsyncIterator[Cell]:
    async with cell(tmp_path) as made:
        yield made


def everything(folder: Path) -> dict[str, bytes | str]:
    """All that is below a folder, with what it holds."""
    found: dict[str, bytes | str] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        found[name] = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else ""
    return found


# -- writing outside ---------------------------------------------------------------------------------------------------

WRITES = {
    "by name": "echo evil > ../outside/file",
    "by absolute name": 'echo evil > "$OUTSIDE/file"',
    "through a link": 'ln -s "$OUTSIDE" link; echo evil > link/file',
    "over a link to a file": 'ln -s "$OUTSIDE/kept" link; echo evil > link',
    "through its own root": 'echo evil > "/proc/self/root$OUTSIDE/file"',
    "through the root of the first process": 'echo evil > "/proc/1/root$OUTSIDE/file"',
    "through its working folder": 'cd "$OUTSIDE"; echo evil > /proc/self/cwd/file',
    "by a hard link": 'ln "$OUTSIDE/kept" hard && echo evil > hard',
    "by moving": 'echo evil > file; mv file "$OUTSIDE/"',
    "by removing": 'rm -rf "$OUTSIDE"/*; rm -rf "$OUTSIDE"',
    "by changing modes": 'chmod 777 "$OUTSIDE/kept"; touch -d 2001-01-01 "$OUTSIDE/kept"; echo evil >> "$OUTSIDE/kept"',
    "by mounting it anew": 'mount -o remount,rw / ; mount --bind "$OUTSIDE" . ; umount -l /; echo evil > "$OUTSIDE/f"',
    "in a namespace of its own": 'unshare -Ur -m sh -c "mount -o remount,rw,bind / ; echo evil > $OUTSIDE/file"',
    "by leaving the folder that it began in": "mkdir a; cd a; mv ../a ../../outside/; cd ..; echo evil > file",
    "through a device": "for d in /dev/mem /dev/sda /dev/vda /dev/loop0 /dev/kmsg; do echo evil > $d; done",
}


@pytest.mark.parametrize("way", WRITES)
async def test_nothing_outside_can_be_written(inside: Cell, way: str) -> None:
    (inside.outside / "kept").write_text("kept")
    before = everything(inside.outside), (inside.outside / "kept").stat().st_mode
    await inside.run(WRITES[way], env={"OUTSIDE": str(inside.outside)})
    assert (everything(inside.outside), (inside.outside / "kept").stat().st_mode) == before


SYSTEM = {
    "the pattern of core dumps": "/proc/sys/kernel/core_pattern",
    "the program for modules": "/proc/sys/kernel/modprobe",
    "the system request key": "/proc/sysrq-trigger",
    "a file of the kernel": "/sys/kernel/uevent_helper",
    "a control group": "/sys/fs/cgroup/cgroup.procs",
    "the release agent": "/sys/fs/cgroup/memory/release_agent",
    "the preloaded libraries": "/etc/ld.so.preload",
    "the timetable": "/etc/cron.d/evil",
}


@pytest.mark.parametrize("what", SYSTEM)
async def test_the_system_cannot_be_written(inside: Cell, what: str) -> None:
    ran = await inside.run(f"printf '' >> {SYSTEM[what]} && echo wrote")
    assert ran.status != 0
    assert "wrote" not in ran.text


async def test_what_it_may_write_it_can_write(inside: Cell) -> None:
    ran = await inside.run("mkdir -p a/b && echo x > a/b/c && mv a/b/c a/d && echo y > /tmp/t && cat /tmp/t a/d")
    assert (ran.status, ran.text) == (0, "y\nx\n")
    assert everything(inside.work) == {"a": "", "a/b": "", "a/d": b"x\n"}
    assert not Path("/tmp/t").exists()


async def test_the_temporary_folder_lasts_and_ends_with_the_session(tmp_path: Path) -> None:
    async with cell(tmp_path) as made:
        await made.run('echo kept > "$TMPDIR/note"; mkdir -m 0 /var/tmp/shut')
        assert (await made.run("cat /tmp/note")).text == "kept\n"
        # what other programs of this machine keep there is not to be seen
        assert "pytest" not in (await made.run("ls /tmp")).text.replace(tmp_path.parts[2], "")
    assert os.listdir(tmp_path / "state") == []


async def test_in_a_sandbox_that_only_reads_nothing_is_written(inside: Cell) -> None:
    (inside.work / "file").write_text("before")
    ran = await inside.run("cat file; echo after > file; touch new; echo t > /tmp/t && cat /tmp/t", read_only=True)
    assert "before" in ran.text
    assert ran.text.endswith("t\n")
    assert everything(inside.work) == {"file": b"before"}


# -- other processes ---------------------------------------------------------------------------------------------------


async def test_processes_outside_are_neither_seen_nor_ended(inside: Cell) -> None:
    with subprocess.Popen(["sleep", "600"]) as sleeper:
        try:
            ran = await inside.run(f"kill -9 {sleeper.pid} {os.getpid()}; kill -9 -1; ls -d /proc/[0-9]* | wc -l")
            assert sleeper.poll() is None
        finally:
            sleeper.kill()
    assert "No such process" in ran.text or ran.status != 0


async def test_a_child_in_the_background_ends_with_the_command(inside: Cell) -> None:
    name = f"sandbox-{os.urandom(6).hex()}"
    loop = "while :; do sleep 0.05; date >> beat; done"
    ran = await inside.run(
        f"setsid nohup bash -c '{loop}' {name} >/dev/null 2>&1 & disown; (trap '' TERM; {loop}) & sleep 0.3"
    )
    assert ran.status == 0
    beats = (inside.work / "beat").read_bytes() if (inside.work / "beat").exists() else b""
    alive = subprocess.run(["pgrep", "-f", name], capture_output=True, text=True, check=False)
    assert alive.stdout == ""
    await inside.run("sleep 0.2")
    assert ((inside.work / "beat").read_bytes() if beats else b"") == beats


async def test_a_command_that_takes_too_long_may_tidy_up(inside: Cell) -> None:
    begun = anyio.current_time()
    ran = await inside.run("trap 'echo tidied > tidy; exit 3' TERM; sleep 600 & wait", timeout=0.5)
    assert ran.status == 3
    assert (inside.work / "tidy").read_text() == "tidied\n"
    assert anyio.current_time() - begun < 20


async def test_no_rights_are_left_or_gained(inside: Cell) -> None:
    ran = await inside.run(
        "grep -E '^(Cap(Prm|Eff|Bnd|Amb)|NoNewPrivs)' /proc/self/status; sudo -n true || su -c true </dev/null"
    )
    fields = dict(line.split(":") for line in ran.text.splitlines() if line.startswith(("Cap", "NoNew")))
    assert {name: int(value, 16) for name, value in fields.items()} == {
        "CapPrm": 0, "CapEff": 0, "CapBnd": 0, "CapAmb": 0, "NoNewPrivs": 1,
    }  # fmt: skip
    assert ran.status != 0


async def test_the_limits_are_set(inside: Cell) -> None:
    assert (await inside.run("ulimit -c; ulimit -u")).text.split() == ["0", "8192"]


# -- calls of the kernel -----------------------------------------------------------------------------------------------

CALLS = """
import ctypes, errno, fcntl, os, platform, socket
libc = ctypes.CDLL(None, use_errno=True)
x86 = platform.machine() == "x86_64"
def call(number, *arguments):
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments))
    return "done" if result >= 0 else errno.errorcode[ctypes.get_errno()]
def kind(*given):
    try:
        socket.socket(*given).close()
    except OSError as error:
        return errno.errorcode[error.errno]
    return "done"
def type_in(request):
    try:
        fcntl.ioctl(0, request, b"x")
    except OSError as error:
        return errno.errorcode[error.errno]
    return "done"
"""

REFUSED = {
    "io_uring": ("call(425, 8, 0)", "EPERM"),
    "io_uring, enter": ("call(426, 0, 0, 0, 0, 0)", "EPERM"),
    "ptrace": ("call(101 if x86 else 117, 16, os.getppid(), 0, 0)", "EPERM"),
    "reading another process": ("call(310 if x86 else 270, os.getppid(), 0, 0, 0, 0, 0)", "EPERM"),
    "the key ring": ("call(250 if x86 else 219, 0, -3, 1)", "EPERM"),
    "a new user namespace": ("call(272 if x86 else 97, 0x10000000)", "EPERM"),
    "a new user namespace by clone": ("call(56 if x86 else 220, 0x10000000 | 17, 0, 0, 0, 0)", "EPERM"),
    "a new user namespace by clone3": ("call(435, 0, 0)", "ENOSYS"),
    "joining a namespace": ("call(308 if x86 else 268, 0, 0)", "EPERM"),
    "a file by its handle": ("call(304 if x86 else 265, 0, 0, 0)", "EPERM"),
    "a program for the kernel": ("call(321 if x86 else 280, 0, 0, 0)", "EPERM"),
    "typing into the terminal": ("type_in(0x5412)", "EPERM"),
    "pasting on the console": ("type_in(0x541C)", "EPERM"),
    "a Unix socket": ("kind(socket.AF_UNIX)", "EAFNOSUPPORT"),
    "a socket of the virtual machine": ("kind(40, socket.SOCK_STREAM)", "EAFNOSUPPORT"),
    "a raw packet": ("kind(socket.AF_PACKET, socket.SOCK_RAW)", "EAFNOSUPPORT"),
    "a raw socket": ("kind(socket.AF_INET, socket.SOCK_RAW, 1)", "EPERM"),
    "a call of 32 bits": ("call(0x40000000 | 39) if x86 else 'ENOSYS'", "ENOSYS"),
}


async def test_calls_that_lead_out_are_refused(inside: Cell) -> None:
    asked = "".join(f"print({name!r}, {code}, sep=': ')\n" for name, (code, _) in REFUSED.items())
    ran = await inside.python(CALLS + asked)
    assert ran.text.splitlines() == [f"{name}: {error}" for name, (_, error) in REFUSED.items()]


async def test_what_programs_need_is_not_refused(inside: Cell) -> None:
    ran = await inside.python(
        "import socket, subprocess, threading, multiprocessing\n"
        "a, b = socket.socketpair(); a.send(b'x'); assert b.recv(1) == b'x'\n"
        "t = threading.Thread(target=print, args=('thread',)); t.start(); t.join()\n"
        "print(subprocess.run(['echo', 'child'], capture_output=True, text=True).stdout, end='')\n"
        "s = socket.create_server(('127.0.0.1', 0)); c = socket.create_connection(s.getsockname()); print('loopback')\n"
    )
    assert ran.text == "thread\nchild\nloopback\n"


# -- services of this machine ------------------------------------------------------------------------------------------


async def test_services_behind_unix_sockets_are_not_reached(tmp_path: Path) -> None:
    name = f"tugline-test-{os.urandom(4).hex()}"
    program = (
        "import socket, sys\n"
        "for place in sys.argv[1:]:\n"
        "    try:\n"
        "        socket.socket(socket.AF_UNIX).connect(place.replace('@', chr(0)))\n"
        "        print('reached', place)\n"
        "    except OSError as error:\n"
        "        print('refused')\n"
    )
    with socket.socket(socket.AF_UNIX) as abstract, socket.socket(socket.AF_UNIX) as named:
        abstract.bind("\0" + name)
        abstract.listen()
        place = tmp_path / "hidden" / "agent.sock"
        place.parent.mkdir()
        named.bind(str(place))
        named.listen()
        # also where Unix sockets are allowed: the abstract ones by the namespace, the named one because it is hidden
        for allowed in (False, True):
            async with cell(tmp_path, unix_sockets=allowed, hidden=(str(place.parent),)) as made:
                (made.work / "reach.py").write_text(program)
                ran = await made.run(f"{sys.executable} -I reach.py @{name} {place}")
                assert ran.text.split() == ["refused", "refused"]


async def test_the_environment_does_not_lead_to_services(inside: Cell) -> None:
    given = {"SSH_AUTH_SOCK": "/tmp/agent", "DBUS_SESSION_BUS_ADDRESS": "unix:path=/x", "DISPLAY": ":0"}
    ran = await inside.run("env", env=given)
    assert not set(given) & {line.partition("=")[0] for line in ran.text.splitlines()}
    assert "TUGLINE_SANDBOX=1" in ran.text.splitlines()


# -- reading -----------------------------------------------------------------------------------------------------------


async def test_credentials_cannot_be_read_by_any_way(inside: Cell) -> None:
    secret = f"canary-{os.urandom(8).hex()}"
    for name in (".ssh/id_ed25519", ".aws/credentials", ".netrc", ".config/gh/hosts.yml", ".npmrc"):
        (inside.home / name).parent.mkdir(parents=True, exist_ok=True)
        (inside.home / name).write_text(secret)
    ran = await inside.run(
        'cd "$HOME"; ln -s "$HOME/.ssh" /tmp/s; cat .ssh/* /tmp/s/* .netrc .aws/credentials .npmrc; '
        'cat "/proc/self/root$HOME/.netrc" /proc/1/root"$HOME"/.aws/credentials; '
        "grep -r canary .; cp -r .aws /tmp/a; cat /tmp/a/*; tar cf - . | strings"
    )
    assert secret not in ran.text


async def test_secrets_of_other_processes_cannot_be_read(inside: Cell) -> None:
    secret = f"canary-{os.urandom(8).hex()}"
    with subprocess.Popen(["sleep", "600"], env={"SECRET_KEY": secret, "PATH": os.environ["PATH"]}) as sleeper:
        try:
            ran = await inside.run(f"cat /proc/{sleeper.pid}/environ /proc/*/environ | tr '\\0' '\\n'; env")
        finally:
            sleeper.kill()
    assert secret not in ran.text


async def test_what_the_settings_hide_is_hidden_also_in_the_working_folder(tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "deep").mkdir(parents=True)
    for place in (work / ".env", work / "deep" / "secret.pem", tmp_path / "elsewhere"):
        place.write_text("canary")
    (work / "link").symlink_to(tmp_path / "elsewhere")
    found = [str(work / ".env"), str(work / "deep" / "secret.pem")]
    async with cell(tmp_path, hidden=(str(work / "link"),), denied=lambda: found) as made:
        ran = await made.run(
            "cat .env deep/secret.pem link ../elsewhere; grep -r canary .; mv .env x; rm deep/secret.pem"
        )
        assert "canary" not in ran.text
        # nor can it be replaced, for those outside to read
        assert (work / ".env").read_text() == "canary"
        assert (work / "deep" / "secret.pem").exists()


# -- network -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hosts", [None, FixedHosts("example.com")], ids=["no network", "a proxy"])
async def test_no_packet_leaves_but_through_the_proxy(tmp_path: Path, hosts: FixedHosts | None) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as talk:
        talk.bind(("127.0.0.1", 0))
        server.settimeout(0.2)
        talk.settimeout(0.2)
        port, heard = server.getsockname()[1], talk.getsockname()[1]
        program = f"""
import socket
def attempt(name, work):
    try:
        work()
        print(name, "left")
    except OSError as error:
        print(name, "held")
def tcp(place, family=socket.AF_INET):
    s = socket.socket(family); s.settimeout(2); s.connect(place)
def udp(place, family=socket.AF_INET):
    s = socket.socket(family, socket.SOCK_DGRAM); s.connect(place); s.send(b"x"); s.settimeout(1); s.recv(1)
attempt("tcp", lambda: tcp(("127.0.0.1", {port})))
attempt("outside", lambda: tcp(("192.0.2.1", 80)))
attempt("metadata", lambda: tcp(("169.254.169.254", 80)))
attempt("ipv6", lambda: tcp(("2001:db8::1", 80), socket.AF_INET6))
attempt("udp", lambda: udp(("127.0.0.1", {heard})))
attempt("udp outside", lambda: udp(("192.0.2.1", 53)))
attempt("dns", lambda: socket.getaddrinfo("example.com", 80))
"""
        async with cell(tmp_path, hosts) as made:
            ran = await made.python(program)
        assert {line.rpartition(" ")[2] for line in ran.text.splitlines()} == {"held"}, ran.text
        assert len(ran.text.splitlines()) == 7
        with pytest.raises(TimeoutError):
            server.accept()
        with pytest.raises(TimeoutError):
            talk.recv(1)
