"""What a decision costs: `python -m bench.policy`. Aims: p50 1 ms, p99 5 ms, 200 kB 250 ms, nothing over 1 s."""

import re
import time
from collections.abc import Sequence
from pathlib import Path

from tugline.app.policy import Row, RuleTexts, judge_row

CORPUS = Path(__file__).parents[1] / "tests" / "rules" / "corpus"
RULES = RuleTexts(allow=("Bash(npm run *)", "Edit(src/**)"), deny=("Bash(rm *)", "Read(./.env)", "Bash(git push:*)"))
UNITS = [
    "(", "$(", "a;", "a|", "{", "<<A ", "'", "(a)", "a()", ")", "$[", "a&&", "`a", "${a", "if a;", "[[ ", "<<A\n", "a ",
    "x=1;", "$x", "\"$x\" ", "{a,b}", "{a,{b,", "*", "\\", "for i in a; do ", "x=$y;", "echo $(ls) ", "\n", "#", "a'b'",
    "sh -c 'sh -c ", "xargs ", "env ", "eval ", "sudo ", "find -exec ", "awk '{", "sed 's/", "=~", "!", "((", "a[", "é",
    "while read f; do ", "cat <<E\n$(a)\nE\n", "git -C a ", "cd a;", "a > b ", "<(a) ", "&", "-", "[a-", "\x00",
]  # fmt: skip


def commands() -> list[str]:
    """All of the corpora."""
    found: list[str] = []
    for name in ("hostile.txt", "denied.txt", "routine_must.txt", "routine_shell.txt"):
        for line in (CORPUS / name).read_text().splitlines():
            if line and not line.startswith(("# ", "@ ")):
                found.append(re.sub("‹([0-9A-F]+)›", lambda m: chr(int(m[1], 16)), line.replace("⏎", "\n")))
    return found


def cost(command: str, rules: RuleTexts = RULES) -> float:
    """Milliseconds of CPU for one decision on a command that was not seen before."""
    start = time.process_time()
    judge_row(Row("Bash", {"command": command}, cwd="/w/proj", home="/home/u", rules=rules))
    return (time.process_time() - start) * 1000


def show(name: str, times: Sequence[float]) -> None:
    """One line of figures."""
    ordered = sorted(times)
    p50, p99 = ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)]
    print(f"{name:28} n={len(ordered):5}  p50 {p50:7.3f} ms  p99 {p99:7.3f} ms  max {ordered[-1]:8.3f} ms")


def main() -> None:
    """Print the figures."""
    cost("ls")
    rows = commands()
    show("corpora", [cost(row) for row in rows])
    for size in (60_000, 200_000):
        times = [(cost((unit * (size // len(unit) + 1))[:size]), unit) for unit in UNITS]
        show(f"repetitions of {size}", [spent for spent, _ in times])
        worst = sorted(times, reverse=True)[:3]
        print("  slowest:", ", ".join(f"{unit!r} {spent:.0f} ms" for spent, unit in worst))


if __name__ == "__main__":
    main()
