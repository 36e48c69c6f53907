"""Hooks that are HTTP requests: the JSON is posted, and the answer's body read like a command's stdout."""

import re
from collections.abc import Callable, Mapping, Sequence

from tugline.extensions.hooks.runner import Given
from tugline.net.client import HttpClient, HttpError, Timeouts
from tugline.protocol.hooks import Hook, HookReply

BODY_LIMIT = 1_000_000
"""Bytes of an answer."""

_TIMEOUTS = Timeouts(connect=10.0, first_byte=None, idle=None)
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")


class Posts:
    """Posts to URLs that are permitted (`allowed`: patterns with `*`; `None`: where the client goes at all)."""

    def __init__(
        self, connect: Callable[[], HttpClient], environ: Mapping[str, str], allowed: Sequence[str] | None
    ) -> None:
        self._connect = connect
        self._environ = environ
        self._allowed = allowed

    async def perform(self, hook: Hook, given: Given) -> HookReply:
        """Post it, and read the answer."""
        if self._allowed is not None and not any(_fits(pattern, hook.url) for pattern in self._allowed):
            return HookReply(failure="the setting allowedHttpHookUrls does not name its url")
        headers = [("Content-Type", "application/json"), ("User-Agent", "tugline")]
        headers += [(name, self._filled(value, hook.allowed_env)) for name, value in hook.headers.items()]
        client = self._connect()
        try:
            async with client.request(
                "POST", hook.url, headers=headers, body=given.json, timeouts=_TIMEOUTS, resend=False
            ) as response:
                body = (await response.read(BODY_LIMIT)).decode("utf-8", "replace")
                if not 200 <= response.status < 300:
                    return HookReply(stdout=body, failure=f"the server answered with status {response.status}")
        except HttpError as error:
            return HookReply(failure=str(error))
        finally:
            await client.aclose()
        return HookReply(stdout=body)

    def _filled(self, value: str, listed: Sequence[str]) -> str:
        """The header with its variables; those that the hook does not list stay empty."""

        def put(match: re.Match[str]) -> str:
            name = match[1] or match[2]
            found = self._environ.get(name, "") if name in listed else ""
            return found.replace("\r", "").replace("\n", "")

        return _VARIABLE.sub(put, value)


def _fits(pattern: str, url: str) -> bool:
    return re.fullmatch(".*".join(re.escape(part) for part in pattern.split("*")), url) is not None
