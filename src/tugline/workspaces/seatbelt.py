"""The profile by which macOS holds a command. Supported but untried: no such machine was at hand."""

from collections.abc import Iterable

from tugline.workspaces.layout import Layout


def seatbelt_profile(layout: Layout, *, tmp: str) -> str:
    """For `sandbox-exec -p`: reads all but what is hidden, writes little, no network. Later lines win."""
    lines = [
        "(version 1)",
        "(deny default)",
        "(allow process-exec process-fork)",
        "(allow signal (target same-sandbox))",
        "(allow sysctl-read)",
        '(allow mach-lookup (global-name "com.apple.system.opendirectoryd.libinfo"))',
        "(allow file-read*)",
        '(allow file-ioctl (literal "/dev/tty"))',
        '(allow file-write* (literal "/dev/null") (literal "/dev/zero") (regex #"^/dev/fd/"))',
    ]
    lines += _each("(allow file-write* (subpath {}))", (*layout.writable, tmp))
    lines += _each("(deny file-write* (subpath {}))", (*layout.read_only, *layout.absent))
    # what is renamed takes along what it holds
    lines += _each("(deny file-write-unlink (literal {}))", layout.fixed)
    lines += _each("(deny file-write* (literal {}))", [path for path, _ in layout.watched])
    lines += _each("(deny file-read* file-write* (subpath {}))", (*layout.hidden_folders, *layout.hidden_files))
    lines += _each("(allow file-read* (subpath {}))", layout.shown)
    lines += ["(deny network*)"]
    return "\n".join(lines) + "\n"


def _each(line: str, paths: Iterable[str]) -> list[str]:
    return [line.format(_quoted(path)) for path in paths]


def _quoted(path: str) -> str:
    """A string of the profile's language."""
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'
