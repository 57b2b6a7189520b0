#!/bin/sh
# Make a virtual environment and install domo into it. Usage: setup.sh PYTHON VENV run|dev
# run: what the demo needs. dev: what tests and checks need too.
set -eu
python=$1 venv=$2 what=$3
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "domo needs Python 3.11 or newer; $python is $("$python" -V 2>&1). Name another: make PYTHON=python3.12 ..." >&2
  exit 1
}
if [ ! -x "$venv/bin/python" ]; then
  echo "making $venv"
  "$python" -m venv "$venv" || {
    echo "python's venv module is missing; on Debian: apt-get install python3-venv" >&2
    exit 1
  }
fi
if [ ! -e "$venv/.demo" ]; then
  echo "PyTorch is about 3 GB to fetch and 6 GB on disk where pip takes its CUDA build (x86-64 Linux);"
  echo "no data is downloaded"
fi
"$venv/bin/python" scripts/install.py "$what"
[ "$what" != run ] || exit 0
PATH="$(cd "$venv" && pwd)/bin:$PATH"
bash scripts/protos.sh --fetch
bash scripts/provider.sh
