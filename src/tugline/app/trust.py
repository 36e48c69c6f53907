"""Whether the project's own settings and parts count: what of it is approved, and asking before a session begins."""

import inspect
import os
from collections.abc import Callable, Iterable

from msgspec import Struct, structs

from tugline.app.config import load_config
from tugline.app.core import Core
from tugline.config.load import Config
from tugline.config.trust import TrustStore
from tugline.options import Options
from tugline.protocol.errors import UsageError
from tugline.protocol.ids import QuestionId
from tugline.protocol.trust import TrustAnswer, TrustItem, TrustQuestion
from tugline.rules.trust import compared
from tugline.runtime.planning import Planning
from tugline.runtime.standing_commands import Place


class Folder(Struct, frozen=True, eq=False):
    """A project as its trust sees it. `items` are all that take an approval, each with what it is to the one that was
    given, and at the end what is gone."""

    config: Config
    items: tuple[TrustItem, ...]

    @property
    def root(self) -> str:
        """The folder that is trusted or not."""
        return self.config.project_root

    @property
    def open(self) -> tuple[TrustItem, ...]:
        """What is new or has changed."""
        return tuple(item for item in self.items if item.change in ("new", "changed"))

    def question(self, identity: QuestionId) -> TrustQuestion | None:
        """What there is to ask; `None` where nothing is."""
        trust = self.config.trust
        if trust.grounds == "said so" or (trust.folder and not self.open):
            return None
        shown = self.items if trust.folder else tuple(item for item in self.items if item.change != "gone")
        return TrustQuestion(identity, self.root, shown, first=not trust.folder)

    def settle(self, answer: TrustAnswer) -> None:
        """Keep a yes. Raises `ConfigError` where it cannot be kept, `UsageError` for what nobody asked about."""
        here = [item for item in self.items if item.change != "gone"]
        store = TrustStore(self.config.folders.trust)
        if answer.only is not None:
            unknown = set(answer.only) - {item.label for item in here}
            if unknown:
                raise UsageError(f"{min(unknown)} is nothing that was asked about.")
            here = [item for item in here if item.label in answer.only]
        gone = [item for item in self.items if item.change == "gone"]
        store.trust(self.root, {**dict.fromkeys(gone, False), **dict.fromkeys(here, True)})


def survey_trust(options: Options) -> Folder:
    """Look at the folder of a session with these options. Nothing in it is run."""
    from tugline.config.parts import project_parts  # noqa: PLC0415  imported here: start-up cost

    config = load_config(options)
    # in the home folder these are the user's own
    parts = () if config.project_root == os.path.realpath(config.home) else project_parts(config.project_root)
    return Folder(config, compared(config.trust, (*config.items, *parts)))


async def settle_trust(options: Options) -> Options:
    """Ask the option `trust` where it is something to ask, and where there is something to ask about."""
    ask = options.trust
    if ask is None or isinstance(ask, bool):
        return options
    options = structs.replace(options, trust=None)
    folder = survey_trust(options)
    question = folder.question(QuestionId("trust"))
    if question is None:
        return options
    said = ask(question)
    answer = await said if inspect.isawaitable(said) else said
    if isinstance(answer, bool):
        answer = TrustAnswer(answer)
    if not isinstance(answer, TrustAnswer):
        raise UsageError("The callback trust must answer with TrustAnswer, true or false.")
    if not answer.trusted:
        # what was approved before stays in force; a folder that was never trusted is not
        return options
    if not answer.remember:
        return structs.replace(options, trust=True)
    folder.settle(answer)
    return options


_GROUNDS = {
    "nothing": "this folder is not trusted (tugline trust)",
    "said so": "trusted for all that it says",
    "approved": "trusted, item by item",
}
UNCONFINED = "none; commands run with your own rights"


def make_place(options: Options, core: Core, planning: Planning, sandbox: Callable[[], str]) -> Place:
    """What a session knows of its folder. Somebody in front of it is asked where it has parts that nobody has
    approved; what they approve counts from the next session on. `sandbox` says what limits commands."""
    config = core.config
    folder = survey_trust(options) if options.attended and options.trust is None else None
    return Place(
        project_root=config.project_root,
        trust=_GROUNDS[config.trust.grounds],
        withheld=config.withheld,
        refresh=planning.refresh,
        plan=planning.file.read,
        plan_file=planning.file.path,
        sandbox=sandbox,
        settle_trust=lambda answer: None if folder is None or not answer.trusted else folder.settle(answer),
        trust_question=None if folder is None else folder.question(QuestionId(core.ids.new("question"))),
    )


REMEDY = "See and approve it: tugline trust"


def withheld_line(config: Config) -> str:
    """What of the project does not count, and what to do about it; empty where all of it does."""
    if not config.withheld:
        return ""
    names = list(dict.fromkeys(name for name, _ in config.withheld))
    shown = _listed(names)
    if config.trusted:
        return f"New or changed since this folder was trusted, so not in force: {shown}. {REMEDY} --diff"
    return f"This folder is not trusted: its settings {shown} do not count. {REMEDY}"


def _listed(names: Iterable[str], limit: int = 8) -> str:
    found = sorted(names)
    more = f" and {len(found) - limit} more" if len(found) > limit else ""
    return ", ".join(found[:limit]) + more
