"""Words of a shell command: what is certain about the text that a program would get."""

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from tugline.rules.names import names

if TYPE_CHECKING:
    from tree_sitter import Node


class Opaque(Exception):
    """The command cannot be analysed; the text says why."""


class Output(Struct, frozen=True):
    """What is known of a command's output where it stands for words.

    `listing`: names of files below `starts`, which may be cut at blanks (`split`) and lead elsewhere (`links`).
    `name`: one word without a slash before it, such as a revision. `number`: digits. `top`: the top folder of the
    repository, `here` the working folder, each with `rest` behind it.
    """

    kind: Literal["listing", "name", "number", "top", "here"]
    starts: "tuple[Word, ...]" = ()
    split: bool = False
    links: bool = False
    rest: str = ""


class Word(Struct, frozen=True):
    """One word. `text` is exactly what the program gets, `None` where that is not known before it runs.

    `glob`: the pattern, where only file names are unknown. `home`: begins with the home folder, written `~`.
    `single`: it is one word whatever it expands to. `pipe`: it is a process substitution. `hole`: the variable, or
    `$(`, that alone is not known in it, between `head` and `tail`. `several`: the words that braces make of it.
    `choices`: all that it can be. `output`: it is what a command prints.
    """

    text: str | None
    raw: str
    glob: str | None = None
    home: bool = False
    single: bool = True
    pipe: bool = False
    hole: str = ""
    head: str = ""
    tail: str = ""
    several: "tuple[Word, ...]" = ()
    choices: "tuple[Word, ...]" = ()
    output: Output | None = None

    @property
    def path(self) -> str | None:
        """The text as a path, for a resolver that expands `~`; `None` where it is not known."""
        return None if self.text is None else self._path(self.text)

    @property
    def glob_path(self) -> str | None:
        """The folder that all matches of the pattern lie in, or the parent of a pattern's first wildcard."""
        if self.glob is None:
            return None
        start = re.split(r"[*?\[]", self.glob, maxsplit=1)[0]
        return self._path(start.rpartition("/")[0] + "/" if "/" in start else ".")

    def _path(self, text: str) -> str:
        if self.home or not text.startswith("~"):
            return text
        return "./" + text


_EXPANDS = re.compile(r"(?<!\\)(?:\\\\)*(?:`|\$[A-Za-z0-9_({\[@*#?!$'\"-])")
_OPEN_END = re.compile(r"(?<!\\)(?:\\\\)*(?:\$|\\)\Z")
_NUMBERS = re.compile(rb"\$\(\([0-9+*/%() \t<>=-]*\)\)\Z")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "v": "\v"}
_PARAMETER = frozenset(
    [*["-", "+", "%", "#", "/", "^", ","], "${", "}", ":-", ":+", "%%", "##", "//", "^^", ",,", "/#", "/%"]
)
_PARAMETER_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!-]")
_VARIABLES = frozenset(["variable_name", "special_variable_name"])
WORDS = names(
    "word number string raw_string ansi_c_string concatenation simple_expansion expansion command_substitution"
    " process_substitution arithmetic_expansion brace_expression"
)
"""Kinds of node that stand for a word."""
_OPEN_TOKENS = frozenset(["$", "==", "=~"])
_NEEDS_BLANK = WORDS | {"command_name", "variable_assignment", "$", "==", "=~"}
_BEFORE_BLANK = _NEEDS_BLANK | {"file_redirect", "herestring_redirect", "heredoc_redirect"}


class Lowering:
    """Turns nodes into words; remembers the substitutions met on the way, which run commands of their own."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self.inner: list[Node] = []

    def text(self, node: "Node") -> str:
        """The source of a node."""
        return self.source[node.start_byte : node.end_byte].decode("utf-8")

    def inline(self, node: "Node") -> "list[Node]":
        """The parts of a node that must stand on one line: bash ends a command at the end of the line."""
        parts = node.children
        at, before = node.start_byte, ""
        for part in parts:
            gap = self.source[at : part.start_byte]
            if gap and b"\n" in gap.replace(b"\\\n", b""):
                raise Opaque("a command that goes on behind the end of its line")
            if not gap and part.type in _NEEDS_BLANK and at > node.start_byte and before in _BEFORE_BLANK:
                raise Opaque("two words without a blank between them")
            at, before = part.end_byte, part.type
        return self.children(node)

    def tight(self, node: "Node") -> "list[Node]":
        """The parts of a node between which nothing may stand."""
        at = node.start_byte
        for part in node.children:
            if part.start_byte != at:
                raise Opaque("text that the grammar does not account for")
            at = part.end_byte
        if at != node.end_byte:
            raise Opaque("text that the grammar does not account for")
        return node.children

    def children(self, node: "Node") -> "list[Node]":
        """A node's parts, having made sure that nothing but blanks stands between them."""
        parts = node.children
        at = node.start_byte
        for part in parts:
            if part.start_byte > at:
                self._check_gap(at, part.start_byte)
            if not part.is_named and part.type not in _OPEN_TOKENS and not self._literally(part):
                # a nameless node is called after its last token, and may have swallowed what stood before
                raise Opaque("text that the grammar does not account for")
            if part.type == "comment" and self.source[max(part.start_byte - 1, 0)] not in b"# \t\n;&|()":
                raise Opaque("a # that is part of a word")
            at = part.end_byte
        if parts and node.end_byte > at:
            self._check_gap(at, node.end_byte)
        return parts

    def _literally(self, node: "Node") -> bool:
        return self.source[node.start_byte : node.end_byte].strip(b" \t\n") in (node.type.encode(), b"")

    def _check_gap(self, start: int, end: int) -> None:
        gap = self.source[start:end]
        joined = gap.replace(b"\\\n", b"")
        if joined.strip(b" \t\n"):
            raise Opaque("text that the grammar does not account for")
        # the byte before tells whether a continued line ends a word or goes on with it
        before = self.source[start - 1 : start] if start else b" "
        if not joined and before not in (b" ", b"\t", b"\n", b";", b"|", b"&", b"("):
            raise Opaque("a word continued on the next line")

    def word(self, node: "Node") -> Word:
        """The word that a node stands for; `Opaque` where its evaluation could do more than give text."""
        raw = self.text(node)
        pieces: list[_Piece] = list(self._pieces(node))
        if node.type == "process_substitution":
            return Word(text=None, raw=raw, pipe=True)
        single = all(piece.quoted or piece.text is not None for piece in pieces)
        bare = "".join(piece.bare for piece in pieces)
        first = pieces[0] if pieces else _Piece("")
        text = "".join(piece.text or "" for piece in pieces)
        home = first.home or first.bare.startswith("~")
        # `~` counts up to the first slash, and only if nothing of that is quoted
        tilde_unknown = (home and not (text == "~" or text.startswith("~/"))) or (first.bare == "~" and len(pieces) > 1)
        known = all(piece.text is not None for piece in pieces) and not any(piece.home for piece in pieces[1:])
        braces = "{" in bare and ("," in bare or ".." in bare)
        if not known or braces or tilde_unknown or re.search(r"[=:]~", bare):
            if braces or tilde_unknown:
                return Word(text=None, raw=raw, single=single and not braces)
            return _with_hole(raw, pieces, single=single)
        if any(piece.glob for piece in pieces):
            return Word(text=None, raw=raw, glob=text, home=home, single=False)
        return Word(text=text, raw=raw, home=home)

    def _pieces(self, node: "Node") -> "Iterator[_Piece]":
        kind = node.type
        if kind in ("word", "number") or not node.is_named:
            # a nameless node is called after its last token, and may have more text than that
            if node.child_count:
                raise Opaque(f"a {kind} with parts")
            yield _bare(self.text(node))
        elif kind == "raw_string":
            yield _Piece(self.text(node)[1:-1], quoted=True)
        elif kind == "ansi_c_string":
            yield _Piece(_ansi(self.text(node)[2:-1]), quoted=True)
        elif kind == "string":
            yield from self._string(node)
        elif kind == "concatenation":
            yield from self._joined(node)
        elif kind == "simple_expansion":
            yield self._variable(node)
        elif kind == "expansion":
            yield self._parameter(node)
        else:
            yield self._evaluated(node)

    def _evaluated(self, node: "Node") -> "_Piece":
        kind = node.type
        if kind in ("command_substitution", "process_substitution"):
            self.inner.append(node)
            return _Piece(None, hole="$(" if kind == "command_substitution" else "")
        if kind == "arithmetic_expansion":
            if not _NUMBERS.match(self.source[node.start_byte : node.end_byte]):
                raise Opaque("arithmetic with names, which can run commands")
        elif kind != "brace_expression":
            raise Opaque(f"{kind.replace('_', ' ')} in a word")
        return _Piece(None)

    def _joined(self, node: "Node") -> "Iterator[_Piece]":
        parts = self.tight(node)
        for position, part in enumerate(parts):
            if part.is_named:
                yield from self._pieces(part)
                continue
            text = self.text(part)
            if "$" in text and position < len(parts) - 1:
                raise Opaque("an expansion that the grammar does not account for")
            yield _bare(text)

    def _variable(self, node: "Node") -> "_Piece":
        self.tight(node)
        text = self.text(node)
        if not _PARAMETER_NAME.fullmatch(text[1:]):
            raise Opaque("an expansion that the grammar does not account for")
        return _Piece("~", home=True) if text == "$HOME" else _Piece(None, hole=text[1:])

    def _parameter(self, node: "Node") -> "_Piece":
        inner = self.tight(node)[1:-1]
        if inner and inner[0].type == "#" and len(inner) == 2 and inner[1].type in _VARIABLES:
            return _Piece(None)
        if not inner or inner[0].type not in _VARIABLES or not _PARAMETER_NAME.fullmatch(self.text(inner[0])):
            raise Opaque("an expansion that can evaluate text")
        if self.text(node) == "${HOME}":
            return _Piece("~", home=True)
        if len(inner) == 1:
            return _Piece(None, hole=self.text(inner[0]))
        if inner[1].type == ":" and all(part.type in (":", "number") for part in inner[1:]):
            self._whole_numbers(inner[2:])
            return _Piece(None)
        for part in inner[1:]:
            if part.is_named:
                if part.type == "regex":
                    if re.search(r"[$`]", self.text(part)):
                        raise Opaque("an expansion inside a pattern")
                else:
                    list(self._pieces(part))
            elif part.type not in _PARAMETER:
                raise Opaque("an expansion that can evaluate text")
        return _Piece(None)

    def _whole_numbers(self, parts: "Sequence[Node]") -> None:
        # anything else there is arithmetic, which can run commands
        if not all(re.fullmatch(r":|-?[0-9]+", self.text(part)) for part in parts):
            raise Opaque("an expansion that can evaluate text")

    def _string(self, node: "Node") -> "Iterator[_Piece]":
        at = node.start_byte + 1
        for part in node.children[1:-1]:
            if not part.is_named or part.type == "string_content":
                continue
            if part.start_byte > at:
                text = self.source[at : part.start_byte].decode("utf-8")
                if _OPEN_END.search(text):
                    raise Opaque("an expansion that the grammar does not account for")
                yield _Piece(_double_quoted(text), quoted=True)
            for piece in self._pieces(part):
                yield _Piece(piece.text, quoted=True, home=piece.home, hole=piece.hole)
            at = part.end_byte
        if at < node.end_byte - 1 or at == node.start_byte + 1:
            yield _Piece(_double_quoted(self.source[at : node.end_byte - 1].decode("utf-8")), quoted=True)


class _Piece(Struct, frozen=True):
    """A part of a word. `bare` is what of it stands there without quotes or backslashes."""

    text: str | None
    bare: str = ""
    quoted: bool = False
    glob: bool = False
    home: bool = False
    hole: str = ""


def _with_hole(raw: str, pieces: list[_Piece], *, single: bool) -> Word:
    holes = [position for position, piece in enumerate(pieces) if piece.text is None]
    if len(holes) != 1:
        return Word(text=None, raw=raw, single=single)
    others = [piece for piece in pieces if piece.text is not None]
    plain = not any(piece.glob or piece.home or re.search(r"[=:]?~", piece.bare) for piece in others)
    if not plain or not pieces[holes[0]].hole:
        return Word(text=None, raw=raw, single=single)
    head = "".join(piece.text or "" for piece in pieces[: holes[0]])
    tail = "".join(piece.text or "" for piece in pieces[holes[0] + 1 :])
    return Word(text=None, raw=raw, single=single, hole=pieces[holes[0]].hole, head=head, tail=tail)


def _bare(raw: str) -> _Piece:
    if "\\\n" in raw:
        raise Opaque("a word continued on the next line")
    if _EXPANDS.search(raw):
        raise Opaque("an expansion that the grammar does not account for")
    bare = re.sub(r"\\.", "\\\\", raw, flags=re.DOTALL)
    if re.search(r"[\s;&|<>()]", bare):
        raise Opaque("a word with operators in it")
    text = re.sub(r"\\(.)", r"\1", raw, flags=re.DOTALL)
    return _Piece(text, bare=bare, glob=any(c in bare for c in "*?["))


def _double_quoted(raw: str) -> str:
    if _EXPANDS.search(raw):
        raise Opaque("an expansion that the grammar does not account for")
    return re.sub(r'\\(["\\$`\n])', lambda found: "" if found[1] == "\n" else found[1], raw)


def _ansi(raw: str) -> str:
    def one(found: re.Match[str]) -> str:
        code = found[1]
        if code[0] in _ESCAPES:
            return _ESCAPES[code[0]]
        if code[0] in "xuU":
            value = int(code[1:], 16)
        elif code[0] in "01234567":
            value = int(code, 8) & 0xFF
        elif code[0] in "\\'\"?":
            return code[0]
        else:
            raise Opaque("an escape in $'…' that is not understood")
        if value == 0 or value > 0x10FFFF or 0x7F < value < 0x100 or 0xD800 <= value < 0xE000:
            raise Opaque("an escape in $'…' that is not text")
        return chr(value)

    if re.search(r"(?<!\\)(?:\\\\)*\\\Z", raw):
        raise Opaque("an escape in $'…' that is not understood")
    return re.sub(r"\\(x[0-9A-Fa-f]{1,2}|u[0-9A-Fa-f]{1,4}|U[0-9A-Fa-f]{1,8}|[0-7]{1,3}|.)", one, raw, flags=re.DOTALL)
