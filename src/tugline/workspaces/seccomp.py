"""The system calls that a sandboxed command does without, as a filter for the kernel: bytes, made without a compiler.

What is refused are ways round the namespaces: io_uring (its operations are not seen by a filter), ptrace and reading
other processes, the kernel's key rings, sockets that no network namespace holds (Unix by path, vsock), typing into a
terminal, and making mounts or loading code into the kernel.
"""

import platform
import struct
from collections.abc import Iterable, Mapping

_LOAD, _EQUAL, _GREATER_EQUAL, _ANY_OF, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCH, _ARG0, _ARG1 = 0, 4, 16, 24
"""Offsets in what the kernel shows of a call; of arguments the low half, both machines being little-endian."""

_ALLOW = 0x7FFF0000
_REFUSE = 0x00050000
_EPERM, _ENOSYS, _EAFNOSUPPORT = 1, 38, 97

_TERMINAL_REQUESTS = (0x5412, 0x541C)
"""TIOCSTI types into a terminal, TIOCLINUX pastes on a console."""
_INTERNET, _UNIX = (2, 10, 16), 1
"""Families of sockets: IPv4, IPv6, netlink (the list of interfaces); and Unix."""

_NEW_NAMESPACES = 0x7E020000
"""The flags of `clone` that make a namespace."""

_SHARED = {"clone3": 435, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428,
           "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "pidfd_getfd": 438,
           "mount_setattr": 442}  # fmt: skip
_X86_64 = {**_SHARED, "socket": 41, "clone": 56, "ioctl": 16, "ptrace": 101, "process_vm_readv": 310,
           "process_vm_writev": 311, "kcmp": 312,
           "add_key": 248, "request_key": 249, "keyctl": 250, "mount": 165, "umount2": 166,
           "pivot_root": 155, "chroot": 161, "setns": 308, "unshare": 272, "open_by_handle_at": 304, "bpf": 321,
           "perf_event_open": 298, "userfaultfd": 323, "init_module": 175, "finit_module": 313, "delete_module": 176,
           "kexec_load": 246, "kexec_file_load": 320, "iopl": 172, "ioperm": 173, "swapon": 167, "swapoff": 168,
           "reboot": 169, "acct": 163, "quotactl": 179, "settimeofday": 164, "clock_settime": 227,
           "syslog": 103}  # fmt: skip
_AARCH64 = {**_SHARED, "socket": 198, "clone": 220, "ioctl": 29, "ptrace": 117, "process_vm_readv": 270,
            "process_vm_writev": 271, "kcmp": 272,
            "add_key": 217, "request_key": 218, "keyctl": 219, "mount": 40, "umount2": 39,
            "pivot_root": 41, "chroot": 51, "setns": 268, "unshare": 97, "open_by_handle_at": 265, "bpf": 280,
            "perf_event_open": 241, "userfaultfd": 282, "init_module": 105, "finit_module": 273,
            "delete_module": 106, "kexec_load": 104, "kexec_file_load": 294, "swapon": 224, "swapoff": 225,
            "reboot": 142, "acct": 89, "quotactl": 60, "settimeofday": 170, "clock_settime": 112,
            "syslog": 116}  # fmt: skip
_MACHINES: Mapping[str, tuple[int, Mapping[str, int], int]] = {
    "x86_64": (0xC000003E, _X86_64, 0x40000000),
    "aarch64": (0xC00000B7, _AARCH64, 0),
}
"""By machine: how the kernel calls it, its numbers, and the bit that marks a second table of numbers (x32)."""


_BY_ARGUMENT = ("socket", "ioctl", "clone", "clone3")


def seccomp_filter(machine: str = "", *, unix_sockets: bool = False) -> bytes | None:
    """The filter for this or the named machine; `None` where its calls are not known.

    `unix_sockets`: commands may make Unix sockets, and with them reach every service of this machine that has one.
    """
    known = _MACHINES.get(machine or platform.machine())
    if known is None:
        return None
    arch, numbers, second = known
    refused = [number for name, number in numbers.items() if name not in _BY_ARGUMENT]
    families = (*_INTERNET, _UNIX) if unix_sockets else _INTERNET
    program = [
        # programs of another table of calls cannot be judged by these numbers
        _step(_LOAD, _ARCH),
        _step(_EQUAL, arch, yes=1),
        _step(_RETURN, _REFUSE | _ENOSYS),
        _step(_LOAD, _NUMBER),
    ]
    if second:
        program += [_step(_GREATER_EQUAL, second, no=1), _step(_RETURN, _REFUSE | _ENOSYS)]
    for number in refused:
        program += [_step(_EQUAL, number, no=1), _step(_RETURN, _REFUSE | _EPERM)]
    # its flags lie in memory, where a filter cannot look; programs then ask for `clone`, whose flags are an argument
    program += [_step(_EQUAL, numbers["clone3"], no=1), _step(_RETURN, _REFUSE | _ENOSYS)]
    program += [
        _step(_EQUAL, numbers["clone"], no=4),
        _step(_LOAD, _ARG0),
        _step(_ANY_OF, _NEW_NAMESPACES, no=1),
        _step(_RETURN, _REFUSE | _EPERM),
        _step(_RETURN, _ALLOW),
    ]
    program += _by_argument(numbers["socket"], _ARG0, families, within=_ALLOW, else_=_REFUSE | _EAFNOSUPPORT)
    program += _by_argument(numbers["ioctl"], _ARG1, _TERMINAL_REQUESTS, within=_REFUSE | _EPERM, else_=_ALLOW)
    program.append(_step(_RETURN, _ALLOW))
    return b"".join(program)


def _by_argument(number: int, argument: int, values: Iterable[int], *, within: int, else_: int) -> list[bytes]:
    """What becomes of one call, by one of its arguments; other calls go on behind it."""
    listed = list(values)
    inner = [_step(_LOAD, argument)]
    inner += [_step(_EQUAL, value, yes=len(listed) - place) for place, value in enumerate(listed)]
    inner += [_step(_RETURN, else_), _step(_RETURN, within)]
    return [_step(_EQUAL, number, no=len(inner)), *inner]


def _step(code: int, value: int, *, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("=HBBI", code, yes, no, value)
