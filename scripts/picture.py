"""Draws `docs/demo.svg`: what `tugline demo` prints on a terminal, run in a pseudo terminal of 100 columns."""

import html
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from fcntl import ioctl
from pathlib import Path

COLUMNS, ROWS = 100, 48
LINE, CELL, MARGIN = 18, 8.43, 20
STYLES = {1: "font-weight:bold", 2: "opacity:0.6", 3: "font-style:italic"}
COLOURS = {30: "#5c6370", 31: "#e06c75", 32: "#98c379", 33: "#e5c07b", 34: "#61afef", 35: "#c678dd", 36: "#56b6c2",
           37: "#dcdfe4", 90: "#7f848e", 91: "#e06c75", 92: "#98c379", 93: "#e5c07b", 94: "#61afef", 95: "#c678dd",
           96: "#56b6c2", 97: "#ffffff"}  # fmt: skip
ESCAPE = re.compile(r"\x1b\[([0-9;]*)([A-Za-z])")


def record() -> str:
    """The demo's output as a terminal gets it."""
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    environ = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
    environ.pop("NO_COLOR", None)
    argv = [sys.executable, "-m", "tugline", "demo"]
    process = subprocess.Popen(argv, stdin=theirs, stdout=theirs, stderr=theirs, env=environ)
    os.close(theirs)
    parts: list[bytes] = []
    while True:
        try:
            data = os.read(ours, 65536)
        except OSError:
            break
        if not data:
            break
        parts.append(data)
    if process.wait() != 0:
        raise SystemExit("the demo failed")
    return b"".join(parts).decode().replace("\r\n", "\n")


def wrapped(line: str) -> list[str]:
    """The line as a terminal breaks it, at the last blank that fits."""
    made: list[str] = []
    while len(ESCAPE.sub("", line)) > COLUMNS:
        seen, at, blank = 0, 0, 0
        while seen < COLUMNS:
            escape = ESCAPE.match(line, at)
            if escape:
                at = escape.end()
                continue
            blank = at if line[at] == " " else blank
            seen, at = seen + 1, at + 1
        made.append(line[: blank or at])
        line = line[blank + 1 if blank else at :]
    return [*made, line]


def spans(line: str) -> str:
    """One line as SVG text spans."""
    made: list[str] = []
    style: dict[str, str] = {}
    at = 0
    for match in [*ESCAPE.finditer(line), None]:
        text = line[at : match.start() if match else len(line)]
        if text:
            css = ";".join(style.values())
            made.append(f'<tspan style="{css}">{html.escape(text)}</tspan>' if css else html.escape(text))
        if match is None:
            break
        at = match.end()
        for code in [int(part or 0) for part in match[1].split(";")] if match[2] == "m" else []:
            if code == 0:
                style.clear()
            elif code in STYLES:
                style[f"style {code}"] = STYLES[code]
            elif code in (22, 23):
                style = {key: value for key, value in style.items() if not key.startswith("style")}
            elif code in COLOURS:
                style["colour"] = f"fill:{COLOURS[code]}"
            elif code == 39:
                style.pop("colour", None)
    return "".join(made)


def draw(text: str) -> str:
    """The picture."""
    printed = ["$ tugline demo", *text.rstrip("\n").split("\n")]
    lines = [part for line in printed for part in wrapped(line)]
    width, height = COLUMNS * CELL + 2 * MARGIN, len(lines) * LINE + 2 * MARGIN + 20
    rows = "\n".join(
        f'<text x="{MARGIN}" y="{MARGIN + 30 + n * LINE}" xml:space="preserve">{spans(line)}</text>'
        for n, line in enumerate(lines)
    )
    lights = "".join(
        f'<circle cx="{MARGIN + 4 + n * 18}" cy="18" r="6" fill="{colour}"/>'
        for n, colour in enumerate(("#e06c75", "#e5c07b", "#98c379"))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}">\n'
        f'<rect width="100%" height="100%" rx="8" fill="#21252b"/>\n{lights}\n'
        '<g font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,monospace" font-size="14" fill="#dcdfe4">\n'
        f"{rows}\n</g>\n</svg>\n"
    )


if __name__ == "__main__":
    Path(__file__).parent.parent.joinpath("docs", "demo.svg").write_text(draw(record()))
