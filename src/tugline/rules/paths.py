"""What is known of paths without looking at the disk: inside, protected, secret, harmless."""

import posixpath
from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct

from tugline.rules.names import names
from tugline.rules.patterns import PathPattern, compiled, fold

PROTECTED_FOLDERS = names(
    ".git .tugline .claude .agents .codex .gemini .cursor .opencode .vscode .idea .husky .cargo .devcontainer "
    ".yarn .mvn .gradle .zed .fleet .windsurf .continue .aider .direnv .githooks"
)
"""Folders, at any depth, whose files make some program run something."""
PROTECTED_FILES = names(
    ".gitmodules .gitconfig .mcp.json .npmrc .yarnrc .yarnrc.yml .pnpmfile.cjs .bunfig.toml "
    ".pre-commit-config.yaml lefthook.yml .lefthook.yml .envrc .bashrc .bash_profile .bash_login .bash_logout "
    ".bash_aliases .profile .zshrc .zshenv .zprofile .zlogin .zlogout .inputrc .xprofile .xinitrc .xsession "
    ".kshrc .cshrc .tcshrc .login .logout .pythonrc .pythonstartup .vimrc .exrc .nvimrc .emacs .tmux.conf "
    ".screenrc .wgetrc .curlrc .pypirc .netrc .condarc .ripgreprc .rgrc"
)
"""Files, at any depth, that a shell or a tool obeys when it starts."""
PROTECTED_BELOW_HOME = (
    ".ssh", ".config/git", ".config/tugline", ".config/fish", ".config/autostart", ".config/systemd",
    ".config/environment.d", ".config/nvim", ".config/pip", ".config/gh", ".gnupg", ".aws", ".kube", ".docker",
    ".emacs.d", ".vim", ".pip", ".config/containers",
)  # fmt: skip
PROTECTED_ABSOLUTE = (
    "/etc/profile", "/etc/profile.d", "/etc/bash.bashrc", "/etc/bashrc", "/etc/zsh", "/etc/zshrc", "/etc/zshenv",
    "/etc/environment", "/etc/environment.d", "/etc/gitconfig", "/etc/ld.so.preload", "/etc/ld.so.conf.d",
    "/etc/sudoers", "/etc/sudoers.d", "/etc/passwd", "/etc/shadow", "/etc/crontab", "/etc/cron.d", "/etc/systemd",
    "/etc/ssh", "/etc/tugline", "/etc/claude-code", "/etc/codex", "/var/spool/cron", "/boot", "/dev", "/proc", "/sys",
)  # fmt: skip

SECRETS_BELOW_HOME = (
    ".ssh", ".aws", ".azure", ".config/gcloud", ".kube", ".docker/config.json", ".gnupg", ".netrc", "_netrc",
    ".npmrc", ".yarnrc.yml", ".pypirc", ".git-credentials", ".config/git/credentials", ".config/gh", ".config/hub",
    ".config/glab-cli", ".config/op", ".password-store", ".local/share/keyrings", ".pgpass", ".my.cnf",
    ".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials", ".m2/settings.xml",
    ".gradle/gradle.properties", ".terraform.d/credentials.tfrc.json", ".terraformrc", ".config/rclone",
    ".config/doctl", ".config/heroku", ".config/containers/auth.json", ".oci", ".bluemix", ".vault-token",
    ".huggingface/token", ".cache/huggingface/token", ".config/openai", ".anthropic", ".claude/.credentials.json",
    ".codex/auth.json", ".gemini/oauth_creds.json", ".local/share/opencode/auth.json", ".mozilla",
    ".config/google-chrome", ".config/chromium", ".config/BraveSoftware", ".thunderbird", ".bash_history",
    ".zsh_history", ".python_history", ".psql_history", ".mysql_history", ".config/tugline/credentials",
    "Library/Keychains", "Library/Application Support/Google/Chrome",
)  # fmt: skip
"""Where well-known tools keep credentials, below the home folder."""
SECRETS_ABSOLUTE = ("/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/sudoers.d", "/etc/ssl/private", "/run/secrets")
_SECRET_NAMES = names(
    "id_rsa id_dsa id_ecdsa id_ed25519 .netrc .pypirc .git-credentials .pgpass .htpasswd credentials.tfrc.json "
    ".vault-token .dockercfg"
)

HARMLESS = names(
    "/dev/null /etc/os-release /usr/lib/os-release /etc/lsb-release /etc/debian_version /etc/hostname "
    "/etc/timezone /etc/shells /proc/cpuinfo /proc/meminfo /proc/loadavg /proc/uptime /proc/version "
    "/proc/self/limits /proc/filesystems /sys/fs/cgroup/cpu.max /sys/fs/cgroup/memory.max"
)
"""System files that anybody may read, and that programs look at to know the machine."""


KERNEL = ("/proc", "/dev", "/sys")
"""Where the kernel shows itself as files: among them the environment and the memory of every process."""


class Place(Struct, frozen=True):
    """A path that has been looked up: by name, and what it really points to. Both absolute and without `..`."""

    name: str
    target: str


class Where(Struct, frozen=True):
    """The folders that rules and checks are measured against, all absolute and resolved."""

    cwd: str = "/"
    home: str = ""
    project_root: str = ""
    directories: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    """Folders of our own (kept results, plans, skills) that may be read, not written, without asking."""
    own: tuple[str, ...] = ()
    """Folders where our own settings are kept: writing there is asked about in every mode."""


def components(path: str) -> tuple[str, ...]:
    """The parts of an absolute path."""
    return tuple(part for part in path.split("/") if part not in ("", "."))


def inside(path: str, folder: str) -> bool:
    """Whether an absolute path is the folder or below it, compared by components: `/proj-evil` is not in `/proj`."""
    if not path.startswith("/") or not folder.startswith("/") or ".." in path.split("/"):
        return False
    parent = components(folder)
    return components(path)[: len(parent)] == parent


def inside_any(place: Place, folders: Sequence[str]) -> bool:
    """Whether name and target both are inside one of the folders."""
    return any(inside(place.name, f) for f in folders) and any(inside(place.target, f) for f in folders)


@lru_cache(maxsize=4096)
def _folded(path: str) -> tuple[str, ...]:
    return components(fold(path))


def _below(path: str, base: str, names: Sequence[str]) -> bool:
    if not base:
        return False
    parts, start = _folded(path), _folded(base)
    if parts[: len(start)] != start:
        return False
    rest = parts[len(start) :]
    return any(rest[: len(wanted)] == wanted for wanted in map(_folded, names))


def _under(path: str, folders: Sequence[str]) -> bool:
    parts = _folded(path)
    return any(parts[: len(folder)] == folder for folder in map(_folded, folders))


def protected(place: Place, where: Where) -> str:
    """Why writing there is asked about in every mode; empty where it is not."""
    for path in (place.name, place.target):
        why = _protected(path, where)
        if why:
            return why
    return ""


def _protected(path: str, where: Where) -> str:
    if path in HARMLESS:
        return ""
    parts = _folded(path)
    # a worktree's own folder lies in .claude/worktrees or .tugline/worktrees: the folder is fixed at start
    skip = len(components(where.cwd)) if inside(path, where.cwd) else 0
    for position, part in enumerate(parts):
        if part in PROTECTED_FOLDERS and position >= skip:
            return f"{part}/ is protected"
    if parts and parts[-1] in PROTECTED_FILES:
        return f"{parts[-1]} is protected"
    if any(inside(path, folder) for folder in where.own):
        return "tugline keeps its settings there"
    if _below(path, where.home, PROTECTED_BELOW_HOME):
        return "it is a protected folder of the home directory"
    if _under(path, PROTECTED_ABSOLUTE) and not any(inside(path, folder) for folder in where.directories):
        return "it is a folder of the system"
    return ""


def secret(place: Place, where: Where) -> bool:
    """Whether a well-known tool keeps credentials there."""
    for path in (place.name, place.target):
        if _below(path, where.home, SECRETS_BELOW_HOME) or _under(path, SECRETS_ABSOLUTE):
            return True
        parts = _folded(path)
        if parts and (parts[-1] in _SECRET_NAMES or (".ssh" in parts[:-1])):
            return True
        if parts[:1] == ("proc",) and parts[-1] in ("environ", "mem"):
            return True
    return False


def holds_secrets(place: Place, where: Where) -> bool:
    """Whether a folder has places of credentials below it, so that reading all of it would read them."""
    if not where.home:
        return False
    return any(inside(where.home, path) for path in (place.name, place.target))


def harmless(place: Place) -> bool:
    """Whether it is one of the few system files that may be read without asking."""
    return place.name in HARMLESS and (place.target in HARMLESS or place.target.startswith("/proc/"))


def _bases(pattern: PathPattern, where: Where, *, strict: bool) -> tuple[str, ...]:
    if pattern.anchor == "root":
        return ("/",)
    if pattern.anchor == "home":
        return (where.home,) if where.home else ()
    if pattern.anchor == "project":
        return (where.project_root or where.cwd,)
    if pattern.spread and strict:
        return (where.cwd, *where.directories)
    return (where.cwd,)


def _relative(path: str, base: str, *, folded: bool) -> str | None:
    parts, start = (_folded(path), _folded(base)) if folded else (components(path), components(base))
    if parts[: len(start)] != start:
        return None
    return "/".join(parts[len(start) :])


def _matches(pattern: PathPattern, path: str, where: Where, *, strict: bool) -> bool:
    regex = compiled(pattern.folded if strict else pattern.regex)
    for base in _bases(pattern, where, strict=strict):
        relative = _relative(path, base, folded=strict)
        if relative is not None and regex.match(relative):
            return True
    return False


def denied_by(pattern: PathPattern, place: Place, where: Where) -> bool:
    """Whether a deny or ask rule hits: by name or by target, case and composition set aside."""
    return _matches(pattern, place.name, where, strict=True) or (
        place.target != place.name and _matches(pattern, place.target, where, strict=True)
    )


def allowed_by(pattern: PathPattern, place: Place, where: Where) -> bool:
    """Whether an allow rule holds: name and target both match, exactly."""
    return _matches(pattern, place.name, where, strict=False) and (
        place.target == place.name or _matches(pattern, place.target, where, strict=False)
    )


def could_hit_below(pattern: PathPattern, place: Place, where: Where) -> bool:
    """Whether something below this folder could be what a deny or ask rule names."""
    for path in (place.name, place.target):
        for base in _bases(pattern, where, strict=True):
            wanted = _folded(base) + pattern.literal
            here = _folded(path)
            shared = min(len(wanted), len(here))
            if wanted[:shared] == here[:shared]:
                return True
    return False


def lexical(path: str, cwd: str, home: str = "") -> Place:
    """A place by its text alone, as if there were no links; for tests and for paths that need no disk."""
    if path == "~" or path.startswith("~/"):
        path = home + path[1:]
    name = posixpath.normpath(posixpath.join(cwd, path))
    if name.startswith("//"):
        name = name[1:]
    return Place(name=name, target=name)
