"""What a round is summed to: nothing that is not finite."""

from pathlib import Path

import pytest
import torch
import xxhash

from domo.errors import DivergenceError
from domo.model.flat import byte_view
from domo.run_config import RunConfig
from domo_proto.codec import VectorId
from domo_server.rounds.aggregate import make_record, sum_round
from domo_server.store.checkpoint import Checkpoint, create_file
from domo_server.store.rows import AcceptedUpdate
from domo_server.store.spool import update_path

N = 8
SIZES = {"x": 4 * N, "m": 4 * N, "float_buffer": 16, "integer_buffer": 0}
VECTORS = [(VectorId.UPDATE, N), (VectorId.LOCAL_MOMENTUM, N), (VectorId.FLOAT_BUFFERS, 4)]


def summed(folder: Path, huge: dict[str, dict[VectorId, float]]) -> Checkpoint:
    """A round of FedAvgSLM with two silos; all values are 1 but those given."""
    spool, checkpoints = folder / "spool", folder / "checkpoints"
    spool.mkdir()
    first = create_file(checkpoints, 0, SIZES, None)
    state = Checkpoint(0, first, {name: first.digest(name) for name in SIZES})
    config = RunConfig(task="digits", method="FedAvgSLM", num_rounds=1, num_silos=2)
    accepted: dict[str, AcceptedUpdate] = {}
    vectors = [(v, 4 * n) for v, n in VECTORS]
    for silo_id, values in huge.items():
        data = torch.cat([torch.full((n,), values.get(v, 1.0)) for v, n in VECTORS])
        digest = xxhash.xxh3_128_hexdigest(byte_view(data))
        update_path(spool, silo_id, digest).write_bytes(byte_view(data))
        accepted[silo_id] = AcceptedUpdate(silo_id, digest, vectors, 1, 1.0, {})
    record = make_record(config, 0, list(huge), accepted, dict.fromkeys(huge, 1), {})
    made, _ = sum_round(config.kernel, state, record, spool, checkpoints)
    return made


@pytest.mark.parametrize(
    ("vector_id", "text"),
    [
        (VectorId.LOCAL_MOMENTUM, "mean local momentum would have 8 non-finite entries"),
        (VectorId.FLOAT_BUFFERS, "mean of the float buffers would have 4 non-finite entries"),
    ],
)
def test_what_overflows_in_a_mean_is_refused_with_its_silo(
    vector_id: VectorId, text: str, tmp_path: Path
) -> None:
    huge = {"a": {vector_id: 3.0e38}, "b": {vector_id: 3.1e38}}
    with pytest.raises(DivergenceError) as caught:
        summed(tmp_path, huge)
    assert str(caught.value).startswith(f"the {text}; the largest vector is that of b, of norm ")
    assert [p.name for p in (tmp_path / "checkpoints").iterdir()] == ["x000000.safetensors.tmp"]


def test_what_is_huge_and_finite_counts(tmp_path: Path) -> None:
    huge = {"a": {VectorId.LOCAL_MOMENTUM: 3e38}, "b": {VectorId.LOCAL_MOMENTUM: -3e38}}
    assert not summed(tmp_path, huge)["mbar"].any()
