"""Which models can be reached, and the providers for them."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct, structs

from tugline.config.load import Config
from tugline.config.settings import Endpoint as EndpointSettings
from tugline.config.settings import ModelSetting
from tugline.net.client import HttpClient, Timeouts, Tls
from tugline.options import Options
from tugline.ports import Provider
from tugline.protocol.errors import ConfigError
from tugline.protocol.specs import Mode, ModelCard
from tugline.providers.catalog import Catalog
from tugline.providers.endpoint import Auth, Endpoint
from tugline.providers.limits import PROCESS_GATES
from tugline.providers.retry import NetworkSettings, Retry, Steps
from tugline.providers.router import Router
from tugline.version import __version__

ANTHROPIC_URL = "https://api.anthropic.com"


OPENAI_URL = "https://api.openai.com/v1"


KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY")


_AUTH: dict[str, Auth] = {"x-api-key": "x-api-key", "api-key": "api-key", "authorization": "bearer"}


class Access(Struct, frozen=True):
    """Where models can be reached, and with which keys."""

    anthropic: Endpoint | None = None
    openai: Endpoint | None = None
    key_source: str = "none"
    own_provider: bool = False

    def default_model(self) -> str:
        """The model where nobody named one; `ConfigError` where that cannot be guessed."""
        if self.own_provider or self.anthropic is not None:
            return "sonnet"
        if self.openai is not None and self.openai.openai_itself:
            return "gpt-5"
        raise ConfigError("Which model? Say --model NAME, or set TUGLINE_MODEL.")

    def small_model(self, model: str) -> str:
        """The model for errands."""
        return "haiku" if self.anthropic is not None and model.startswith("claude") else model


def find_access(options: Options, config: Config, environ: Mapping[str, str]) -> Access:
    """What options, settings and environment give; `ConfigError` if that is nothing."""
    if options.provider is not None:
        return Access(own_provider=True)
    if (config.settings.model or "").startswith("local:"):
        from tugline.providers.local import check_local_model  # noqa: PLC0415  imported here: start-up cost

        check_local_model(config.settings.model or "")
        return Access(own_provider=True)
    secrets, given = config.secrets, config.settings.providers
    anthropic_url = given.anthropic.base_url or environ.get("ANTHROPIC_BASE_URL", "").strip()
    openai_url = given.openai.base_url or environ.get("OPENAI_BASE_URL", "").strip()
    key, bearer, openai_key = secrets.anthropic_api_key, secrets.anthropic_auth_token, secrets.openai_api_key
    source = next((name for name in KEYS if environ.get(name)), "none")
    if options.base_url or options.api_key:
        name, source = (config.settings.model or "").partition("/")[0], "api_key"
        if name == "openai" or (name != "anthropic" and (options.base_url or "").rstrip("/").endswith("/v1")):
            openai_url, openai_key = options.base_url or openai_url, options.api_key or openai_key
            anthropic_url = key = bearer = ""
        else:
            anthropic_url, key = options.base_url or anthropic_url, options.api_key or key
            openai_url = openai_key = ""
    anthropic = openai = None
    if anthropic_url or key or bearer:
        anthropic = _endpoint(anthropic_url or ANTHROPIC_URL, key or bearer, given.anthropic, "" if key else "bearer")
    if openai_url or openai_key:
        openai = _endpoint(openai_url or OPENAI_URL, openai_key, given.openai, "")
    if anthropic is None and openai is None:
        raise ConfigError(
            "No model can be reached: there is no key.\n"
            "Set ANTHROPIC_API_KEY or OPENAI_API_KEY, or OPENAI_BASE_URL and --model NAME for a local model.\n"
            "To see tugline work without a key, run: tugline demo"
        )
    return Access(anthropic, openai, source)


def _endpoint(url: str, key: str, given: EndpointSettings, auth: Auth) -> Endpoint:
    headers = tuple(given.headers.items())
    name = (given.auth_header or "").lower()
    if name in _AUTH:
        auth = _AUTH[name]
    elif name:
        auth, headers = "none", (*headers, (name, key))
    agent = f"tugline/{__version__}"
    return Endpoint(
        base_url=url, key=key, auth=auth, version=given.api_version or "", headers=headers, user_agent=agent
    )


def make_provider(access: Access, catalog: Catalog, config: Config, environ: Mapping[str, str]) -> Router:
    """The adapters behind retries, chosen by model; none is made before it is needed."""
    network = NetworkSettings(
        idle_timeout=config.settings.network.idle_timeout,
        first_byte_timeout=config.settings.network.first_byte,
        retry_base=config.settings.network.retry_base,
        max_retries=config.settings.network.max_retries,
        retry_budget=config.settings.network.retry_budget,
    )
    tls = Tls(environ)
    steps = Steps()
    timeouts = Timeouts(connect=network.connect_timeout, first_byte=network.first_byte, idle=None)

    def retried(endpoint: Endpoint, adapter: Callable[..., Provider]) -> Provider:
        client = HttpClient(environ=environ, tls=tls)
        gate = PROCESS_GATES.gate(endpoint.base_url, endpoint.key)
        return Retry(adapter(endpoint, client, catalog, timeouts=timeouts), network, gate=gate, steps=steps)

    def anthropic() -> Provider:
        from tugline.providers.anthropic import AnthropicProvider  # noqa: PLC0415  imported here: start-up cost

        return retried(access.anthropic or Endpoint(base_url=ANTHROPIC_URL), AnthropicProvider)

    def openai() -> Provider:
        endpoint = access.openai or Endpoint(base_url=OPENAI_URL)
        api = config.settings.providers.openai.api or ("responses" if endpoint.openai_itself else "chat")
        if api == "responses":
            from tugline.providers.openai_responses import (  # noqa: PLC0415  imported here: start-up cost
                OpenAIResponsesProvider,
            )

            return retried(endpoint, OpenAIResponsesProvider)
        from tugline.providers.openai_chat import OpenAIChatProvider  # noqa: PLC0415  imported here: start-up cost

        return retried(endpoint, OpenAIChatProvider)

    overrides = {name: card_fields(entry) for name, entry in config.settings.models.items()}

    def local() -> Provider:
        from tugline.providers.local import LocalProvider  # noqa: PLC0415  imported here: start-up cost

        return Retry(LocalProvider(overrides), network, steps=steps)

    def local_card(model: str) -> ModelCard:
        from tugline.providers import local  # noqa: PLC0415  imported here: start-up cost

        return local.local_card(model, overrides)

    reachable = [name for name, given in (("anthropic", access.anthropic), ("openai", access.openai)) if given]
    makers = {"anthropic": anthropic, "openai": openai, "local": local}
    return Router(makers, catalog.card, cards={"local": local_card}, reachable=reachable)


LARGE_CONTEXT = 200_000
"""Tokens past which the large variant of an alias answers."""


def resolve_model(catalog: Catalog, name: str, mode: Mode, tokens: int) -> str:
    """The model that a name stands for now. An alias `x` may have variants: `x:plan` answers in plan mode, `x:large`
    past 200,000 tokens."""
    aliases = catalog.aliases()
    variants = [f"{name}:large"] if tokens > LARGE_CONTEXT else []
    if mode == "plan":
        variants.append(f"{name}:plan")
    return catalog.resolve(next((variant for variant in variants if variant in aliases), name))


def card_fields(entry: ModelSetting) -> dict[str, Any]:
    fields = {name: value for name, value in structs.asdict(entry).items() if value is not None}
    if entry.price is not None:
        fields["price"] = structs.asdict(entry.price)
    return fields
