#!/bin/bash
# The tests of what goes over the wire, with the lower bounds of pyproject.toml, or with the versions
# given: oldest.sh grpcio==1.62.3 grpcio-health-checking==1.62.3 protobuf==5.29.6
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- $(python - <<'END'
import re, tomllib
project = tomllib.load(open("pyproject.toml", "rb"))["project"]
for need in project["dependencies"] + project["optional-dependencies"]["server"]:
    if re.match("grpcio|protobuf", need):
        print(need.replace(">=", "=="))
END
)
packages=$(mktemp -d)
trap 'rm -rf "$packages"' EXIT
python -m pip install -qq --disable-pip-version-check --no-deps --only-binary :all: \
  --target "$packages" six "$@"
export PYTHONPATH="$packages:."
python -c "import grpc, google.protobuf as p; print('grpcio', grpc.__version__, 'protobuf', p.__version__)"
# other packages' generated code may want a newer protobuf: TensorBoard's
python -m pytest -q tests/unit/domo_proto tests/unit/domo_client tests/unit/domo_server \
  --ignore tests/unit/domo_server/integrations/test_trackers.py \
  tests/integration/test_{rpcs,transfers,control,tls,compression,loop_api}.py \
  tests/e2e/test_same_bytes.py
