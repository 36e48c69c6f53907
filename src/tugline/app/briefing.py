"""Files of instructions: where they are looked for, and what of them counts."""

import os
from collections.abc import Callable

from tugline.app.config import load_config
from tugline.app.core import Core
from tugline.app.equipment import make_standing, make_workspace
from tugline.app.models import card_fields
from tugline.config.load import Config
from tugline.context.gathering import Disk, Scheme
from tugline.context.instructions import Instructions
from tugline.context.survey import Survey, survey
from tugline.context.touching import Touching
from tugline.options import Options
from tugline.ports import Tool
from tugline.protocol.events import Notice
from tugline.protocol.specs import ModelCard
from tugline.providers.catalog import Catalog
from tugline.rules.paths import Place, Where, secret
from tugline.runtime.standing import Standing
from tugline.workspaces import files, paths

MANAGED_INSTRUCTIONS = (("/etc/tugline", False), ("/etc/claude-code", True))
"""The machine's owner's folders, and whether each is Claude Code's."""


DISK = Disk(resolve=paths.resolve, stat=files.stat_file, read=files.read_file, entries=files.list_folder)


WINDOW_SHARE = 4
"""Instructions may fill the window of a model to one in so many parts."""


def make_scheme(options: Options, config: Config, standing: Standing, card: ModelCard) -> Scheme | None:
    """Where instructions are looked for and what of them counts; `None` where they are switched off."""
    given, folders, sources = config.settings.context, config.folders, options.setting_sources
    names = given.file_names if options.instruction_files is None else options.instruction_files
    if not names or not given.instructions:
        return None
    where = Where(cwd=config.cwd, home=config.home, project_root=config.project_root)

    def forbidden(name: str, target: str) -> str:
        if standing.hides(name, target):
            return "a deny rule forbids to read it"
        return "credentials are kept there" if secret(Place(name, target), where) else ""

    total = min(given.total_tokens, card.window // WINDOW_SHARE)
    return Scheme(
        cwd=config.cwd,
        project_root=config.project_root,
        home=config.home,
        names=names,
        own=((folders.config, False), (folders.claude, True)) if sources is None or "user" in sources else (),
        managed=MANAGED_INSTRUCTIONS,
        roots=standing.policy.directories,
        project=sources is None or "project" in sources,
        local=sources is None or "local" in sources,
        trusted=config.trusted,
        external=tuple(os.path.realpath(os.path.expanduser(place)) for place in given.external_imports),
        file_tokens=min(given.file_tokens, total),
        total_tokens=total,
        forbidden=forbidden,
    )


def make_instructions(core: Core, scheme: Scheme | None) -> Instructions | None:
    if scheme is None:
        return None
    return Instructions(DISK, scheme, lambda text: core.voice.say(Notice, level="warning", text=text))


def touching(instructions: Instructions | None) -> Callable[[Tool], Tool]:
    if instructions is None:
        return lambda tool: tool
    return lambda tool: Touching(tool, instructions.touched)


def survey_instructions(options: Options) -> Survey | None:
    """The instruction files of a session with these options, for a person; `None` where they are switched off."""
    environ = os.environ if options.environ is None else options.environ
    config = load_config(options)
    config.require_sound()
    catalog = Catalog({name: card_fields(entry) for name, entry in config.settings.models.items()})
    card = catalog.card(catalog.resolve(config.settings.model or "sonnet"))
    standing = make_standing(config, make_workspace(config, environ, ""), "")
    scheme = make_scheme(options, config, standing, card)
    return None if scheme is None else survey(DISK, scheme)
