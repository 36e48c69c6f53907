"""Searching without ripgrep: the same queries, the same output, slower. Runs as a process of its own, so that a
regular expression that never comes to an end can be ended."""

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO

import msgspec

from tugline.protocol.errors import ToolError
from tugline.rules.globs import matcher
from tugline.tools.search import SKIPPED, WIDTH, Query

SIZE_LIMIT = 16 * 1024 * 1024
"""Bytes of a file that is searched."""
TYPES = {
    "c": ("*.c", "*.h"), "cpp": ("*.cpp", "*.cc", "*.cxx", "*.hpp", "*.hh", "*.h"), "cs": ("*.cs",), "css": ("*.css",),
    "go": ("*.go",), "html": ("*.html", "*.htm"), "java": ("*.java",), "js": ("*.js", "*.jsx", "*.mjs", "*.cjs"),
    "json": ("*.json",), "kotlin": ("*.kt", "*.kts"), "lua": ("*.lua",), "md": ("*.md", "*.markdown"),
    "php": ("*.php",), "py": ("*.py", "*.pyi"), "ruby": ("*.rb",), "rust": ("*.rs",), "sh": ("*.sh", "*.bash"),
    "sql": ("*.sql",), "swift": ("*.swift",), "toml": ("*.toml",), "ts": ("*.ts", "*.tsx", "*.mts", "*.cts"),
    "txt": ("*.txt",), "xml": ("*.xml",), "yaml": ("*.yaml", "*.yml"),
}  # fmt: skip
_Spec = tuple[str, Any]


def main() -> int:
    """Read the query from the arguments, print what is found; exit status as ripgrep's."""
    query = msgspec.json.decode(sys.argv[1], type=Query)
    out = sys.stdout.buffer
    try:
        return 0 if run(query, out) else 1
    except (ToolError, re.error) as error:
        print(f"rg: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        return 0
    finally:
        out.flush()


def run(query: Query, out: BinaryIO) -> bool:
    """Print what the query finds below the current folder; whether there was anything."""
    paths = _chosen(query)
    if query.mode == "files":
        for path in paths:
            out.write(os.fsencode(path) + b"\0")
        return bool(paths)
    flags = (re.IGNORECASE if query.ignore_case else 0) | (re.DOTALL if query.multiline else 0) | re.MULTILINE
    expression = re.compile(query.pattern, flags)
    found = False
    for path in paths:
        text = _text(path)
        if text is None:
            continue
        hits = _matching(text, expression, multiline=query.multiline)
        if hits:
            _show(query, path, text.split("\n"), hits, out, found)
            found = True
    return found


def _chosen(query: Query) -> list[str]:
    if query.type and query.type not in TYPES:
        raise ToolError(f"unrecognized file type: {query.type}")
    if os.path.isfile(query.target):
        return [query.target]
    tests: list[Callable[[str], bool]] = []
    if query.globs:
        tests.append(matcher(query.globs))
    if query.type:
        tests.append(matcher(TYPES[query.type]))
    unwanted = matcher(query.without) if query.without else None
    paths = [
        path
        for path in _files("", _above(os.getcwd()))
        if all(test(path) for test in tests) and not (unwanted and unwanted(path))
    ]
    if query.mode in ("files", "files_with_matches"):
        paths.sort(key=_age)
    else:
        paths.sort()
    return [f"./{path}" for path in paths]


def _age(path: str) -> tuple[float, str]:
    try:
        return -os.lstat(path).st_mtime, path
    except OSError:
        return 0.0, path


def _files(folder: str, specs: Sequence[_Spec]) -> Iterator[str]:
    here = _spec_of(folder or ".")
    specs = [*specs, (folder, here)] if here else specs
    try:
        entries = sorted(os.scandir(folder or "."), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        path = f"{folder}/{entry.name}" if folder else entry.name
        is_folder = entry.is_dir(follow_symlinks=False)
        if entry.name in SKIPPED or _ignored(path, is_folder, specs):
            continue
        if is_folder:
            yield from _files(path, specs)
        elif entry.is_file(follow_symlinks=False):
            yield path


def _above(folder: str) -> list[_Spec]:
    """The ignore files of the folders above, up to the root of the repository. Their paths begin with `../`."""
    specs: list[_Spec] = []
    up = ""
    while not os.path.exists(os.path.join(folder, ".git")) and folder != "/":
        name = os.path.basename(folder)
        folder = os.path.dirname(folder)
        up = f"{name}/{up}"
        spec = _spec_of(folder)
        # Who asks for an ignored folder outright wants to see what is in it.
        if spec is not None and not spec.match_file(up):
            specs.append((f"../{up}", spec))
    return specs[::-1]


def _spec_of(folder: str) -> Any:
    try:
        import pathspec  # noqa: PLC0415  # imported here: the walk works without it

        with open(os.path.join(folder, ".gitignore"), encoding="utf-8", errors="replace") as file:
            return pathspec.GitIgnoreSpec.from_lines(file)
    except (ImportError, OSError, ValueError):
        return None


def _ignored(path: str, is_folder: bool, specs: Sequence[_Spec]) -> bool:
    """The last ignore file that says anything wins."""
    for base, spec in reversed(specs):
        inside = _seen_from(base, path)
        verdict = spec.check_file(f"{inside}/" if is_folder else inside).include
        if verdict is not None:
            return bool(verdict)
    return False


def _seen_from(base: str, path: str) -> str:
    if base.startswith("../"):
        return base[3:] + path
    return path[len(base) + 1 :] if base else path


def _text(path: str) -> str | None:
    try:
        if os.path.getsize(path) > SIZE_LIMIT:
            return None
        with open(path, "rb") as file:
            data = file.read(SIZE_LIMIT)
    except OSError:
        return None
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", "replace")
    return None if b"\0" in data else data.decode("utf-8", "replace")


def _matching(text: str, expression: re.Pattern[str], *, multiline: bool) -> list[int]:
    """The indexes of the lines that match."""
    if not multiline:
        rows = text.removesuffix("\n").split("\n")
        return [index for index, line in enumerate(rows) if expression.search(line.removesuffix("\r"))]
    hits: set[int] = set()
    for found in expression.finditer(text):
        first = text.count("\n", 0, found.start())
        hits.update(range(first, first + found[0].rstrip("\n").count("\n") + 1))
    return sorted(hits)


def _show(query: Query, path: str, rows: list[str], hits: list[int], out: BinaryIO, again: bool) -> None:
    name = os.fsencode(path) + b"\0"
    if query.mode == "files_with_matches":
        out.write(name)
        return
    if query.mode == "count":
        out.write(name + f"{len(hits)}\n".encode())
        return
    end = len(rows) - (rows[-1] == "")
    matching = set(hits)
    wanted = sorted(
        {near for hit in hits for near in range(max(0, hit - query.before), min(end, hit + query.after + 1))}
    )
    last = None
    for index in wanted:
        apart = again if last is None else index > last + 1
        if apart and (query.before or query.after):
            out.write(b"--\n")
        row = rows[index]
        shown = row if len(row) <= WIDTH else f"{row[:WIDTH]} [... omitted end of long line]"
        mark = ":" if index in matching else "-"
        out.write(name + f"{index + 1}{mark}{shown}\n".encode("utf-8", "replace"))
        last = index


if __name__ == "__main__":
    sys.exit(main())
