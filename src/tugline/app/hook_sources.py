"""Which hooks a session has: those of the settings, then those of the caller."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from tugline.config.load import Config
from tugline.options import Options
from tugline.protocol.hooks import Hook


class Brought(Struct, frozen=True, eq=False):
    """The hooks, and the functions that some of them name."""

    hooks: tuple[Hook, ...]
    functions: Mapping[str, Callable[..., Any]]


def hooks_of(options: Options, config: Config) -> Brought:
    """What is configured, in the order of the layers, then what the caller has brought along."""
    configured = () if options.no_hooks else config.hooks
    brought: list[Hook] = []
    functions: dict[str, Callable[..., Any]] = {}
    for index, (event, one) in enumerate(options.hooks):
        name = f"{getattr(one.callback, '__name__', 'callback')}#{index}"
        functions[name] = one.callback
        brought.append(
            Hook(
                event=event, kind="callback", matcher=one.matcher, timeout=one.timeout, rule=one.rule,
                callback=name, layer="library", block_on_failure=one.block_on_failure,
            )
        )  # fmt: skip
    return Brought((*configured, *brought), functions)


def list_hooks(options: Options, config: Config) -> str:
    """The hooks of a session with these options, as text for a person."""
    from tugline.rules.hook_listing import rendered  # noqa: PLC0415  imported here: start-up cost

    disabled = "The hooks of the settings are switched off by --bare." if options.no_hooks else config.hooks_off
    return rendered(hooks_of(options, config).hooks, config.withheld, disabled)
