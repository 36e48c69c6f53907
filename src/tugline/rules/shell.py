"""Analysis of a shell command: which simple commands it is made of, what it redirects, and what is not known."""

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct

from tugline.rules.names import names
from tugline.rules.shell_words import WORDS, Lowering, Opaque, Word

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

SIZE_LIMIT = 64_000
DEPTH_LIMIT = 64
MEMBER_LIMIT = 512
OPERATOR_LIMIT = 4_000
"""More of these characters than that, in a text that does not parse, would keep the parser busy for seconds."""
FOLDER_LIMIT = 4

_ODD = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\u061c\u00ad\u180e"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)

Folders = tuple[str, ...] | None
"""Where a command may run, relative to where the whole starts; `None`: anywhere."""


class Member(Struct, frozen=True):
    """One simple command: the variables set for it, its words, and the folders that it may run in.

    `inner`: it is text that another member hands to a shell; it counts for deny and ask rules only.
    """

    words: tuple[Word, ...]
    env: tuple[tuple[str, Word], ...] = ()
    folders: Folders = ("",)
    raw: str = ""
    inner: bool = False

    @property
    def name(self) -> str | None:
        """The first word, where it is known."""
        return self.words[0].text if self.words else ""


class Redirect(Struct, frozen=True):
    """A redirection to or from a file."""

    target: Word
    edit: bool
    folders: Folders


class Analysis(Struct, frozen=True):
    """What is known of a command. `opaque` and `shadow` say why it must be asked about; empty where it need not."""

    command: str
    members: tuple[Member, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    opaque: str = ""
    shadow: str = ""
    moves: bool = False
    """It changes the working directory that later calls start in."""


@lru_cache(maxsize=512)
def analyse(command: str) -> Analysis:
    """Take a command apart. Total: what cannot be taken apart is opaque, never an error."""
    odd = _ODD.search(command)
    if odd:
        return Analysis(command, opaque=f"it contains the character U+{ord(odd[0]):04X}")
    source = command.encode("utf-8")
    if len(source) > SIZE_LIMIT:
        return Analysis(command, opaque=f"it is longer than {SIZE_LIMIT} bytes")
    if sum(map(source.count, (b"|", b"<", b">", b"(", b")", b"["))) > OPERATOR_LIMIT:
        return Analysis(command, opaque=f"it has more than {OPERATOR_LIMIT} operators")
    walk = _Walk(source)
    try:
        walk.run(_parser().parse(source).root_node)
    except Opaque as why:
        # what was seen before is kept: a deny rule may still hit it
        return Analysis(command, tuple(walk.members), tuple(walk.redirects), opaque=str(why), shadow=walk.shadow)
    return Analysis(command, tuple(walk.members), tuple(walk.redirects), shadow=walk.shadow, moves=walk.moves)


@lru_cache(maxsize=1)
def _parser() -> "Parser":
    # imported here: start-up cost
    import tree_sitter_bash  # noqa: PLC0415
    from tree_sitter import Language, Parser  # noqa: PLC0415

    return Parser(Language(tree_sitter_bash.language()))


_SEQUENCES = frozenset(["program", "compound_statement", "do_group", "else_clause", "elif_clause", "if_statement"])
_TOKENS = names("; ;; & && || | |& ( ) { } ! if then else elif fi for in do done while until case esac $( <( >( `") | {
    "\n"
}
_REDIRECTS = frozenset(["file_redirect", "herestring_redirect", "heredoc_redirect"])
_OPERATORS_TEST = names("[ ] [[ ]] ( ) ! && || == = != < > =~ -a -o")
_TEST_SAFE = names("-a -b -c -d -e -f -g -h -k -p -r -s -t -u -w -x -G -L -N -O -S -z -n -nt -ot -ef")
_TEST_NUMBERS = frozenset(["-eq", "-ne", "-lt", "-le", "-gt", "-ge"])
_DESCRIPTOR = re.compile(r"[0-9]+\Z|\{\w+\}\Z")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_PLAIN_NAME = re.compile(r"[a-z_][a-z0-9_]*\Z")
_PROXIES = frozenset(["http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy"])
_SHADOW_NAMES = names(
    "PATH IFS ENV BASH_ENV PS4 PROMPT_COMMAND SHELLOPTS BASHOPTS CDPATH GLOBIGNORE EXECIGNORE FIGNORE HOME PWD "
    "OLDPWD POSIXLY_CORRECT BASH_CMDS BASH_ALIASES HISTFILE TMPDIR SHELL BASH_XTRACEFD BASH_LOADABLES_PATH"
)
HARMLESS_ENV = names(
    "LANG LC_ALL LC_COLLATE LC_CTYPE LC_MESSAGES LC_NUMERIC LC_TIME TZ TERM NO_COLOR FORCE_COLOR CLICOLOR COLUMNS "
    "LINES CI DEBUG NODE_ENV RAILS_ENV RACK_ENV FLASK_ENV APP_ENV GO111MODULE GOOS GOARCH CGO_ENABLED "
    "RUST_BACKTRACE RUST_LOG PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE PYTHONHASHSEED PYTHONIOENCODING PYTHONUTF8 "
    "DJANGO_DEBUG VERBOSE V"
)
"""Variables that, set to a plain word, change how a program speaks and not what it runs."""
_PLAIN_VALUE = re.compile(r"[A-Za-z0-9._@,=+-]*\Z")
_SHADOWING = names(
    "alias unalias hash enable trap shopt bind complete compopt source . function declare typeset local readonly "
    "coproc set exec pushd popd dirs suspend caller fc history logout disown"
)
_ASSIGNERS = names("read mapfile readarray getopts unset wait let printf export declare typeset local readonly")


def harmless_env(name: str, value: Word) -> bool:
    """Whether setting this variable for a command leaves open what it runs."""
    return name in HARMLESS_ENV and value.text is not None and _PLAIN_VALUE.match(value.text) is not None


def _plain_variable(name: str) -> bool:
    return _PLAIN_NAME.match(name) is not None and name not in _PROXIES


def _join(folders: Folders, more: Folders) -> Folders:
    if folders is None or more is None:
        return None
    both = tuple(dict.fromkeys(folders + more))
    return both if len(both) <= FOLDER_LIMIT else None


class _Walk:
    """Goes through a syntax tree once. `run` answers the folders after success, and after anything."""

    def __init__(self, source: bytes, depth: int = 0) -> None:
        self.low = Lowering(source)
        self.members: list[Member] = []
        self.redirects: list[Redirect] = []
        self.shadow = ""
        self.moves = False
        self.depth = depth
        self.isolated = 0

    def run(self, root: "Node") -> None:
        """Walk all of it; `Opaque` at the first thing that is not understood."""
        if root.has_error:
            # what can be read of it still counts for deny rules
            self._salvage(root)
            raise Opaque("it cannot be parsed")
        if root.start_byte and self.low.source[: root.start_byte].strip(b" \t\n"):
            raise Opaque("text that the grammar does not account for")
        if self.low.source[root.end_byte :].strip(b" \t\n"):
            raise Opaque("text that the grammar does not account for")
        self._sequence(root, ("",))

    def _salvage(self, root: "Node") -> None:
        pending = [root]
        seen = 0
        while pending and seen < 20_000:
            node = pending.pop()
            seen += 1
            if node.type == "command" and not node.has_error and len(self.members) < MEMBER_LIMIT:
                try:
                    self._command(node, None, [])
                except Opaque:
                    pass
            pending.extend(node.children)

    # -- statements ---------------------------------------------------------------------------------

    def _statement(self, node: "Node", folders: Folders) -> tuple[Folders, Folders]:
        self.depth += 1
        if self.depth > DEPTH_LIMIT:
            raise Opaque(f"it is nested deeper than {DEPTH_LIMIT}")
        try:
            return self._dispatch(node, folders)
        finally:
            self.depth -= 1

    def _dispatch(self, node: "Node", folders: Folders) -> tuple[Folders, Folders]:
        kind = node.type
        if kind == "command":
            return self._command(node, folders, [])
        if kind == "list":
            return self._list(node, folders)
        if kind == "redirected_statement":
            return self._redirected(node, folders)
        if kind in ("pipeline", "subshell", "command_substitution", "process_substitution"):
            self._scoped(node, folders, each=kind == "pipeline")
            return folders, folders
        if kind in ("program", "compound_statement"):
            if kind == "compound_statement":
                self._check_braces(node)
            return self._sequence(node, folders)
        if kind == "negated_command":
            if self.low.source[node.start_byte + 1 : node.start_byte + 2] not in (b" ", b"\t"):
                raise Opaque("a ! that is part of a word")
            after = self._sequence(node, folders)[1]
            return after, after
        if kind in ("if_statement", "case_statement", "for_statement", "while_statement"):
            return self._branches(node, folders)
        self._settled(node, folders)
        return folders, folders

    def _check_braces(self, node: "Node") -> None:
        """A brace groups commands only as a word of its own."""
        begin, end = node.start_byte, node.end_byte
        inner = self.low.source[begin + 1 : begin + 2], self.low.source[end - 2 : end - 1]
        if inner[0] not in (b" ", b"\t", b"\n") or inner[1] not in (b" ", b"\t", b"\n", b";", b"&", b")"):
            raise Opaque("a brace that is part of a word")

    def _settled(self, node: "Node", folders: Folders) -> None:
        """Statements that never change the folder."""
        kind = node.type
        if kind == "test_command":
            self._test(node, folders)
        elif kind == "variable_assignment":
            self._assignment(node, folders)
        elif kind == "variable_assignments":
            for part in self.low.children(node):
                self._assignment(part, folders)
        elif kind in ("declaration_command", "unset_command"):
            self._declaration(node, folders)
        elif kind == "function_definition":
            self.shadow = self.shadow or "it defines a function"
            body = node.child_by_field_name("body")
            if body is not None:
                self._statement(body, None)
        elif kind != "comment":
            raise Opaque(f"{kind.replace('_', ' ')} is not analysed")

    def _sequence(self, node: "Node", folders: Folders) -> tuple[Folders, Folders]:
        parts = self.low.children(node)
        good = every = folders
        for position, part in enumerate(parts):
            if not part.is_named:
                self._token(part)
                continue
            if part.type == "comment":
                continue
            behind = parts[position + 1] if position + 1 < len(parts) else None
            if behind is not None and behind.type == "&":
                self._isolated(part, every)
                good = every
            else:
                good, every = self._statement(part, every)
        return good, every

    def _token(self, node: "Node") -> None:
        if node.type not in _TOKENS:
            raise Opaque(f"{node.type!r} is not analysed")

    def _isolated(self, node: "Node", folders: Folders) -> None:
        self.isolated += 1
        self._statement(node, folders)
        self.isolated -= 1

    def _scoped(self, node: "Node", folders: Folders, *, each: bool) -> None:
        self.isolated += 1
        if each:
            for part in self.low.children(node):
                if part.is_named:
                    self._statement(part, folders)
                else:
                    self._token(part)
        else:
            inside = folders
            for part in self.low.children(node):
                if part.type in _REDIRECTS:
                    self._redirect(part, inside, [])
                elif part.is_named:
                    inside = self._statement(part, inside)[1]
                else:
                    self._token(part)
        self.isolated -= 1

    def _list(self, node: "Node", folders: Folders) -> tuple[Folders, Folders]:
        # a chain leans to the left: walked as a chain, so that its length is not its depth
        chain: list[tuple[str, Node]] = []
        while node.type == "list":
            parts = self.low.children(node)
            named = [part for part in parts if part.is_named and part.type != "comment"]
            tokens = [self.low.text(part) for part in parts if not part.is_named and part.type != "\n"]
            if len(named) != 2 or len(tokens) != 1 or tokens[0] not in ("&&", "||"):
                raise Opaque("a list of an unusual form")
            chain.append((tokens[0], named[1]))
            node = named[0]
        good, every = self._statement(node, folders)
        for operator, part in reversed(chain):
            right_good, right_every = self._statement(part, good if operator == "&&" else every)
            good = right_good if operator == "&&" else _join(good, right_good)
            every = _join(every, right_every)
        return good, every

    def _branches(self, node: "Node", folders: Folders) -> tuple[Folders, Folders]:
        members, redirects, moves = len(self.members), len(self.redirects), self.moves
        after = self._branch_parts(node, folders)
        if after != folders and node.type in ("for_statement", "while_statement"):
            # it comes round again from wherever it went
            del self.members[members:], self.redirects[redirects:]
            self.moves = moves
            self._branch_parts(node, None)
            return None, None
        return after, after

    def _branch_parts(self, node: "Node", folders: Folders) -> Folders:
        after = folders
        for part in self.low.children(node):
            if not part.is_named:
                self._token(part)
            elif part.type in ("do_group", "else_clause", "elif_clause", "case_item"):
                after = _join(after, self._branch_parts(part, after))
            elif part.type == "variable_name":
                self._assigned(self.low.text(part))
            elif part.type in WORDS:
                self._word(part, after)
            elif part.type == "extglob_pattern":
                if re.search(r"[$`(]", self.low.text(part)):
                    raise Opaque("an expansion inside a pattern")
            elif part.type != "comment":
                after = _join(after, self._statement(part, after)[1])
        return after

    # -- redirections -------------------------------------------------------------------------------

    def _redirected(self, node: "Node", folders: Folders) -> tuple[Folders, Folders]:
        parts = self.low.inline(node)
        redirects = [part for part in parts if part.type in _REDIRECTS]
        body = [part for part in parts if part.type not in _REDIRECTS]
        if any(not part.is_named for part in body) or len(body) > 1:
            raise Opaque("a redirection of an unusual form")
        extra: list[Word] = []
        for part in redirects:
            self._redirect(part, folders, extra)
        if not body:
            if extra:
                self._add(Member(tuple(extra), folders=folders, raw=self.low.text(node)))
            return folders, folders
        heredocs = sum(part.type == "heredoc_redirect" for part in redirects)
        if heredocs > 1:
            raise Opaque("several here-documents")
        if body[0].type == "command":
            after = self._command(body[0], folders, extra)
            if heredocs and after[1] != folders:
                raise Opaque("a change of folder with a here-document")
            return after
        if extra:
            raise Opaque("words behind a redirection")
        good, every = self._statement(body[0], folders)
        if every != folders:
            # a redirection behind a list belongs to its last command
            self.redirects.extend(
                Redirect(found.target, found.edit, every) for found in self.redirects[-len(redirects) :]
            )
        return good, every

    def _redirect(self, node: "Node", folders: Folders, extra: list[Word]) -> None:
        if node.type == "heredoc_redirect":
            self._heredoc(node, folders, extra)
            return
        parts = self.low.inline(node)
        if node.type == "herestring_redirect":
            for part in parts:
                if part.is_named:
                    self._word(part, folders)
            return
        operator = next((self.low.text(part) for part in parts if not part.is_named), "")
        words = [part for part in parts if part.is_named and part.type != "file_descriptor"]
        if operator not in ("<", ">", ">>", "&>", "&>>", ">|", "<>", "<&", ">&", "<&-", ">&-"):
            raise Opaque(f"the redirection {operator!r} is not analysed")
        if operator in ("<&-", ">&-"):
            extra.extend(self._word(part, folders) for part in words)
            return
        if not words:
            raise Opaque("a redirection to nowhere")
        target = self._word(words[0], folders)
        extra.extend(self._word(part, folders) for part in words[1:])
        if operator in ("<&", ">&") and target.text is not None and re.fullmatch(r"[0-9]+-?|-", target.text):
            return
        self.redirects.append(Redirect(target, operator not in ("<", "<&"), folders))

    def _heredoc(self, node: "Node", folders: Folders, extra: list[Word]) -> None:
        start = body = end = None
        for part in self.low.children(node):
            if part.type == "heredoc_start":
                start = part
            elif part.type == "heredoc_body":
                body = part
            elif part.type == "heredoc_end":
                end = part
            elif part.type in WORDS:
                extra.append(self._word(part, folders))
            elif part.type in _REDIRECTS:
                self._redirect(part, folders, extra)
            elif part.is_named and part.type != "file_descriptor":
                self._statement(part, folders)
            elif not part.is_named and part.type not in ("<<", "<<-", "&&", "||", "|", "|&", "\n", ";"):
                raise Opaque(f"{part.type!r} behind a here-document is not analysed")
        if start is None or end is None:
            raise Opaque("a here-document without an end")
        self._check_heredoc(node, start, end)
        word = self.low.text(start)
        if body is not None and not (word.startswith(("'", '"', "\\"))):
            text = self.low.text(body)
            if "`" in text or re.search(r"\$[^A-Za-z_0-9\s]", text):
                raise Opaque("an expansion inside a here-document")

    def _check_heredoc(self, node: "Node", start: "Node", end: "Node") -> None:
        """The end that the grammar found must be the one that bash finds: the first line that is the word."""
        word = self.low.text(start)
        found = re.fullmatch(
            r"\\?([A-Za-z_][A-Za-z0-9_]*)|'([A-Za-z_][A-Za-z0-9_]*)'|\"([A-Za-z_][A-Za-z0-9_]*)\"", word
        )
        behind = self.low.source[start.end_byte : start.end_byte + 1]
        nested = any(part.type == "heredoc_redirect" for part in node.children)
        if not found or nested or behind not in (b" ", b"\t", b"\n", b";", b"|", b"&", b"<", b">", b")"):
            raise Opaque("a here-document of an unusual form")
        wanted = found[1] or found[2] or found[3]
        strip = any(part.type == "<<-" for part in node.children)
        lines = self.low.source.decode("utf-8").split("\n")
        for row in range(start.start_point[0] + 1, len(lines)):
            line = lines[row].lstrip("\t") if strip else lines[row]
            if line == wanted:
                if row == end.start_point[0]:
                    return
                break
        raise Opaque("a here-document whose end is not certain")

    # -- simple commands ----------------------------------------------------------------------------

    def _word(self, node: "Node", folders: Folders) -> Word:
        before = len(self.low.inner)
        word = self.low.word(node)
        if self.low.source[node.end_byte : node.end_byte + 1] in (b"<", b">") and _DESCRIPTOR.match(word.raw):
            raise Opaque("a word that is the number of a redirection")
        pending = self.low.inner[before:]
        del self.low.inner[before:]
        for inner in pending:
            self._statement(inner, folders)
        return word

    def _command(self, node: "Node", folders: Folders, extra: list[Word]) -> tuple[Folders, Folders]:
        words: list[Word] = []
        env: list[tuple[str, Word]] = []
        behind: list[Word] = []
        for part in self.low.inline(node):
            kind = part.type
            if kind == "variable_assignment":
                env.append(self._pair(part, folders))
            elif kind in _REDIRECTS:
                self._redirect(part, folders, behind)
            elif kind == "command_name":
                inner = self.low.children(part)
                if len(inner) != 1:
                    raise Opaque("a command's name of an unusual form")
                words.append(self._word(inner[0], folders))
            elif kind in WORDS or (not part.is_named and kind in ("==", "=~", "$")):
                words.append(self._word(part, folders))
            else:
                raise Opaque(f"{kind.replace('_', ' ')} in a command is not analysed")
        words = [*words, *behind, *extra] if words else [*behind, *extra]
        member = Member(tuple(words), tuple(env), folders, self.low.text(node))
        self._add(member)
        return self._moved(member, folders)

    def _add(self, member: Member) -> None:
        if len(self.members) >= MEMBER_LIMIT:
            raise Opaque(f"it has more than {MEMBER_LIMIT} commands")
        self.members.append(member)
        name = member.name
        if name in _SHADOWING and not _mild(member):
            self.shadow = self.shadow or f"{name} changes what later commands mean"
        if name in _ASSIGNERS:
            for word in member.words[1:]:
                if word.text is not None and word.text.split("=")[0].split("[")[0] in _SHADOW_NAMES:
                    self.shadow = self.shadow or f"it sets {word.text.split('=')[0]}"
        for variable, _ in member.env:
            self._check_variable(variable)

    def _check_variable(self, name: str) -> None:
        if name in _SHADOW_NAMES or name.startswith(("LD_", "DYLD_", "BASH_FUNC")):
            self.shadow = self.shadow or f"it sets {name}"

    def _moved(self, member: Member, folders: Folders) -> tuple[Folders, Folders]:
        names = [word.text for word in member.words]
        if not names or names[0] != "cd":
            while names and names[0] in ("builtin", "command", "time", "exec"):
                names = names[1:]
            if names and (names[0] is None or names[0] in ("cd", "pushd", "popd", "eval", "source", ".")):
                self.moves = self.moves or not self.isolated
                return None, None
            return folders, folders
        self.moves = self.moves or not self.isolated
        targets = [word for word in member.words[1:] if word.text != "--"]
        if not targets:
            there: Folders = ("~",)
        elif len(targets) > 1 or targets[0].path is None or targets[0].path.startswith("-") or not targets[0].path:
            there = None
        else:
            there = _enter(folders, targets[0].path)
        return there, _join(folders, there)

    def _pair(self, node: "Node", folders: Folders) -> tuple[str, Word]:
        parts = self.low.tight(node)
        if not parts or parts[0].type != "variable_name" or not _NAME.match(self.low.text(parts[0])):
            raise Opaque("an assignment that can evaluate text")
        values = [part for part in parts[1:] if part.is_named]
        if len(values) > 1 or any(part.type not in WORDS for part in values):
            raise Opaque("an assignment that is not analysed")
        value = self._word(values[0], folders) if values else Word(text="", raw="")
        return self.low.text(parts[0]), value

    def _assignment(self, node: "Node", folders: Folders) -> None:
        if node.type != "variable_assignment":
            raise Opaque("an assignment that is not analysed")
        name, _ = self._pair(node, folders)
        self._assigned(name)

    def _assigned(self, name: str) -> None:
        if not _plain_variable(name):
            self.shadow = self.shadow or f"it sets {name}"

    def _declaration(self, node: "Node", folders: Folders) -> None:
        words: list[Word] = []
        for part in self.low.inline(node):
            if part.type == "variable_assignment":
                name, value = self._pair(part, folders)
                text = None if value.text is None else f"{name}={value.text}"
                words.append(Word(text=text, raw=self.low.text(part)))
                self._check_variable(name)
            elif part.type in ("variable_name", "special_variable_name"):
                words.append(Word(text=self.low.text(part), raw=self.low.text(part)))
            elif part.type in WORDS or not part.is_named:
                words.append(self._word(part, folders))
            else:
                raise Opaque(f"{part.type.replace('_', ' ')} is not analysed")
        self._add(Member(tuple(words), folders=folders, raw=self.low.text(node)))

    # -- tests --------------------------------------------------------------------------------------

    def _test(self, node: "Node", folders: Folders) -> None:
        text = self.low.text(node)
        double = text.startswith("[[")
        width = 2 if double else 1
        behind = self.low.source[node.end_byte : node.end_byte + 1]
        if text[width : width + 1] not in (" ", "\t") or text[-width - 1 : -width] not in (" ", "\t"):
            raise Opaque("a bracket that is part of a word")
        if behind not in (b"", b" ", b"\t", b"\n", b";", b"&", b"|", b"<", b">", b")"):
            raise Opaque("a bracket that is part of a word")
        if "\n" in text:
            raise Opaque("a test on several lines")
        words: list[Word] = []
        self._test_parts(node, folders, words, double)
        self._add(
            Member((Word(text="[[" if double else "[", raw="["), *words), folders=folders, raw=self.low.text(node))
        )

    def _test_parts(self, node: "Node", folders: Folders, words: list[Word], double: bool) -> None:
        parts = self.low.children(node)
        operators = {self.low.text(part) for part in parts if part.type == "test_operator"}
        if not operators <= _TEST_SAFE | _TEST_NUMBERS:
            raise Opaque("a test that can evaluate text")
        numbers = double and bool(operators & _TEST_NUMBERS)
        for part in parts:
            if part.type == "test_operator":
                words.append(Word(text=self.low.text(part), raw=self.low.text(part)))
            elif part.type in ("unary_expression", "binary_expression", "parenthesized_expression"):
                self._test_parts(part, folders, words, double)
            elif part.type in ("regex", "extglob_pattern"):
                if re.search(r"[$`(]", self.low.text(part)):
                    raise Opaque("an expansion inside a pattern")
            elif part.type in WORDS:
                word = self._word(part, folders)
                if numbers and not re.fullmatch(r"-?[0-9]+", word.text or ""):
                    raise Opaque("a test that can evaluate text")
                if not double and ((word.text is None and not word.single) or word.text in ("-v", "-R")):
                    raise Opaque("a test whose operators are not certain")
                words.append(word)
            elif part.is_named or self.low.text(part) not in _OPERATORS_TEST:
                raise Opaque(f"{part.type!r} in a test is not analysed")


def _enter(folders: Folders, target: str) -> Folders:
    if target.startswith(("/", "~")):
        return (target,) if ".." not in target.split("/") else None
    if folders is None:
        return None
    steps = [step for step in target.split("/") if step not in ("", ".")]
    climbing = 0
    while climbing < len(steps) and steps[climbing] == "..":
        climbing += 1
    # `..` behind a name depends on links: bash goes back by name, the system by target
    if ".." in steps[climbing:] or (climbing and any(folder != "" for folder in folders)):
        return None
    path = "/".join(steps)
    return tuple(dict.fromkeys(f"{folder}/{path}" if folder and path else folder or path for folder in folders))


def _mild(member: Member) -> bool:
    """Uses of shadowing builtins that shadow nothing: `set -e`, and `exec` with a command behind it."""
    words = [word.text for word in member.words[1:]]
    if member.name == "set":
        return bool(words) and all(
            word is not None and re.fullmatch(r"[-+][eu]+o?|pipefail|errexit|nounset|[-+]o", word) for word in words
        )
    if member.name == "exec":
        return bool(words)
    return member.name == "readonly" and not words
