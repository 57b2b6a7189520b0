"""The generated code asks for no version of protobuf or grpcio: domo fits other packages."""

from pathlib import Path

import domo_proto.v1


def test_the_generated_code_refuses_no_older_package() -> None:
    """`make protos` with a newer compiler would: docs/adr/0010."""
    [folder] = domo_proto.v1.__path__
    text = "".join(path.read_text() for path in sorted(Path(folder).glob("federation_pb2*.py")))
    assert "_descriptor_pool" in text
    assert "class FederationStub" in text
    for demand in ("runtime_version", "GRPC_GENERATED_VERSION", "_registered_method"):
        assert demand not in text
