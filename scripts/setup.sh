#!/bin/sh
# Make a virtual environment and install domo into it. Usage: setup.sh PYTHON VENV
set -eu
python=$1 venv=$2
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
echo "installing domo and what it needs: PyTorch is about 3 GB to download and 6 GB on disk where"
echo "pip takes its CUDA build (x86-64 Linux), everything else about 150 MB; no data is downloaded"
began=$(date +%s)
"$venv/bin/pip" install --quiet --disable-pip-version-check -e '.[dev]'
PATH="$(cd "$venv" && pwd)/bin:$PATH" bash scripts/protos.sh --fetch
echo "installed in $(( $(date +%s) - began )) s"
