"""The process in which a local model runs: llama.cpp's server on loopback.

A process of its own, because loading holds the interpreter's lock for as long as it takes, and because what llama.cpp
gives up on, it aborts. Run with `python -P -m`; reads an order as one line of JSON from stdin, answers with one line on
stdout (`address` or `error`), and ends when stdin does: when its owner closes it, or is gone.
"""

import json
import os
import re
import sys
import tempfile
from typing import Any

PARALLEL = 4
"""Requests that are answered at once; others wait."""
CACHE_MIB = 512
"""Memory for the states of conversations that are not being answered."""

SPINS = 500
"""How often a thread of llama.cpp looks for the others before it sleeps: for 10 to 30 microseconds.

They meet hundreds of times per token, and waking costs no less. Unasked, OpenMP has them look 300,000 times: as soon as
something else wants a processor, threads that only look keep it from those that compute, and the model gets a hundred
times slower.
"""

_PREFIX = re.compile(r"^\S+ E (?:[a-z]{3,4} +)?[\w~ ]+: +")


def main() -> None:
    """Load the model, say where it listens, stay until stdin ends."""
    order = json.loads(sys.stdin.buffer.readline())
    with tempfile.TemporaryFile() as log:
        os.dup2(log.fileno(), 2)
        answer, server = _start(order, log.fileno())
    _silence()
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
    if server is not None:
        sys.stdin.buffer.read()
    # taking the server down in an orderly way can hang; nothing here needs it
    os._exit(0 if server is not None else 1)


def _start(order: dict[str, Any], log: int) -> tuple[dict[str, str], object | None]:
    if "OMP_WAIT_POLICY" not in os.environ:  # somebody has thought about it
        os.environ.setdefault("GOMP_SPINCOUNT", str(SPINS))
    # not before that: OpenMP reads its settings when it is loaded
    import xllamacpp  # noqa: PLC0415  the extra `local`

    params = xllamacpp.CommonParams()
    params.model.path = order["path"]
    params.n_ctx = params.fit_params_min_ctx = order["window"]
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [order["key"]]
    params.n_parallel = PARALLEL
    params.kv_unified = True
    params.cache_ram_mib = CACHE_MIB
    params.offline = True
    params.ui = False
    params.endpoint_slots = False
    params.verbosity = 1
    try:
        server = xllamacpp.Server(params)
    except Exception as error:  # whatever it is, its text goes to the owner of this process
        return {"error": _first_error(log) or str(error)}, None
    return {"address": server.listening_address}, server


def _first_error(log: int) -> str:
    """The first line that llama.cpp marked as an error: the cause; what follows are consequences."""
    for line in os.pread(log, 65536, 0).decode("utf-8", "replace").splitlines():
        if _PREFIX.match(line):
            return _PREFIX.sub("", line)[:300].strip()
    return ""


def _silence() -> None:
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    os.close(nothing)


if __name__ == "__main__":
    main()
