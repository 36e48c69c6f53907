"""What all parts of a session share, and the transcript that it writes."""

import os
from collections.abc import Mapping
from contextlib import AsyncExitStack

from msgspec import Struct

from tugline.app.config import load_config
from tugline.app.models import Access, card_fields, find_access, make_provider
from tugline.config.folders import main_repository, make_private
from tugline.config.load import Config
from tugline.loop.ledger import Ledger
from tugline.loop.voice import Voice
from tugline.options import Options
from tugline.ports import Provider
from tugline.protocol.errors import SessionError
from tugline.protocol.events import Origin
from tugline.protocol.ids import AgentId, SessionId
from tugline.providers.catalog import Catalog
from tugline.providers.fallback import Fallback
from tugline.providers.record import Recording
from tugline.rules.history import History
from tugline.rules.masking import secrets_of
from tugline.rules.price import cost
from tugline.runtime.bus import Bus
from tugline.runtime.system import RandomIds, SystemClock, new_uuid
from tugline.stores.opening import Opening, Shelf, Wanted, open_transcript
from tugline.stores.sessions import ENDING, project_folder


class Core(Struct, frozen=True, eq=False):
    """What all parts of a session share."""

    config: Config
    environ: Mapping[str, str]
    catalog: Catalog
    access: Access
    model: str
    opening: Opening
    bus: Bus
    ids: RandomIds
    clock: SystemClock
    voice: Voice
    ledger: Ledger

    @property
    def session(self) -> SessionId:
        """The session's id."""
        return self.opening.session

    @property
    def history(self) -> History | None:
        """The conversation so far, of a session that is gone on with."""
        return self.opening.history

    @property
    def kept(self) -> str:
        """Where big results are kept."""
        return self.opening.log.path.removesuffix(ENDING)


def make_core(options: Options, stack: AsyncExitStack) -> Core:
    environ = os.environ if options.environ is None else options.environ
    config = load_config(options)
    config.require_sound()
    catalog = Catalog(
        {name: card_fields(entry) for name, entry in config.settings.models.items()},
        aliases=config.settings.model_aliases,
    )
    access = find_access(options, config, environ)
    model = config.settings.model or access.default_model()
    clock = SystemClock()
    wanted = Wanted(
        session=options.session_id,
        resume=options.resume,
        last=options.continue_session,
        copy=options.fork_session,
    )
    opening = open_transcript(wanted, make_shelf(config), new_id=new_uuid, now=clock.time())
    stack.push_async_callback(opening.log.aclose)
    bus, ids = Bus(), RandomIds()
    return Core(
        config=config,
        environ=environ,
        catalog=catalog,
        access=access,
        model=model,
        opening=opening,
        bus=bus,
        ids=ids,
        clock=clock,
        voice=Voice(bus, Origin(opening.session, AgentId("main"))),
        ledger=Ledger(cost),
    )


def loaded_secrets(core: Core) -> tuple[str, ...]:
    """Every secret that this session was given: keys, headers, variables, passwords in URLs."""
    settings = core.config.settings
    named = {**settings.env, **core.environ}
    found = [value for each in (named, settings.env) for value in secrets_of(each)]
    for endpoint in (core.access.anthropic, core.access.openai):
        if endpoint is not None:
            found += [endpoint.key, *(value for _, value in endpoint.headers)]
            found += secrets_of({"url": endpoint.base_url})
    return tuple(dict.fromkeys(value for value in found if value))


def make_shelf(config: Config) -> Shelf:
    """Where the sessions of the project are. A work tree of a repository counts as that repository."""
    project = main_repository(config.project_root)
    return Shelf(config.folders.sessions, project, _private(project_folder(config.folders.sessions, project)))


def _private(folder: str) -> str:
    try:
        return make_private(folder)
    except OSError as error:
        raise SessionError(
            f"The session cannot be recorded in {folder}: {error.strerror}. "
            "Make the folder writable, or set TUGLINE_HOME to another one."
        ) from error


def open_provider(core: Core, options: Options) -> Provider:
    provider = options.provider
    if provider is None:
        router = make_provider(core.access, core.catalog, core.config, core.environ)
        router.prepare(core.catalog.resolve(core.model))
        provider = router
    fallback = core.config.settings.fallback_model
    if fallback:
        provider = Fallback(provider, core.catalog.resolve(fallback))
    return Recording(provider, options.record) if options.record else provider
