"""Which hosts a sandboxed command may reach: by the rules that stand now, else by asking the person."""

from collections.abc import Callable

import anyio

from tugline.loop.gate import Asker, Judge
from tugline.loop.voice import Voice
from tugline.protocol.errors import ConfigError
from tugline.protocol.events import Notice, PermissionDecided
from tugline.protocol.ids import CallId
from tugline.protocol.permissions import Allow, PermissionQuestion
from tugline.rules.addresses import as_address
from tugline.rules.hosts import HostPolicy, Target
from tugline.rules.rule import RuleError

TOOL = "SandboxNetworkAccess"
"""The name under which questions about hosts are asked, as other tools call it."""
_WHY = "sandbox.network.allowedDomains does not name this host"


class HostGate:
    """For the commands of one call. `policy` is looked up each time, so that a change counts at once; each host is
    asked about once, and the answer holds for the call."""

    def __init__(
        self,
        call: CallId,
        policy: Callable[[], HostPolicy],
        judge: Judge,
        asker: Asker | None,
        voice: Voice,
    ) -> None:
        self._call = call
        self._policy = policy
        self._judge = judge
        self._asker = asker
        self._voice = voice
        self._answers: dict[Target, bool] = {}
        self._one_question = anyio.Lock()

    @property
    def policy(self) -> HostPolicy:
        """The policy now."""
        return self._policy()

    async def ask(self, target: Target) -> bool:
        """Whether a host that the policy does not name may be reached."""
        if self._asker is None:
            return False
        async with self._one_question:
            # an answer given meanwhile may have settled this one too
            ruling = self.policy.rule(target)
            if ruling != "ask":
                return ruling == "allow"
            if target not in self._answers:
                self._answers[target] = await self._question(self._asker, target)
            return self._answers[target]

    async def _question(self, asker: Asker, target: Target) -> bool:
        given = {"host": target.host, "port": target.port}
        named = as_address(target.host) is None
        question = PermissionQuestion(
            id=asker.new_id(),
            call=self._call,
            tool=TOOL,
            input=given,
            title=f"Connect to {target}",
            reason=_WHY,
            suggestions=(f"WebFetch(domain:{target.host})",) if named else (),
            agent=self._voice.origin.agent,
        )
        answer = await asker.ask(question)
        allowed = isinstance(answer, Allow)
        if isinstance(answer, Allow) and answer.remember != "once" and answer.rules:
            try:
                self._judge.remember(answer.rules, answer.remember)
            except (ConfigError, RuleError) as error:
                self._voice.say(Notice, level="warning", text=f"The rule was not kept: {error}")
        reason = "the user allowed it" if allowed else "the user said no" if answer is not None else _WHY
        self._voice.say(PermissionDecided, call=self._call, tool=TOOL, input=given, allowed=allowed, reason=reason)
        return allowed
