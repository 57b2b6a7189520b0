#!/bin/bash
# Regenerate the committed gRPC code; --check: see that it is up to date; --fetch: get the compiler.
# The proto path is the Python path, so imports need no rewriting.
#
# The compiler is old on purpose (docs/adr/0010): its code asks for no version of protobuf and grpcio,
# where later ones write code that refuses what is older than themselves.
# It pins protobuf < 5, so it lies beside the environment's packages, not among them.
set -eu
cd "$(dirname "$0")/.."
version=1.62.3
mode=${1:-}
tool=$(python -c 'import sys; print(sys.prefix)')/protos-$version
files="federation_pb2.py federation_pb2.pyi federation_pb2_grpc.py"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
if [ ! -d "$tool" ]; then
  if ! python -c 'import sys; sys.exit(sys.version_info >= (3, 13))'; then
    echo "grpcio-tools $version runs on Python 3.11 and 3.12 only; use one of them for make protos" >&2
    [ "$mode" = "" ] && exit 1
    echo "generated code is not checked with this Python"
    exit 0
  fi
  python -m pip install -qq --disable-pip-version-check --no-deps --only-binary :all: \
    --target "$scratch/tool" "grpcio-tools==$version" || {
    echo "grpcio-tools $version cannot be installed: see what pip says above" >&2
    exit 1
  }
  [ -d "$tool" ] || mv "$scratch/tool" "$tool"  # or another one was quicker
fi
[ "$mode" = --fetch ] && exit 0

PYTHONPATH=$tool python -m grpc_tools.protoc -I proto --python_out="$scratch" \
  --pyi_out="$scratch" --grpc_python_out="$scratch" domo_proto/v1/federation.proto
for file in $files; do
  from=$scratch/domo_proto/v1/$file to=proto/domo_proto/v1/$file
  if [ "$mode" = --check ]; then
    cmp -s "$from" "$to" || {
      echo "$to is not what federation.proto generates; run: make protos" >&2
      exit 1
    }
  else
    cp "$from" "$to"
  fi
done
[ "$mode" != --check ] || echo "generated code is up to date"
