"""A shell command for the rules: each simple command and each redirection is a part."""

import re
from collections.abc import Sequence

from tugline.rules import paths
from tugline.rules.catastrophes import catastrophe, refused_removal
from tugline.rules.names import names
from tugline.rules.paths import Place
from tugline.rules.permission_look import Access, Look, Seen
from tugline.rules.permission_parts import (
    Expand,
    Part,
    Policy,
    Resolve,
    Survey,
    place_grant,
    place_hit,
    place_suggestions,
    readable,
    rule_edits,
    rule_reads,
)
from tugline.rules.rule import (
    Rule,
    could_match,
    exact_command_spec,
    matches_text,
    matches_words,
    parse_command_pattern,
)
from tugline.rules.shell import analyse
from tugline.rules.shell_commands import reads
from tugline.rules.shell_escapes import escapes
from tugline.rules.shell_hidden import paths_in
from tugline.rules.shell_options import Operand, Reads
from tugline.rules.shell_parts import Analysis, Folders, Member, Redirect
from tugline.rules.shell_tables import options_of, word_list, written_options
from tugline.rules.shell_words import Word
from tugline.rules.shell_wrappers import (
    Argv,
    Layers,
    all_layers,
    all_members,
    allowed_layers,
    base_name,
    moved_git,
    never_by_prefix,
    plain,
    starts,
)

_FREE = re.compile(r"/dev/(null|stdin|stdout|stderr|fd/[0-9]+|zero|random|urandom)\Z")
_NETWORK = re.compile(r"/dev/(tcp|udp)(/|\Z)")
_ACCEPTED = {
    "mkdir": re.compile(r"-[pv]+|--parents|--verbose"),
    "touch": re.compile(r"-[acm]+|--no-create"),
    "rm": re.compile(r"-[rRfvd]+|--recursive|--force|--verbose|--dir"),
    "rmdir": re.compile(r"-[pv]+|--parents"),
    "mv": re.compile(r"-[fnuvT]+|--force|--no-clobber|--verbose"),
    "cp": re.compile(r"-[afnpPrRuvT]+|--archive|--force|--no-clobber|--preserve|--recursive|--verbose"),
}
_SHOWING = names("sed awk gawk mawk less more view vim vi nano base32 zcat bat tee cp mv dd scp rsync tar curl wget nc")
_RISKY_TEXT = re.compile(
    r"\b(rm|mkfs|dd|shred|wipefs|fdisk|parted|shutdown|reboot|sudo)\b|\.git\b|\.ssh|\.aws|rc\b|_profile|\.profile"
    r"|\.tugline|\.claude|\.mcp\.json|/dev/|credentials|\.netrc|\.npmrc|\.gnupg|\.husky"
)


class CommandPart(Part):
    """One simple command."""

    def __init__(self, member: Member, analysis: Analysis, look: Look) -> None:
        self.member, self.analysis, self.look = member, analysis, look
        self.where = look.where
        self.layers: Layers = all_layers(member)
        self.inner = member.inner
        argv, self.folders = plain(member), member.folders
        if argv is not None:
            argv, self.folders = moved_git(argv, member.folders)
        self.reading = reads(argv, member.piped) if argv is not None and not member.inner else None
        if self.reading is not None and not self._certain(self.reading):
            self.reading = None
        self.argv = argv
        self.seen = self._look_up()
        self.label = " ".join(member.raw.split())[:200] or "an assignment"

    def _certain(self, reading: Reads) -> bool:
        """Whether no file of a folder makes the command something else than what it is known to be."""
        if reading.obeys and self.look.obeyed(reading.obeys, self.folders):
            return False
        if not reading.settled:
            return True
        if self.folders != ("",) and not self._alone():
            # what runs before it could make the folder a repository
            return False
        return self.look.own_repository(self.folders)

    def _alone(self) -> bool:
        members = self.analysis.members
        return all(not m.words or reads(moved_git(plain(m) or (), None)[0], m.piped) is not None for m in members)

    def _look_up(self) -> list[Seen]:
        folders = self.folders
        if self.reading is not None:
            return [seen for operand in self.reading.operands for seen in self.look.operand(operand, folders)]
        found: list[Seen] = []
        for argv in self.layers.argvs:
            name = base_name(argv[0].text or "")
            if name in word_list("writers.txt", "all"):
                found.extend(self._file_operands(name, argv, folders))
            else:
                found.extend(self._written(name, argv, folders))
        name = base_name(self.member.words[0].text or "") if self.member.words else ""
        for word in self.member.words[1:]:
            for text in dict.fromkeys(_path_texts(name, word)):
                found.extend(Seen(place, "mention") for place in self.look.places(text, folders) if place is not None)
        return found

    def _written(self, name: str, argv: Argv, folders: Folders) -> list[Seen]:
        """Files that it writes by its place among the operands, or by an option."""
        operands = [word for word in argv[1:] if not (word.text or "").startswith("-")]
        words: list[Word] = []
        if name in word_list("writers.txt", "last") and len(operands) > 1:
            words.append(operands[-1])
        if name in word_list("writers.txt", "first"):
            words.extend(operands[:1])
        texts = [word.text for word in argv]
        if name == "perl" and any(re.match(r"-[A-Za-z]*i", text or "") for text in texts[1:]):
            words.extend(operands)
        if name in ("find", "gfind") and any(text in word_list("find.txt", "writes") for text in texts):
            words.extend(starts(argv))
        words.extend(_option_values(argv, written_options(name)))
        places = [(word, self.look.places(word.path, folders) if word.path else [None]) for word in words]
        return [Seen(place, "edit", True, True) for _, found in places for place in found]

    def _file_operands(self, name: str, argv: Argv, folders: Folders) -> list[Seen]:
        if name == "sed" and not any(re.match(r"-[A-Za-z]*i|--in-place", word.text or "") for word in argv[1:]):
            return []
        operands = [word for word in argv[1:] if not (word.text or "").startswith("-")]
        if name == "dd":
            operands = [
                Word(text=word.text.partition("=")[2], raw="")
                for word in operands
                if word.text and word.text.startswith("of=")
            ]
        into = any((word.text or "").startswith(("-t", "--target-directory")) for word in argv[1:])
        found: list[Seen] = []
        for position, word in enumerate(operands):
            source = name in ("cp", "ln", "install") and not into and position < len(operands) - 1
            access: Access = "read" if source else "edit"
            if word.path is not None:
                places: list[Place | None] = self.look.places(word.path, folders) if word.path else []
            elif word.output is not None and word.output.kind == "listing" and name in ("rm", "touch", "chmod", "sed"):
                places = [p for start in word.output.starts for p in self.look.places(start.path or ".", folders)]
            elif word.glob_path is not None:
                places = self.look.places(word.glob_path, folders)
            else:
                places = [None]
            found.extend(Seen(place, access, True, True) for place in places)
        return found

    # -- deny and ask -------------------------------------------------------------------------------

    def hits(self, rule: Rule) -> bool:
        if rule.tool == "Bash":
            if rule.spec is None:
                return True
            return any(_hits(rule.spec, argv) for argv in self.layers.argvs)
        for seen in self.seen:
            if seen.place is None:
                continue
            read = rule_reads(rule) and (seen.access == "read" or (seen.access == "mention" and rule.path is not None))
            edit = rule_edits(rule) and seen.access == "edit"
            if (read or edit) and place_hit(rule, seen.place, self.where):
                return True
        return False

    def may_hit(self, rule: Rule) -> bool:
        if rule.tool == "Bash" and rule.spec is not None:
            if self.analysis.shadow or (self.layers.uncertain and not self._only_program_unseen()):
                return True
            pattern = parse_command_pattern(rule.spec)
            return any(
                any(word.text is None for word in argv) and could_match(pattern, _known(argv))
                for argv in self.layers.argvs
            )
        if rule_reads(rule) and self.reading is None and any(_reads_unknown(argv) for argv in self.layers.argvs):
            return True
        for seen in self.seen:
            if not ((rule_reads(rule) and seen.access == "read") or (rule_edits(rule) and seen.access == "edit")):
                continue
            if seen.place is None:
                return True
            below = seen.recursive and seen.content
            if below and rule.path is not None and paths.could_hit_below(rule.path, seen.place, self.where):
                return True
        return False

    def _only_program_unseen(self) -> bool:
        return self.reading is not None

    def refused(self) -> str:
        folders = self.member.folders
        for argv in self.layers.argvs:
            why = refused_removal(argv, self.where, lambda path: self.look.places(path, folders))
            if why:
                return why
        return ""

    def danger(self) -> str:
        folders = self.member.folders
        for argv in self.layers.argvs:
            why = catastrophe(argv, self.where, lambda path: self.look.places(path, folders))
            if why:
                return why
        for seen in self.seen:
            if seen.place is None:
                continue
            if seen.access != "read" and paths.protected(seen.place, self.where):
                return paths.protected(seen.place, self.where)
            if paths.secret(seen.place, self.where):
                return "credentials may be kept there"
            whole = seen.access == "read" and seen.recursive and seen.content
            if whole and paths.holds_secrets(seen.place, self.where):
                return "credentials may be kept below it"
        return ""

    # -- allow --------------------------------------------------------------------------------------

    def only_reads(self) -> bool:
        return self.inner or (self.reading is not None and not self.analysis.shadow)

    def grant(self, rules: Sequence[Rule]) -> str:
        if self.inner:
            return "its text is judged with the command that it belongs to"
        if self.analysis.shadow:
            return ""
        for rule in rules:
            if rule.tool == "Bash" and (rule.spec is None or self._fits(rule.spec)):
                return f"the rule {rule}"
        return ""

    def _fits(self, spec: str) -> bool:
        pattern = parse_command_pattern(spec)
        for argv in allowed_layers(self.member):
            texts = [word.text for word in argv]
            known = len(texts)
            if None in texts:
                known = texts.index(None)
                if not self._open_tail(argv, known) or pattern.exact:
                    continue
            if not pattern.exact and (never_by_prefix(argv) or escapes(base_name(argv[0].text or ""), argv)):
                continue
            if known < len(texts):
                # what follows is file names: the rule must have closed with `*` before them
                closed = pattern.prefix and known >= len(pattern.tokens)
                if closed and matches_words(pattern, [text or "" for text in texts[:known]]):
                    return True
                continue
            if matches_words(pattern, [text or "" for text in texts]):
                return True
        return False

    def _open_tail(self, argv: Argv, known: int) -> bool:
        tail = argv[known:]
        bare_xargs = self.member.words and self.member.words[0].text == "xargs" and tail[-1].raw == "…"
        rest = tail[:-1] if bare_xargs else tail
        return all(word.text is not None or word.glob is not None for word in rest)

    def known(self) -> str:
        if self.inner:
            return "its text is judged with the command that it belongs to"
        if self.analysis.shadow:
            return ""
        if not self.member.words:
            return "it only sets a variable of the shell"
        held = "it runs in the sandbox" if self.look.policy.sandboxed else ""
        if self.reading is None:
            return held
        fine = [seen.place is not None and bool(readable(seen.place, self.where)) for seen in self.seen]
        # where cd leads depends on what went well before it; what comes after it is judged in every such folder
        if not (any(fine) if self.argv and self.argv[0].text == "cd" and None not in self._places() else all(fine)):
            return held
        return "it only reads inside the allowed directories"

    def _places(self) -> list[Place | None]:
        return [seen.place for seen in self.seen]

    def accepted(self) -> bool:
        if self.analysis.shadow or self.argv is None or not self.argv:
            return False
        options = _ACCEPTED.get(self.argv[0].text or "")
        if options is None:
            return False
        for word in self.argv[1:]:
            if (word.text or "").startswith("-") and not options.fullmatch(word.text or ""):
                return False
            if word.glob is not None and not re.match(r"[^*?\[-]", word.glob):
                return False
        edits = [seen for seen in self.seen if seen.access != "mention"]
        return bool(edits) and all(
            seen.place is not None and paths.inside_any(seen.place, self.where.directories) for seen in edits
        )

    def suggestions(self) -> tuple[str, ...] | None:
        env = [Word(text=None if w.text is None else f"{n}={w.text}", raw="") for n, w in self.member.env]
        texts = [word.text for word in (*env, *self.member.words)]
        if self.analysis.shadow or not texts or None in texts:
            return None
        spec = exact_command_spec([text or "" for text in texts])
        pattern = parse_command_pattern(spec)
        if not pattern.exact or not matches_words(pattern, [text or "" for text in texts]):
            return None
        return (f"Bash({spec})",)


_GIT_SHOWING = frozenset(["annotate", "blame", "cat-file", "diff", "grep", "log", "show"])
"""What of git shows the contents of files."""


def _reads_unknown(argv: Argv) -> bool:
    """Whether a program that shows files gets operands that are not known before it runs."""
    name = base_name(argv[0].text or "")
    table = options_of(name)
    shows = name in _SHOWING or (table is not None and table.operands in ("content", "pattern"))
    if name == "git":
        shows = any(word.text in _GIT_SHOWING for word in argv[1:])
    return shows and any(word.text is None and not word.pipe for word in argv[1:])


def _option_values(argv: Argv, options: frozenset[str]) -> list[Word]:
    """The values of these options, attached or behind them."""
    found: list[Word] = []
    for position, word in enumerate(argv[1:], start=1):
        text = word.text or ""
        for option in options:
            if text == option and position + 1 < len(argv):
                found.append(argv[position + 1])
            elif option.startswith("--") and text.startswith(option + "="):
                found.append(Word(text=text[len(option) + 1 :], raw=text))
            elif not option.startswith("--") and text.startswith(option) and len(text) > len(option):
                found.append(Word(text=text[len(option) :], raw=text))
    return found


def _path_texts(name: str, word: Word) -> list[str]:
    """What of a word could be a path."""
    if word.output is not None and word.output.kind == "here":
        return ["." + word.output.rest]
    text = word.path
    return [part for part in paths_in(name, text) if part] if text else []


def _known(argv: Argv) -> list[str | None]:
    texts = [word.text for word in argv]
    if texts and texts[0] is not None:
        texts[0] = base_name(texts[0])
    return texts


def _hits(spec: str, argv: Argv) -> bool:
    pattern = parse_command_pattern(spec)
    texts = _known(argv)
    known = [text for text in texts if text is not None]
    if len(known) == len(texts):
        original = [argv[0].text or "", *known[1:]]
        return any(matches_words(pattern, t) or matches_text(pattern, " ".join(t)) for t in (known, original))
    # with unknown words only a rule that closed before the first of them is certain
    first = texts.index(None)
    return pattern.prefix and 0 < len(pattern.tokens) <= first and matches_words(pattern, known[:first])


class RedirectPart(Part):
    """A redirection: `>` edits, `<` reads."""

    def __init__(self, redirect: Redirect, analysis: Analysis, look: Look) -> None:
        self.redirect, self.analysis, self.look = redirect, analysis, look
        self.where = look.where
        path = redirect.target.path
        self.free = redirect.target.pipe or (path is not None and _FREE.match(path) is not None)
        self.network = (path is None and "/dev/" in redirect.target.raw) or bool(path and _NETWORK.match(path))
        self.places: list[Place | None]
        if path is not None:
            self.places = look.places(path, redirect.folders)
        elif redirect.target.output is not None and not redirect.edit:
            self.places = [seen.place for seen in look.operand(Operand(redirect.target), redirect.folders)]
        else:
            self.places = [None]
        self.label = f"{'>' if redirect.edit else '<'} {redirect.target.raw}"

    def _speaks(self, rule: Rule) -> bool:
        return not self.free and (rule_edits(rule) if self.redirect.edit else rule_reads(rule))

    def hits(self, rule: Rule) -> bool:
        return self._speaks(rule) and any(
            place is not None and place_hit(rule, place, self.where) for place in self.places
        )

    def may_hit(self, rule: Rule) -> bool:
        return self._speaks(rule) and None in self.places

    def danger(self) -> str:
        if self.network:
            return "it opens a connection"
        if self.free:
            return ""
        for place in self.places:
            if place is None:
                continue
            if self.redirect.edit and paths.protected(place, self.where):
                return paths.protected(place, self.where)
            if paths.secret(place, self.where):
                return "credentials may be kept there"
        return ""

    def only_reads(self) -> bool:
        return self.free or not self.redirect.edit

    def grant(self, rules: Sequence[Rule]) -> str:
        if any(rule.tool == "Bash" and rule.spec is None for rule in rules):
            return "the rule Bash"
        wanted = "Edit" if self.redirect.edit else "Read"
        fitting = [rule for rule in rules if rule.tool == wanted]
        if not fitting or None in self.places:
            return ""
        found = [place_grant(fitting, place, self.where) for place in self.places if place is not None]
        return found[0] if all(found) else ""

    def known(self) -> str:
        if self.free:
            return "it goes nowhere"
        held = "it runs in the sandbox" if self.look.policy.sandboxed else ""
        if self.redirect.edit:
            return held
        fine = all(place is not None and readable(place, self.where) for place in self.places)
        return "it only reads inside the allowed directories" if fine else held

    def accepted(self) -> bool:
        return all(place is not None and paths.inside_any(place, self.where.directories) for place in self.places)

    def suggestions(self) -> tuple[str, ...] | None:
        found: list[str] = []
        for place in self.places:
            rules = place_suggestions("Edit" if self.redirect.edit else "Read", place, self.where) if place else None
            if rules is None:
                return None
            found.extend(rules)
        return tuple(dict.fromkeys(found))


class WholePart(Part):
    """The command as one text: what rules with operators are compared with, and all there is where it is opaque."""

    whole = True

    def __init__(self, analysis: Analysis, opaque: str, policy: Policy) -> None:
        self.analysis, self.opaque, self.policy = analysis, opaque, policy
        self.label = f"{' '.join(analysis.command.split())[:200]} ({opaque or analysis.shadow or 'the whole'})"

    def hits(self, rule: Rule) -> bool:
        if rule.tool != "Bash":
            return False
        if rule.spec is None:
            return True
        return matches_text(parse_command_pattern(rule.spec), self.analysis.command)

    def may_hit(self, rule: Rule) -> bool:
        if not self.opaque:
            return False
        return rule.tool == "Bash" or rule_reads(rule) or rule_edits(rule)

    def danger(self) -> str:
        if self.opaque and _RISKY_TEXT.search(self.analysis.command):
            return f"it cannot be analysed: {self.opaque}"
        return ""

    def only_reads(self) -> bool:
        return not self.opaque and not self.analysis.shadow

    def grant(self, rules: Sequence[Rule]) -> str:
        return "" if self.opaque or self.analysis.shadow else "its parts are"

    def known(self) -> str:
        return "" if self.opaque or self.analysis.shadow else "its parts are"

    def accepted(self) -> bool:
        return False

    def suggestions(self) -> tuple[str, ...] | None:
        return None


def command_parts(
    command: str, policy: Policy, cwd: str, resolve: Resolve, expand: Expand | None, survey: Survey | None
) -> list[Part]:
    """All that a shell command consists of."""
    analysis = analyse(command)
    look = Look(policy, cwd, resolve, expand, survey)
    members, inner, _ = all_members(analysis)
    hidden = next((other.shadow or other.opaque for other in inner if other.shadow), "")
    parts: list[Part] = [WholePart(analysis, analysis.opaque, policy)]
    parts.extend(CommandPart(member, analysis, look) for member in members)
    parts.extend(RedirectPart(redirect, analysis, look) for redirect in analysis.redirects)
    for other in inner:
        unmoved = not other.moves and all(member.folders == ("",) for member in analysis.members)
        parts.extend(_Hidden(redirect, other, look, unmoved=unmoved) for redirect in other.redirects)
        if other.opaque:
            parts.append(_HiddenWhole(other, other.opaque, policy))
    if hidden and policy.deny:
        parts.append(_HiddenWhole(analysis, hidden, policy))
    return parts


class _Hidden(RedirectPart):
    """A redirection inside text that is handed to a shell: only deny and ask rules and dangers count."""

    def __init__(self, redirect: Redirect, analysis: Analysis, look: Look, *, unmoved: bool) -> None:
        folders = redirect.folders if unmoved else None
        super().__init__(Redirect(redirect.target, redirect.edit, folders), analysis, look)

    def grant(self, rules: Sequence[Rule]) -> str:
        return "its text is judged with the command that it belongs to"

    def known(self) -> str:
        return "its text is judged with the command that it belongs to"


class _HiddenWhole(WholePart):
    """Text that is handed to a shell and cannot be analysed: deny and ask rules could hit it unseen."""

    def grant(self, rules: Sequence[Rule]) -> str:
        return "its text is judged with the command that it belongs to"

    def known(self) -> str:
        return "its text is judged with the command that it belongs to"

    def only_reads(self) -> bool:
        return True
