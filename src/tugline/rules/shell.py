"""Analysis of a shell command: which simple commands it is made of, what it redirects, and what is not known."""

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from tugline.rules.names import names
from tugline.rules.shell_outputs import output_of
from tugline.rules.shell_parts import SHADOW_NAMES, Analysis, Folders, Member, Redirect, enter
from tugline.rules.shell_values import Values, plain_variable, settle, spread, variants, with_output
from tugline.rules.shell_words import WORDS, Lowering, Opaque, Output, Word

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
    opaque = ""
    hidden: tuple[str, ...] = ()
    root = _parser().parse(source).root_node
    try:
        walk.run(root)
    except Opaque as why:
        # what can be read of it still counts for deny rules
        opaque = str(why)
        walk.salvage(root)
        spread_out = _spread_out(command)
        hidden = (spread_out,) if spread_out != command else ()
    return Analysis(
        command,
        tuple(walk.members),
        tuple(walk.redirects),
        opaque=opaque,
        shadow=walk.shadow,
        moves=walk.moves and not opaque,
        texts=tuple(walk.texts),
        assigned=tuple(walk.assigned),
        hidden=hidden,
    )


def _spread_out(command: str) -> str:
    """The command with its plain brace expressions written out: the grammar has none where a command's name stands."""
    if "{" not in command or len(command) > 4_000:
        return command
    return re.sub(
        r"(?:(?<=\s)|\A)[^\s;|&(){}]*\{[^\s;|&(){}]*,[^\s;|&(){}]*\}[^\s;|&(){}]*",
        lambda found: " ".join(word.text or word.raw for word in spread(found[0])) or found[0],
        command,
    )


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
_PLAIN_REGEX = re.compile(
    r"(?:[\w^.*+?{},@%:/=-]|\\[.\[\]()+*?|/$]|\[[\w^.*+?@%:/=-]+\]|[()|]|\$(?=[)|]|\Z))+", re.ASCII
)
_DESCRIPTOR = re.compile(r"[0-9]+\Z|\{\w+\}\Z")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_SHADOWING = names(
    "alias unalias hash enable trap shopt bind complete compopt source . function declare typeset local readonly "
    "coproc set exec pushd popd dirs suspend caller fc history logout disown"
)
_RUNS_HERE = names("eval source . builtin command exec trap enable shopt set")
"""What may change the shell's variables in ways that are not seen."""
_QUIET = names("echo cat grep ls wc head tail sort rm cp mv mkdir git test sed awk printf basename dirname rg find")
"""Commands of loops of which it is known that they assign nothing, whatever their words are."""
_ASSIGNERS = names("read mapfile readarray getopts unset wait let printf export declare typeset local readonly")


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
        self.values: Values = {}
        self.piped: Output | None = None
        """What is known of the lines that come through the pipe."""
        self.texts: list[str] = []
        self.assigned: list[str] = []

    def run(self, root: "Node") -> None:
        """Walk all of it; `Opaque` at the first thing that is not understood."""
        if root.has_error:
            raise Opaque("it cannot be parsed")
        if root.start_byte and self.low.source[: root.start_byte].strip(b" \t\n"):
            raise Opaque("text that the grammar does not account for")
        if self.low.source[root.end_byte :].strip(b" \t\n"):
            raise Opaque("text that the grammar does not account for")
        self._sequence(root, ("",))

    def salvage(self, root: "Node") -> None:
        """Take what simple commands there are, wherever they stand."""
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
            elif node.type == "heredoc_body":
                self.texts.append(self.low.text(node))
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
        values = dict(self.values)
        self._statement(node, folders)
        self.values = values
        self.isolated -= 1

    def _scoped(self, node: "Node", folders: Folders, *, each: bool) -> None:
        self.isolated += 1
        values, piped = dict(self.values), self.piped
        if each:
            self._pipeline(node, folders)
        else:
            inside = folders
            for part in self.low.children(node):
                if part.type in _REDIRECTS:
                    self._redirect(part, inside, [])
                elif part.is_named:
                    inside = self._statement(part, inside)[1]
                else:
                    self._token(part)
        self.values, self.piped = values, piped
        self.isolated -= 1

    def _pipeline(self, node: "Node", folders: Folders) -> None:
        values = dict(self.values)
        so_far: list[tuple[Word, ...]] | None = []
        for part in self.low.children(node):
            if not part.is_named:
                self._token(part)
                continue
            self.values = dict(values)
            self.piped = output_of(so_far) if so_far else None
            before = len(self.members)
            self._statement(part, folders)
            if so_far is not None:
                so_far = [*so_far, self.members[-1].words] if self._plain_step(part, before) else None

    def _plain_step(self, node: "Node", before: int) -> bool:
        """Whether a part of a pipeline is one command, of which other redirections than of errors are none."""
        return self._plain_shape(node) and len(self.members) == before + 1 and not self.members[-1].env

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
        certain = dict(self.values)
        for operator, part in reversed(chain):
            if operator == "||":
                self._keep(certain)
            right_good, right_every = self._statement(part, good if operator == "&&" else every)
            good = right_good if operator == "&&" else _join(good, right_good)
            every = _join(every, right_every)
        self._keep(certain)
        return good, every

    def _keep(self, before: Values) -> None:
        """Forget what was assigned since, as it may not have been."""
        self.values = {name: value for name, value in self.values.items() if before.get(name) == value}

    def _branches(self, node: "Node", folders: Folders) -> tuple[Folders, Folders]:
        members, redirects, moves = len(self.members), len(self.redirects), self.moves
        if node.type in ("for_statement", "while_statement"):
            self._forget_assigned(node)
        before = dict(self.values)
        after = self._branch_parts(node, folders)
        self._keep(before)
        if after != folders and node.type in ("for_statement", "while_statement"):
            # it comes round again from wherever it went
            del self.members[members:], self.redirects[redirects:]
            self.moves = moves
            self._branch_parts(node, None)
            self._keep(before)
            return None, None
        return after, after

    def _forget_assigned(self, node: "Node") -> None:
        """What a loop assigns has, at its beginning, the value from before or that of the round before."""
        pending = [node]
        while pending:
            part = pending.pop()
            if part.type == "variable_name":
                self.values.pop(self.low.text(part), None)
            elif part.type == "command":
                name = self.low.text(part.children[0]) if part.children else ""
                if part.children and part.children[0].type == "command_name" and name in _QUIET:
                    pending.extend(part.children)
                    continue
                for word in part.children:
                    self.values.pop(self.low.text(word), None)
            pending.extend(part.children)

    def _looped(self, node: "Node", folders: Folders) -> None:
        """The values of the variable of a `for`."""
        variable: Node | None = None
        values: list[Word] = []
        for part in self.low.children(node):
            if part.type == "variable_name" and variable is None:
                variable = part
            elif part.type in WORDS and variable is not None:
                word = self._word(part, folders)
                self.assigned.extend(each.text for each in (word.several or word.choices or (word,)) if each.text)
                values.extend(word.several or word.choices or (word,))
            elif part.type == "do_group":
                break
        if variable is None:
            return
        name = self.low.text(variable)
        if values and len(values) <= 16 and all(_settled(value) for value in values):
            self.values[name] = tuple(values)
        else:
            self.values.pop(name, None)

    def _branch_parts(self, node: "Node", folders: Folders) -> Folders:
        after = folders
        looped = node.type == "for_statement"
        before = dict(self.values)
        for part in self.low.children(node):
            if part.type in ("else_clause", "elif_clause", "case_item"):
                self._keep(before)
            if looped and part.type == "do_group":
                self._looped(node, folders)
            if not part.is_named:
                self._token(part)
            elif part.type in ("do_group", "else_clause", "elif_clause", "case_item"):
                after = _join(after, self._branch_parts(part, after))
            elif part.type == "variable_name":
                self._assigned(self.low.text(part))
            elif part.type in WORDS:
                if not looped:
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
        piped = self.piped
        if any(self._is_input(part) for part in redirects):
            self.piped = None
        try:
            return self._redirected_body(node, body, redirects, extra, folders)
        finally:
            self.piped = piped

    def _is_input(self, node: "Node") -> bool:
        return node.type != "file_redirect" or "<" in self.low.text(node).partition(">")[0][:8]

    def _redirected_body(
        self, node: "Node", body: "list[Node]", redirects: "list[Node]", extra: list[Word], folders: Folders
    ) -> tuple[Folders, Folders]:
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
                    word = self._word(part, folders)
                    self.texts.append(word.text if word.text is not None else word.raw.strip("\"'"))
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
        for each in target.several or target.choices or (target,):
            self.redirects.append(Redirect(each, operator not in ("<", "<&"), folders))

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
        if body is not None:
            self.texts.append(self.low.text(body))
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
        output: Output | None = None
        for inner in pending:
            output = self._substituted(inner, folders)
        if word.hole == "$(":
            known = with_output(word, output) if output is not None and len(pending) == 1 else None
            return known or word
        if word.hole in self.values:
            return settle(word, self.values[word.hole])
        if word.hole == "PWD":
            return with_output(word, Output("here")) or word
        if word.text is None and not word.single:
            several = spread(word.raw)
            if several:
                return Word(text=None, raw=word.raw, single=False, several=several)
        return word

    def _substituted(self, node: "Node", folders: Folders) -> Output | None:
        """Walk a substitution; what is known of its output."""
        start = len(self.members)
        self._statement(node, folders)
        body = [part for part in node.children if part.is_named]
        if node.type != "command_substitution" or len(body) != 1:
            return None
        found = [member.words for member in self.members[start:] if not member.env]
        steps = [part for part in body[0].children if part.is_named] if body[0].type == "pipeline" else body
        if len(found) != len(steps) or len(found) != len(self.members) - start:
            return None
        reads_file = body[0].type == "redirected_statement" and found[0][:1] and found[0][0].text == "wc"
        if not reads_file and not all(self._plain_shape(step) for step in steps):
            return None
        return output_of(found)

    def _plain_shape(self, node: "Node") -> bool:
        if node.type == "redirected_statement":
            aside = [part for part in node.children if part.type in _REDIRECTS]
            if not all(re.fullmatch(r"2>\s*(/dev/null|&1)", self.low.text(part)) for part in aside):
                return False
            node = node.children[0]
        return node.type == "command" and not any(part.type in _REDIRECTS for part in node.children)

    def _command(self, node: "Node", folders: Folders, extra: list[Word]) -> tuple[Folders, Folders]:
        words: list[Word] = []
        env: list[tuple[str, Word]] = []
        behind: list[Word] = []
        piped = self.piped
        for part in self.low.inline(node):
            kind = part.type
            if kind == "variable_assignment":
                env.append(self._pair(part, folders))
            elif kind in _REDIRECTS:
                self._redirect(part, folders, behind)
                piped = None if self._is_input(part) else piped
            elif kind == "command_name":
                inner = self.low.children(part)
                if len(inner) != 1:
                    raise Opaque("a command's name of an unusual form")
                words.append(self._word(inner[0], folders))
            elif kind in WORDS or (not part.is_named and kind in ("==", "=~", "$")):
                words.append(self._word(part, folders))
            else:
                raise Opaque(f"{kind.replace('_', ' ')} in a command is not analysed")
        words = _flat([*words, *behind, *extra])
        raw = self.low.text(node)
        for each in variants(words):
            self._add(Member(each, tuple(env), folders, raw, piped=piped))
        member = Member(tuple(words), tuple(env), folders, raw)
        self._take_values(member)
        return self._moved(member, folders)

    def _take_values(self, member: Member) -> None:
        """What a command does to the shell's variables."""
        words = member.words
        name = member.name
        variables = [word.text for word in words[1:] if word.text != "-r"]
        whole = all(variable == "IFS" and value.text == "" for variable, value in member.env)
        if name == "read" and self.piped is not None and whole and len(variables) == 1 and variables[0] is not None:
            self.values[variables[0]] = (Word(text=None, raw="…", output=self.piped),)
            return
        if not words or name in _ASSIGNERS:
            for word in words[1:]:
                if word.text is None:
                    self.values = {}
                    return
                self.values.pop(word.text.split("=")[0], None)
            for variable, _ in member.env:
                self.values.pop(variable, None)
        elif name is None or name in _RUNS_HERE:
            self.values = {}

    def _add(self, member: Member) -> None:
        if len(self.members) >= MEMBER_LIMIT:
            raise Opaque(f"it has more than {MEMBER_LIMIT} commands")
        self.members.append(member)
        name = member.name
        if name in _SHADOWING and not _mild(member):
            self.shadow = self.shadow or f"{name} changes what later commands mean"
        if name in _ASSIGNERS:
            for word in member.words[1:]:
                if word.text is not None and word.text.split("=")[0].split("[")[0] in SHADOW_NAMES:
                    self.shadow = self.shadow or f"it sets {word.text.split('=')[0]}"
        for variable, _ in member.env:
            if not (variable == "IFS" and name == "read"):
                self._check_variable(variable)

    def _check_variable(self, name: str) -> None:
        if name in SHADOW_NAMES or name.startswith(("LD_", "DYLD_", "BASH_FUNC")):
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
            there = enter(folders, targets[0].path, logical=True)
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
        name, value = self._pair(node, folders)
        self._assigned(name)
        # what stands behind = is neither cut at blanks nor taken for a pattern of names
        if value.glob is not None:
            value = Word(text=None, raw=value.raw)
        if any(part.type == "+=" for part in node.children):
            self.values.pop(name, None)
            return
        found = value.choices or (value,)
        self.assigned.extend(each.text for each in found if each.text)
        if all(_settled(each) for each in found):
            self.values[name] = found
        else:
            self.values.pop(name, None)

    def _assigned(self, name: str) -> None:
        if not plain_variable(name):
            self.shadow = self.shadow or f"it sets {name}"

    def _declaration(self, node: "Node", folders: Folders) -> None:
        words: list[Word] = []
        for part in self.low.inline(node):
            if part.type == "variable_assignment":
                name, value = self._pair(part, folders)
                text = None if value.text is None else f"{name}={value.text}"
                words.append(Word(text=text, raw=self.low.text(part)))
                self.assigned.extend([value.text] if value.text else [])
                self._check_variable(name)
                self.values.pop(name, None)
            elif part.type in ("variable_name", "special_variable_name"):
                words.append(Word(text=self.low.text(part), raw=self.low.text(part)))
            elif part.type in WORDS or not part.is_named:
                words.append(self._word(part, folders))
            else:
                raise Opaque(f"{part.type.replace('_', ' ')} is not analysed")
        member = Member(tuple(words), folders=folders, raw=self.low.text(node))
        self._add(member)
        self._take_values(member)

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
            elif part.type == "regex" and _PLAIN_REGEX.fullmatch(self.low.text(part)):
                continue
            elif part.type in ("regex", "extglob_pattern"):
                if re.search(r"[$`(]", self.low.text(part)):
                    raise Opaque("an expansion inside a pattern")
            elif part.type in WORDS:
                word = self._word(part, folders)
                number = word.output is not None and word.output.kind == "number"
                if numbers and not number and not re.fullmatch(r"-?[0-9]+", word.text or ""):
                    raise Opaque("a test that can evaluate text")
                if (
                    not double
                    and not number
                    and not word.choices
                    and ((word.text is None and not word.single) or word.text in ("-v", "-R"))
                ):
                    raise Opaque("a test whose operators are not certain")
                words.append(word)
            elif part.is_named or self.low.text(part) not in _OPERATORS_TEST:
                raise Opaque(f"{part.type!r} in a test is not analysed")


def _flat(words: list[Word]) -> list[Word]:
    return [each for word in words for each in (word.several or (word,))]


def _settled(word: Word) -> bool:
    """Whether the word can be kept as a variable's value."""
    return word.text is not None or word.glob is not None or word.output is not None


def _mild(member: Member) -> bool:
    """Uses of shadowing builtins that shadow nothing: `set -e`, and `exec` with a command behind it."""
    words = [word.text for word in member.words[1:]]
    if member.name == "set":
        return bool(words) and all(
            word is not None and re.fullmatch(r"[-+][eu]+o?|pipefail|errexit|nounset|[-+]o", word) for word in words
        )
    if member.name == "exec":
        return bool(words)
    return member.name in ("readonly", "alias", "hash", "history", "dirs", "shopt") and not words
