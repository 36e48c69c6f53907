"""One measured run in a process of its own: `python -m bench.cases SUBJECT WORKLOAD URL`; prints JSON.

What is timed begins when all is imported and the session is open, but for (f), which opens its sessions itself, and
(a), which the caller times from outside. Growth is told by CPU time, which a busy machine does not stretch.
"""

import asyncio
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench.server import INTERRUPTS, SLEEPERS
from bench.sessions import resume

AGENTS = int(os.environ.get("AGENTS", "100"))


class Meter:
    """CPU and wall from its making on; `step` is called once per request."""

    def __init__(self) -> None:
        self._moments: list[float] = []
        self._cpu, self._wall = time.process_time(), time.perf_counter()

    def step(self) -> None:
        """A request begins."""
        self._moments.append(time.process_time())

    def read(self) -> dict[str, float]:
        """What it took; `growth` is the CPU time of the last 20 steps against the first 20."""
        found = {"cpu": time.process_time() - self._cpu, "wall": time.perf_counter() - self._wall}
        gaps = [after - before for before, after in pairwise(self._moments)]
        if len(gaps) >= 40:
            found["growth"] = sorted(gaps[-20:])[10] / sorted(gaps[:20])[10]
        return found


async def tugline_library(workload: str, url: str) -> dict[str, float]:
    """The whole harness as a library: permissions, events, a transcript with durable writes."""
    import tugline

    @tugline.tool(footprint="nothing")
    async def trivial(x: int) -> str:
        """Trivial."""
        return "ok"

    @tugline.tool(footprint="nothing")
    async def large(x: int) -> str:
        """Large."""
        return "x" * 4096

    @tugline.tool(footprint="nothing")
    async def slow(n: int) -> str:
        """Slow."""
        await asyncio.sleep(0.2)
        return "ok"

    with tempfile.TemporaryDirectory() as folder:
        environ = {**os.environ, "TUGLINE_HOME": f"{folder}/home"}
        common: dict[str, Any] = {"base_url": url, "api_key": "k", "cwd": folder, "environ": environ}
        common["tools"] = (trivial, large, slow)
        if workload == "hello":
            async for _ in tugline.query("Hi", **common):
                pass
            return {}
        make = tugline.Session
        if workload == "agents":
            return await _agents(lambda: make(**common))
        async with make(**common) as session:
            meter = Meter()
            async with session.stream("Go") as events:
                async for event in events:
                    if isinstance(event, tugline.RequestStarted):
                        meter.step()
            return meter.read()


async def _agents(make: Callable[[], Any]) -> dict[str, float]:
    async def one() -> None:
        async with make() as session:
            result = await session.run("Go")
            assert result.reason == "completed", result

    meter = Meter()
    await asyncio.gather(*(one() for _ in range(AGENTS)))
    return meter.read()


def routine_commands() -> list[str]:
    """Commands that nobody wants to be asked about, as the tests of the rules have them."""
    lines = Path("tests/rules/corpus/routine_must.txt").read_text().splitlines()
    return [line.replace("⏎", "\n") for line in lines if line and not line.startswith(("# ", "@ "))]


async def decisions(workload: str, url: str) -> dict[str, float]:
    """Permission decisions, as the gate takes them: routine commands under a few rules, each one new to the caches,
    then the longest and most tangled commands that are still analysed. The floor is the parser alone."""
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    from tugline.app.config import load_config
    from tugline.app.equipment import make_standing, make_workspace
    from tugline.options import Options
    from tugline.protocol.specs import CommandSubject
    from tugline.rules.permission import Query

    routine = routine_commands()
    tangled = [(unit * 60_000)[:60_000] for unit in ("(", "$(", "a;", "a|", "<<A ", "(a)", "a&&", "${a", "if a;")]
    rules = {"allow": ["Bash(npm:*)", "Bash(git add:*)", "Edit(/src/**)"], "deny": ["Bash(curl:*)", "Read(./.env)"]}
    with tempfile.TemporaryDirectory() as folder:
        environ = {**os.environ, "TUGLINE_HOME": f"{folder}/home"}
        config = load_config(Options(cwd=folder, environ=environ, settings={"permissions": rules}))
        standing = make_standing(config, make_workspace(config, environ, folder), folder)
        parser = Parser(Language(tree_sitter_bash.language()))
        times: dict[str, list[float]] = {"routine": [], "tangled": [], "floor": []}

        def judge(kind: str, command: str) -> None:
            began = time.perf_counter()
            standing.judge(Query("Bash", {"command": command}, subjects=(CommandSubject(command),)))
            times[kind].append(time.perf_counter() - began)

        judge("floor", "ls")  # what is loaded at the first decision
        times["floor"].clear()
        for number in range(10):
            for line in routine:
                command = f"{line} # {number}"
                judge("routine", command)
                began = time.perf_counter()
                parser.parse(command.encode())
                times["floor"].append(time.perf_counter() - began)
        for command in tangled:
            judge("tangled", command)
    ordered = sorted(times["routine"])
    return {
        "cpu": sum(ordered),
        "p50": ordered[len(ordered) // 2],
        "p99": ordered[len(ordered) * 99 // 100],
        "worst": max(times["tangled"]),
        "floor": sorted(times["floor"])[len(times["floor"]) // 2],
    }


async def interrupts(workload: str, url: str) -> dict[str, float]:
    """A shell command with children is interrupted; until the turn has ended and the next prompt can come. The floor
    kills such a group and waits for it, and does no more."""
    import tugline

    took: list[float] = []
    floor: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        environ = {**os.environ, "TUGLINE_HOME": f"{folder}/home"}
        options: dict[str, Any] = {"base_url": url, "api_key": "k", "cwd": folder, "environ": environ}
        async with tugline.Session(permission_mode="bypassPermissions", **options) as session:
            for _ in range(INTERRUPTS):
                async with session.stream("Go") as events:
                    async for event in events:
                        if isinstance(event, tugline.CallProgress | tugline.CallStarted):
                            await asyncio.sleep(0.05)  # its children are up
                            began = time.perf_counter()
                            session.interrupt()
                took.append(time.perf_counter() - began)
        for _ in range(INTERRUPTS):
            process = await asyncio.create_subprocess_exec("bash", "-c", SLEEPERS, start_new_session=True, stdout=-3)
            await asyncio.sleep(0.05)
            began = time.perf_counter()
            os.killpg(process.pid, signal.SIGTERM)
            await process.wait()
            floor.append(time.perf_counter() - began)
    took.sort()
    return {"cpu": 0.0, "p50": took[INTERRUPTS // 2], "p99": took[-1], "floor": sorted(floor)[INTERRUPTS // 2]}


async def floor(name: str, workload: str, url: str) -> dict[str, float]:
    """A bare loop."""
    from bench import floors

    open_client, converse = floors.load(name)
    result, slow = "x" * 4096 if workload == "steps-4k" else "ok", 0.2 if workload.startswith("ten") else 0.0
    meter = Meter()
    async with open_client() as client:
        if workload == "agents":
            await asyncio.gather(*(converse(client, url, result, slow, lambda: None) for _ in range(AGENTS)))
        else:
            await converse(client, url, result, slow, meter.step)
    return meter.read()


async def pydantic_ai(workload: str, url: str) -> dict[str, float]:
    """A library of others: its agent, its Anthropic model, replies streamed; no permissions, no transcript."""
    from pydantic_ai import Agent, UsageLimits
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    model = AnthropicModel("claude-sonnet-4-5", provider=AnthropicProvider(api_key="k", base_url=url))
    agent = Agent(model)
    meter = Meter()

    @agent.tool_plain
    async def trivial(x: int) -> str:
        """Trivial."""
        return "ok"

    async def listen(context: Any, events: Any) -> None:
        meter.step()
        async for _ in events:
            pass

    await agent.run("Go", usage_limits=UsageLimits(request_limit=None), event_stream_handler=listen)
    return meter.read()


def main() -> None:
    """Run the case and print what was measured."""
    subject, workload, url = sys.argv[1:]
    own = {"decisions": decisions, "interrupts": interrupts, "resume": resume, "resume-whole": resume}
    if workload in own:
        case = own[workload](workload, url)
    elif subject == "tugline":
        case = tugline_library(workload, url)
    elif subject == "pydantic-ai":
        case = pydantic_ai(workload, url)
    else:
        case = floor(subject, workload, url)
    print(json.dumps(asyncio.run(case)), flush=True)


if __name__ == "__main__":
    main()
