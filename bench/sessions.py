"""A long transcript, and what it takes to go on with it."""

import json
import os
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

SIZE = 100 << 20
ROUNDS_PER_BOUNDARY = 1_000


def write_transcript(path: Path, *, boundaries: bool) -> None:
    """100 MB of rounds with one read of 8 kB each; `boundaries`: compacted now and then, as real ones are."""
    from msgspec import structs

    from tugline.protocol.blocks import Text, ToolResult, ToolUse
    from tugline.protocol.codec import encode
    from tugline.protocol.ids import AgentId, CallId, MessageId, SessionId
    from tugline.protocol.messages import Assistant, User
    from tugline.protocol.records import Compacted, Finished, Opened, Said, Started
    from tugline.protocol.usage import Usage

    text = "a line of text with some code(x) -> y\n" * 220
    parent: MessageId | None = None
    count = 0
    with path.open("wb") as file:

        def put(record: Any) -> None:
            nonlocal count
            count += 1
            file.write(encode(structs.replace(record, n=count, time=float(count))) + b"\n")

        put(Opened(format=1, session=SessionId(path.stem), agent=AgentId("main"), cwd="/", version="0.1.0"))
        number = 0
        while file.tell() < SIZE:
            number += 1
            call, reply = CallId(f"c{number}"), f"r{number}"
            prompt = User(MessageId(f"u{number}"), (Text(f"prompt {number}"),))
            use = ToolUse(call, "Read", {"file_path": "x"})
            answer = Assistant(
                MessageId(f"a{number}"), (Text("I look."), use), "m", "tool_use", Usage(1_000, 10), reply
            )
            result = ToolResult(call, text)
            results = User(MessageId(f"t{number}"), (result,), "results")
            put(Said(message=prompt, parent=parent))
            put(Started(call=call, tool="Read", reply=reply))
            put(Said(message=answer, parent=prompt.id))
            put(Finished(result=result, reply=reply))
            put(Said(message=results, parent=answer.id))
            parent = results.id
            if boundaries and number % ROUNDS_PER_BOUNDARY == 0:
                summary = User(MessageId(f"s{number}"), (Text("What was done."),), "summary")
                put(Compacted(id=MessageId(f"b{number}"), messages=(summary,), parent=parent))
                parent = MessageId(f"b{number}")


async def resume(workload: str, url: str) -> dict[str, float]:
    """Until a session of 100 MB takes a prompt. The floor reads the file and parses each line as JSON."""
    import tugline
    from tugline.stores.sessions import project_folder

    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder, "work")
        work.mkdir()
        sessions = Path(project_folder(f"{folder}/home/data/sessions", os.path.realpath(work)))
        sessions.mkdir(parents=True)
        path = sessions / "long.jsonl"
        write_transcript(path, boundaries=workload == "resume")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        cpu, wall = time.process_time(), time.perf_counter()
        environ = {**os.environ, "TUGLINE_HOME": f"{folder}/home"}
        async with tugline.Session(base_url=url, api_key="k", cwd=str(work), environ=environ, resume="long"):
            found = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}
        found["grown"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        wall = time.perf_counter()
        with path.open("rb") as file:
            for line in file:
                json.loads(line)
        found["floor"] = time.perf_counter() - wall
        return found
