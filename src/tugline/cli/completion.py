"""`tugline completion`: scripts for shells, made from the tables of flags."""

from collections.abc import Sequence

from tugline.cli import streams
from tugline.cli.flags import COMMANDS, FLAGS, Flag
from tugline.cli.help import COMPLETION
from tugline.protocol.errors import UsageError

_SHELLS = ("bash", "zsh", "fish")
_SESSIONS = (
    "list show search export rename archive unarchive changes compactions gc --all --archived --limit --json --full "
    "--record --call --format --output --older-than --larger-than --keep-size --remove --dry-run --yes"
)
_FILE_FLAGS = ("--settings", "--record", "--replay", "--system-prompt-file", "--append-system-prompt-file")


def completion(words: Sequence[str]) -> int:
    """Print the script of the shell that is named; the exit code."""
    if not words or words[0] in ("--help", "-h"):
        return streams.put(COMPLETION)
    if len(words) > 1 or words[0] not in _SHELLS:
        raise UsageError(f"`tugline completion` takes one of {', '.join(_SHELLS)}.")
    return streams.put({"bash": _bash, "zsh": _zsh, "fish": _fish}[words[0]]())


def _spellings() -> str:
    return " ".join(name for flag in FLAGS for name in flag.names)


def _bash() -> str:
    cases = []
    for flag in FLAGS:
        names = "|".join(flag.names)
        if flag.choices:
            cases.append(f'    {names}) COMPREPLY=($(compgen -W "{" ".join(flag.choices)}" -- "$word")); return ;;')
        elif flag.kind == "folders":
            cases.append(f'    {names}) COMPREPLY=($(compgen -d -- "$word")); return ;;')
        elif flag.names[0] in _FILE_FLAGS:
            cases.append(f'    {names}) COMPREPLY=($(compgen -f -- "$word")); return ;;')
        elif flag.kind != "switch":
            cases.append(f"    {names}) return ;;")
    return "\n".join(
        [
            "_tugline() {",
            '  local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}"',
            '  case "$before" in',
            *cases,
            "  esac",
            '  case "${COMP_WORDS[1]}" in',
            '    config) COMPREPLY=($(compgen -W "show context schema --origin --json" -- "$word")); return ;;',
            f'    sessions) COMPREPLY=($(compgen -W "{_SESSIONS}" -- "$word")); return ;;',
            '    policy) COMPREPLY=($(compgen -f -W "explain test replay check --jsonl --json" -- "$word")); return ;;',
            f'    completion) COMPREPLY=($(compgen -W "{" ".join(_SHELLS)}" -- "$word")); return ;;',
            '    doctor) COMPREPLY=($(compgen -W "--json" -- "$word")); return ;;',
            '    demo) COMPREPLY=($(compgen -W "--keep" -- "$word")); return ;;',
            '    trust) COMPREPLY=($(compgen -d -W "--yes --diff --remove --list" -- "$word")); return ;;',
            '    model-server) COMPREPLY=($(compgen -f -- "$word")); return ;;',
            "  esac",
            f'  local words="{_spellings()}"',
            f'  [ "$COMP_CWORD" -eq 1 ] && words="$words {" ".join(COMMANDS)}"',
            '  COMPREPLY=($(compgen -W "$words" -- "$word"))',
            "}",
            "complete -o default -F _tugline tugline",
            "",
        ]
    )


def _zsh() -> str:
    flags = [f"    {_zsh_flag(name, flag)}" for flag in FLAGS for name in flag.names]
    commands = " ".join(f"'{name}:{text}'" for name, text in COMMANDS.items())
    return "\n".join(
        [
            "#compdef tugline",
            "_tugline() {",
            f"  local -a commands; commands=({commands})",
            "  if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then _describe command commands; fi",
            "  case $words[2] in",
            "    config) compadd show context schema -- --origin --json; return ;;",
            f"    sessions) compadd -- {_SESSIONS}; return ;;",
            "    policy) compadd explain test replay check -- --jsonl --json; _files; return ;;",
            f"    completion) compadd {' '.join(_SHELLS)}; return ;;",
            "    doctor) compadd -- --json; return ;;",
            "    demo) compadd -- --keep; return ;;",
            "    trust) compadd -- --yes --diff --remove --list; _files -/; return ;;",
            "    model-server) _files; return ;;",
            "  esac",
            "  _arguments -S \\",
            " \\\n".join(flags),
            "}",
            'compdef _tugline tugline 2>/dev/null || _tugline "$@"',
            "",
        ]
    )


def _zsh_flag(name: str, flag: Flag) -> str:
    if flag.kind == "switch":
        return f"'{name}[]'"
    if flag.choices:
        return f"'{name}[]:value:({' '.join(flag.choices)})'"
    if flag.kind == "folders":
        return f"'*{name}[]:folder:_files -/'"
    return f"'{name}[]:value:{'_files' if flag.names[0] in _FILE_FLAGS else ' '}'"


def _fish() -> str:
    lines = ["complete -c tugline -f"]
    for flag in FLAGS:
        for name in flag.names:
            kind = f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
            rest = "" if flag.kind == "switch" else " -x"
            if flag.choices:
                rest = f" -x -a '{' '.join(flag.choices)}'"
            elif flag.kind == "folders" or flag.names[0] in _FILE_FLAGS:
                rest = " -r -F"
            lines.append(f"complete -c tugline {kind}{rest}")
    for name, text in COMMANDS.items():
        lines.append(f"complete -c tugline -n __fish_use_subcommand -a {name} -d '{text}'")
    lines.append("complete -c tugline -n '__fish_seen_subcommand_from config' -a 'show context schema'")
    lines.append(f"complete -c tugline -n '__fish_seen_subcommand_from sessions' -a '{_SESSIONS}'")
    lines.append("complete -c tugline -n '__fish_seen_subcommand_from policy' -F -a 'explain test replay check'")
    lines.append(f"complete -c tugline -n '__fish_seen_subcommand_from completion' -a '{' '.join(_SHELLS)}'")
    lines.append("complete -c tugline -n '__fish_seen_subcommand_from model-server' -F")
    return "\n".join(lines) + "\n"
