"""awk programs: whether they only compute and print. What could write, run or read something else is not known."""

import re

from tugline.rules.names import names

_TOKEN = re.compile(
    r'"(?:[^"\\\n]|\\.)*"|[A-Za-z_]\w*|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|\|\||\|&|&&|>>|[-+*/%^!=<>]=|\+\+|--'
    r"|\*\*|[-{}()\[\];,~!+*/%^<>=?:$|@&]|\n",
    re.DOTALL,
)
_BLANK = re.compile(r"[ \t\r]+|\\\n|#[^\n]*")
_REGEX = re.compile(r"/(?:[^/\\\n\[]|\\.|\[\^?\]?(?:\[:[a-z]+:\]|[^\]/\\\n]|\\.)*\])+/")
_WORDS = names(
    "system getline close fflush ENVIRON PROCINFO SYMTAB FUNCTAB ARGV ARGC ARGIND include load namespace extension"
)
"""What runs programs, opens files, or shows the environment."""
_OPERAND_BEFORE = re.compile(r'[\w")\]$]\Z|\+\+\Z|--\Z')
_KEYWORDS = names("print printf return in case else do getline BEGIN END")
_GOES_ON = frozenset([",", "{", "&&", "||", "?", ":", "do", "else"])


def only_prints(program: str) -> bool:
    """Whether the program writes no file, runs nothing and reads nothing but its operands."""
    at, before, depth = 0, "\n", 0
    printing = -1
    """At which depth of parentheses a print statement began; -1 outside of any."""
    while at < len(program):
        blank = _BLANK.match(program, at)
        if blank:
            at = blank.end()
            continue
        operand = _OPERAND_BEFORE.search(before) is not None and before not in _KEYWORDS
        found = _REGEX.match(program, at) if program[at] == "/" and not operand else _TOKEN.match(program, at)
        if found is None:
            return False
        token = found[0]
        at = found.end()
        if token in _WORDS or token in ("|", "|&", "@") or (token in (">", ">>") and depth == printing):
            return False
        depth += (token == "(") - (token == ")")
        if token in ("print", "printf"):
            printing = depth
        elif token in (";", "}") or (token == "\n" and before not in _GOES_ON):
            printing = -1
        if token != "\n" or before not in _GOES_ON:
            before = token
    return bool(program.strip()) and depth == 0
