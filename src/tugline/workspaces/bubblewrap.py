"""The arguments that make bubblewrap show a command a layout, and nothing else of this machine."""

from collections.abc import Iterable, Sequence

from tugline.rules.paths import components
from tugline.workspaces.layout import Layout

_NAMESPACES = ("--unshare-all", "--unshare-user", "--die-with-parent", "--new-session", "--cap-drop", "ALL")


def bwrap_arguments(
    layout: Layout, *, cwd: str, shared: Sequence[str], private: str, empty: str, nested: bool
) -> list[str]:
    """`shared`: folders that `private` stands in for. `empty`: a folder with nothing in it. `nested`: this bubblewrap
    can forbid further user namespaces."""
    words = [*_NAMESPACES, *(("--disable-userns",) if nested else ())]
    # the kernel's settings below /proc/sys ask for the user alone, not for a capability: root could write them
    words += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--remount-ro", "/proc"]
    for path, mount in _ordered(layout, shared):
        match mount:
            case "private":
                words += ["--bind", private, path]
            case "write":
                words += ["--bind", path, path]
            case "read":
                words += ["--ro-bind", path, path]
            case "empty":
                words += ["--ro-bind", empty, path]
            case "hide":
                words += ["--tmpfs", path]
            case _:
                words += ["--ro-bind", "/dev/null", path]
    for path in layout.hidden_folders:
        words += ["--remount-ro", path]
    return [*words, "--chdir", cwd]


def _ordered(layout: Layout, shared: Sequence[str]) -> list[tuple[str, str]]:
    """What stands above comes first, so that the deeper and more special one shows; of two for the same path the later
    kind here counts. What lies in a hidden folder stays there, unless a folder between is shown."""
    mounts: dict[str, str] = {}

    def add(paths: Iterable[str], mount: str) -> None:
        mounts.update(dict.fromkeys(paths, mount))

    add(shared, "private")
    add(layout.shown, "read")
    add(layout.writable, "write")
    bases = dict(mounts)
    add(layout.hidden_folders, "hide")
    hidden = set(layout.hidden_folders)

    def seen(path: str) -> bool:
        parts = components(path)
        for length in range(len(parts) - 1, 0, -1):
            above = "/" + "/".join(parts[:length])
            if above in hidden:
                return False
            if above in bases:
                return True
        return True

    for paths, mount in (
        (layout.fixed, "write"),
        (layout.read_only, "read"),
        (layout.absent, "empty"),
        (layout.hidden_files, "null"),
    ):
        add((path for path in paths if path not in hidden and seen(path)), mount)
    return sorted(mounts.items(), key=lambda one: (len(components(one[0])), one[0]))
