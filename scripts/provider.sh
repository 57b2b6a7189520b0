#!/bin/bash
# Get Canaille, the OpenID Provider that tests log in at. It brings a web framework, and a package
# named `tests`, so it lies beside the environment's packages, not among them.
set -eu
cd "$(dirname "$0")/.."
version=0.3.6
place=$(python -c 'import sys; print(sys.prefix)')/canaille-$version
[ ! -d "$place" ] || exit 0
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python -m pip install -qq --disable-pip-version-check --only-binary :all: \
  --target "$scratch/tool" "canaille[front,oidc]==$version" || {
  echo "Canaille $version cannot be installed, so no test logs in at a real provider: see above" >&2
  exit 0
}
[ -d "$place" ] || mv "$scratch/tool" "$place"  # or another one was quicker
