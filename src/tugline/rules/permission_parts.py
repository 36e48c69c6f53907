"""What a call consists of for the rules: each part is judged by itself, and all must be allowed."""

from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct

from tugline.protocol.specs import Footprint, Mode
from tugline.rules import paths
from tugline.rules.paths import Place, Where
from tugline.rules.rule import EDITORS, NAMERS, READERS, Rule, matches_domain, matches_name, names_tool, plain_host

Resolve = Callable[[str, str], tuple[str, str] | None]
"""A path as given and a folder to the absolute path by name and what it points to; `None` where that fails."""
Expand = Callable[[str, str], Sequence[str] | None]
"""A file name pattern and a folder to what the shell would make of it; `None` where that is not known."""


Survey = Callable[[str], bool | None]
"""Whether the names below a folder (resolved) are plain, and no link there leads out of it; `None`: not known."""

_BROAD = frozenset(["Bash", "WebFetch", *READERS, *EDITORS])
"""Tools of which no rule without a specifier is ever suggested."""


class Policy(Struct, frozen=True):
    """What decisions are made by: the mode, the rules of every source, the folders."""

    mode: Mode = "default"
    allow: tuple[Rule, ...] = ()
    ask: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()
    directories: tuple[str, ...] = ()
    """The allowed directories, resolved."""
    cwd: str = "/"
    """Where the session began: relative rules start here."""
    home: str = ""
    project_root: str = ""
    readable: tuple[str, ...] = ()
    """Our own folders (kept results, plans) that may be read without asking."""
    own: tuple[str, ...] = ()
    """Where our own settings are kept."""
    plan_file: str = ""
    """The one file that plan mode may write."""
    sandboxed: bool = False
    """Shell commands run in a sandbox and a setting says that they need no question there."""

    @property
    def where(self) -> Where:
        """The folders alone."""
        return Where(self.cwd, self.home, self.project_root, self.directories, self.readable, self.own)


class Part:
    """One thing that a call does. The defaults are those of a part that nothing is known of."""

    label = ""
    whole = False
    """Whether it is a command as one text, whose pieces are parts of their own."""

    def hits(self, rule: Rule) -> bool:
        """Whether a deny or ask rule speaks of this part for certain."""
        return False

    def may_hit(self, rule: Rule) -> bool:
        """Whether it cannot be told if a deny or ask rule speaks of this part."""
        return False

    def refused(self) -> str:
        """Why it is refused in every mode; empty where it is not."""
        return ""

    def danger(self) -> str:
        """Why it is asked about in every mode; empty where it is not."""
        return ""

    def only_reads(self) -> bool:
        """Whether it certainly changes nothing."""
        return False

    def grant(self, rules: Sequence[Rule]) -> str:
        """The allow rule that covers it; empty where none does."""
        return ""

    def known(self) -> str:
        """Why it may run without a rule, whatever the mode; empty where it may not."""
        return ""

    def accepted(self) -> bool:
        """Whether mode acceptEdits lets it pass."""
        return False

    def suggestions(self) -> tuple[str, ...] | None:
        """Rules that would allow exactly this; `None` where no rule could."""
        return None


class ToolPart(Part):
    """A call of which only the tool is known."""

    def __init__(self, tool: str, footprint: Footprint) -> None:
        self.tool, self.footprint, self.label = tool, footprint, tool

    def hits(self, rule: Rule) -> bool:
        return rule.spec is None and names_tool(rule, self.tool)

    def only_reads(self) -> bool:
        return self.footprint < Footprint.CHANGES

    def grant(self, rules: Sequence[Rule]) -> str:
        return next((f"the rule {rule}" for rule in rules if self.hits(rule)), "")

    def known(self) -> str:
        return "it changes nothing" if self.footprint < Footprint.CHANGES else ""

    def suggestions(self) -> tuple[str, ...] | None:
        return None if self.tool in _BROAD else (self.tool,)


class OutsidePart(Part):
    """That a command is to run outside of the sandbox. A person says so each time; no rule and no mode does."""

    def __init__(self, command: str) -> None:
        self.label = f"Bash {command.strip()[:80]}"

    def danger(self) -> str:
        return "it asks to run outside of the sandbox"


class NamePart(ToolPart):
    """A call that names something: an agent type, a skill."""

    def __init__(self, tool: str, footprint: Footprint, name: str) -> None:
        super().__init__(tool, footprint)
        self.name, self.label = name, f"{tool} {name}"

    def hits(self, rule: Rule) -> bool:
        return names_tool(rule, self.tool) and (rule.spec is None or matches_name(rule.spec, self.name))

    def suggestions(self) -> tuple[str, ...] | None:
        if self.tool not in NAMERS:
            return super().suggestions()
        if not self.name or self.name != self.name.strip() or "*" in self.name or not self.name.isprintable():
            return None
        return (f"{self.tool}({self.name})",)


class DomainPart(ToolPart):
    """A call that speaks to a host: reading from a network is never unasked."""

    def __init__(self, tool: str, footprint: Footprint, host: str) -> None:
        super().__init__(tool, footprint)
        self.host, self.label = host, f"{tool} {host}"

    def hits(self, rule: Rule) -> bool:
        if not names_tool(rule, self.tool):
            return False
        return rule.spec is None or (rule.spec.startswith("domain:") and matches_domain(rule.spec, self.host))

    def known(self) -> str:
        return ""

    def suggestions(self) -> tuple[str, ...] | None:
        host = self.host.strip().lower().rstrip(".")
        if self.tool != "WebFetch":
            return super().suggestions()
        if not plain_host(host):
            return None
        return (f"WebFetch(domain:{host})",)


def rule_reads(rule: Rule) -> bool:
    """Whether the rule speaks of reading files."""
    return rule.tool == "Read"


def rule_edits(rule: Rule) -> bool:
    """Whether the rule speaks of changing files."""
    return rule.tool in ("Edit", "Write")


def place_hit(rule: Rule, place: Place, where: Where) -> bool:
    """Whether a deny or ask rule for files speaks of this place."""
    return rule.spec is None or (rule.path is not None and paths.denied_by(rule.path, place, where))


def place_grant(rules: Sequence[Rule], place: Place, where: Where) -> str:
    """The allow rules that cover name and target of a place; empty where one of both is not covered."""
    found: list[str] = []
    for path in dict.fromkeys((place.name, place.target)):
        only = Place(path, path)
        rule = next(
            (r for r in rules if r.spec is None or (r.path is not None and paths.allowed_by(r.path, only, where))), None
        )
        if rule is None:
            return ""
        found.append(str(rule))
    return "the rule " + " and ".join(dict.fromkeys(found))


def place_suggestions(tool: str, place: Place, where: Where) -> tuple[str, ...] | None:
    """Rules for exactly this place, one for its name and one for its target where they differ."""
    found: list[str] = []
    for path in dict.fromkeys((place.name, place.target)):
        if not path.isprintable() or path != path.strip() or path == "/":
            return None
        inner = "/".join(paths.components(path)[len(paths.components(where.cwd)) :])
        spec = "./" + inner if paths.inside(path, where.cwd) and inner else "/" + path
        found.append(f"{tool}({''.join(chr(92) + c if c in '*?[' + chr(92) else c for c in spec)})")
    return tuple(found)


class PathPart(Part):
    """A file or folder that a tool reads or edits."""

    def __init__(
        self,
        tool: str,
        footprint: Footprint,
        access: Literal["read", "edit"],
        given: str,
        place: Place | None,
        policy: Policy,
        *,
        filtered: bool = False,
    ) -> None:
        self.tool, self.footprint, self.access, self.place, self.policy = tool, footprint, access, place, policy
        self.where = policy.where
        self.recursive = tool == "Grep"
        self.filtered = filtered
        shown = place.name if place is not None else given
        if place is not None and place.target != place.name:
            shown = f"{place.name} (a link to {place.target})"
        self.label = f"{tool} {shown}"

    def _speaks(self, rule: Rule) -> bool:
        family = rule_reads(rule) if self.access == "read" else rule_edits(rule)
        return names_tool(rule, self.tool) or (family and rule.path is not None)

    def hits(self, rule: Rule) -> bool:
        if not self._speaks(rule):
            return False
        return rule.spec is None or (self.place is not None and place_hit(rule, self.place, self.where))

    def may_hit(self, rule: Rule) -> bool:
        if rule.path is None or not self._speaks(rule):
            return False
        if self.place is None:
            return True
        return self.recursive and not self.filtered and paths.could_hit_below(rule.path, self.place, self.where)

    def danger(self) -> str:
        if self.place is None:
            return "its path cannot be resolved"
        if self.access == "edit":
            return paths.protected(self.place, self.where)
        if paths.secret(self.place, self.where) or (self.recursive and paths.holds_secrets(self.place, self.where)):
            return "credentials may be kept there"
        return ""

    def only_reads(self) -> bool:
        if self.access == "read":
            return self.footprint < Footprint.CHANGES
        plan = self.policy.plan_file
        return bool(plan) and self.place == Place(plan, plan)

    def grant(self, rules: Sequence[Rule]) -> str:
        fitting = [rule for rule in rules if names_tool(rule, self.tool)]
        return place_grant(fitting, self.place, self.where) if self.place is not None and fitting else ""

    def known(self) -> str:
        if self.place is None:
            return ""
        if self.access == "edit":
            return "it is the plan" if self.policy.mode == "plan" and self.only_reads() else ""
        if self.footprint == Footprint.CHANGES:
            return ""
        return readable(self.place, self.where)

    def accepted(self) -> bool:
        if self.place is None or not paths.inside_any(self.place, self.where.directories):
            return False
        return self.access == "read" or self.tool in EDITORS

    def suggestions(self) -> tuple[str, ...] | None:
        if self.place is None:
            return None
        if self.tool in EDITORS:
            return place_suggestions("Edit", self.place, self.where)
        if self.tool in READERS:
            return place_suggestions("Read", self.place, self.where)
        return None if self.tool in _BROAD else (self.tool,)


def readable(place: Place, where: Where) -> str:
    """Why a place may be read without asking; empty where it may not."""
    if paths.inside_any(place, where.directories):
        return "it only reads inside the allowed directories"
    if paths.inside_any(place, where.readable) or paths.harmless(place):
        return "it only reads what may be read"
    return ""
