#!/bin/sh
# Regenerate the committed gRPC code. The proto path is the Python path, so imports need no rewriting.
set -eu
out=${1:-proto}
python -m grpc_tools.protoc -I proto --python_out="$out" --pyi_out="$out" --grpc_python_out="$out" \
  domo_proto/v1/federation.proto
