"""One measured run in a process of its own: `python -m bench.cases SUBJECT WORKLOAD URL`; prints JSON."""

import asyncio
import json
import os
import resource
import sys
import tempfile
import time
from itertools import pairwise
from typing import Any


def cpu() -> float:
    """CPU seconds of this process, children left out."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


async def tugline_library(workload: str, url: str) -> dict[str, Any]:
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

    folder = tempfile.mkdtemp()
    environ = {**os.environ, "TUGLINE_HOME": f"{folder}/home"}
    common = {"base_url": url, "api_key": "k", "cwd": folder, "environ": environ, "tools": (trivial, large, slow)}
    if workload == "hello":
        async for _ in tugline.query("Hi", **common):
            pass
        return {}
    if workload == "agents":
        return await _agents(tugline, common, int(os.environ.get("AGENTS", "100")))
    gaps: list[float] = []
    async with tugline.Session(**common) as session:
        before, began = cpu(), time.perf_counter()
        async with session.stream("Go") as events:
            async for event in events:
                if isinstance(event, tugline.RequestStarted):
                    gaps.append(time.perf_counter())
        return {"cpu": cpu() - before, "wall": time.perf_counter() - began, **_growth(gaps)}


async def _agents(tugline: Any, common: dict[str, Any], count: int) -> dict[str, Any]:
    before, began = cpu(), time.perf_counter()

    async def one() -> None:
        async with tugline.Session(**common) as session:
            result = await session.run("Go")
            assert result.reason == "completed", result

    await asyncio.gather(*(one() for _ in range(count)))
    return {"cpu": cpu() - before, "wall": time.perf_counter() - began}


def _growth(moments: list[float]) -> dict[str, float]:
    gaps = [b - a for a, b in pairwise(moments)]
    if len(gaps) < 40:
        return {}
    return {"growth": sorted(gaps[-20:])[10] / sorted(gaps[:20])[10]}


async def floor(name: str, workload: str, url: str) -> dict[str, Any]:
    """A bare loop."""
    from bench import floors

    before, began = cpu(), time.perf_counter()
    if workload == "agents":
        many = floors.many_aiohttp if name == "aiohttp" else floors.many_httpx
        await many(url, int(os.environ.get("AGENTS", "100")))
    else:
        run = floors.run_aiohttp if name == "aiohttp" else floors.run_httpx
        await run(url, "x" * 4096 if workload == "steps-4k" else "ok", 0.2 if workload.startswith("ten") else 0.0)
    return {"cpu": cpu() - before, "wall": time.perf_counter() - began}


def main() -> None:
    """Run the case and print what was measured."""
    subject, workload, url = sys.argv[1:]
    case = tugline_library(workload, url) if subject == "tugline" else floor(subject, workload, url)
    print(json.dumps(asyncio.run(case)), flush=True)


if __name__ == "__main__":
    main()
