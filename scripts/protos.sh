#!/bin/bash
# Regenerate the committed gRPC code, or (--check) see that it is up to date.
# The proto path is the Python path, so imports need no rewriting.
set -eu
out=proto
check=${1:-}
[ "$check" = --check ] && out=$(mktemp -d)
python -m grpc_tools.protoc -I proto --python_out="$out" --pyi_out="$out" \
  --grpc_python_out="$out" domo_proto/v1/federation.proto
[ "$check" = --check ] || exit 0
for file in "$out"/domo_proto/v1/*.py*; do
  # the grpc plugin writes its own version into the file; that alone is no drift
  if ! diff -q <(grep -v "VERSION = " "$file") <(grep -v "VERSION = " "proto/${file#"$out"/}") >/dev/null; then
    echo "proto/${file#"$out"/} is not what federation.proto generates; run: make protos" >&2
    exit 1
  fi
done
rm -r "$out"
echo "generated code is up to date"
