"""A coordinator whose header of a round is not what the run's configuration says."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import domo_client
from domo.errors import DomoError
from domo.tasks.base import ArrayDataset
from domo_client.loop.silo import Silo
from domo_client.rpc.offer import ContradictionError, RefusedRunError
from domo_proto.assignment import Action
from domo_proto.codec import VectorId
from domo_proto.v1 import federation_pb2 as pb
from tests.support.played.hostile import Hostile

INPUTS = torch.tensor([[1.0, 2.0], [0.5, -1.0], [-2.0, 0.25], [1.5, 1.0]])
DATA = ArrayDataset(INPUTS, INPUTS.sum(1, keepdim=True))
PLAN = {"method": "FedAvg", "num_rounds": 3, "local_steps": 500, "batch_size": 4}


@contextmanager
def played(folder: Path, config: dict[str, Any], **given: Any) -> Iterator[tuple[Hostile, Silo]]:
    with (
        Hostile(nn.Linear(2, 1), {**PLAN, **config}, samples=len(DATA)) as it,
        domo_client.connect(it.address, "site-a", state_dir=folder / "state", **given) as silo,
    ):
        yield it, silo


def go(silo: Silo, **given: Any) -> list[int]:
    """The loop of the documentation; the rounds that were trained."""
    done = []
    for rnd in silo.rounds(nn.Linear(2, 1), samples=len(DATA), **given):
        opt = rnd.optimizer()
        for inputs, targets in rnd.batches(DATA):
            (rnd.model(inputs) - targets).square().mean().backward()
            opt.step()
            opt.zero_grad()
        done.append(rnd.round_index)
    return done


def changed(**fields: Any) -> Callable[[int, pb.RoundHeader], pb.RoundHeader]:
    def header(n: int, right: pb.RoundHeader) -> pb.RoundHeader:
        for name, value in fields.items():
            setattr(right, name, value)
        return right

    return header


def test_a_coordinator_that_keeps_to_the_configuration_is_served(tmp_path: Path) -> None:
    with played(tmp_path, {"local_steps": 2}) as (it, silo):
        assert go(silo) == [0, 1, 2]
        assert silo.outcome is not None
        assert silo.outcome.state == "FINISHED"
        assert [u.num_steps for u in it.of("SubmitUpdate")] == [2, 2, 2]


EPOCHS = {"local_steps": None, "local_epochs": 2.5, "batch_size": 3}
LIST = {"local_steps": None, "local_steps_list": [{"site-a": 7}, 8, 9]}


@pytest.mark.parametrize(
    ("config", "header", "text"),
    [
        ({}, {"num_steps": 1}, "asks for 1 step where the run's configuration says 500"),
        ({}, {"num_steps": 2**32 - 1}, "asks for 4294967295 steps where .* says 500"),
        (EPOCHS, {"num_steps": 4}, "asks for 4 steps where .* says 5;"),
        (LIST, {"num_steps": 8}, "asks for 8 steps where .* says 7;"),
        ({"local_lr": 0.5}, {"local_lr": 0.25}, "a step size of 0.25 where .* says 0.5"),
        ({"local_lrs": [0.1, 0.2, 0.3]}, {"local_lr": 0.2}, "of 0.2 where .* says 0.1"),
        ({}, {"num_rounds": 1000}, "asks for 1000 rounds in all where .* says 3"),
        ({}, {"round_index": 3}, "asks for round 4 where .* says num_rounds = 3"),
        ({}, {"round_index": 2**32 - 1}, "asks for round 4294967296 where"),
        ({}, {"run_id": "another"}, "names the run 'another' where"),
        ({"evaluate_every": 0}, {"evaluate": True}, "wants model 0 tested where"),
        ({}, {"inference_scale": 1.0}, "gives an inference scale of 1.0 in round 1"),
        ({}, {"counted_round": 0, "counted_digest": bytes(16)}, "counts an update of round 1"),
        ({"participants": [["b"], ["b"], ["b"]]}, {}, "not one of its participants"),
        ({}, {"action": pb.END, "outcome": "PAY UP"}, "ends the run as 'PAY UP'"),
        ({}, {"action": pb.END, "outcome": "FINISHED", "round_index": 4}, "counts 4 rounds"),
    ],
)
def test_a_header_that_contradicts_the_configuration_is_refused(
    config: dict[str, Any], header: dict[str, Any], text: str, tmp_path: Path
) -> None:
    with played(tmp_path, config) as (it, silo):
        it.headers = changed(**header)
        with pytest.raises(ContradictionError, match=text):
            go(silo)
        (told,) = it.of("Decline")
        assert told.code == "contradiction"
        assert told.reason.startswith("the coordinator ")
        assert not it.of("SubmitUpdate")
        assert not it.of("ReportEvaluation")
        it.declined.clear()  # it is offered again
        with pytest.raises(RefusedRunError, match="has asked for something else"):
            silo.next_run()


def _vectors(*ids: VectorId) -> Callable[[int, pb.RoundHeader], pb.RoundHeader]:
    def header(n: int, right: pb.RoundHeader) -> pb.RoundHeader:
        for one in ids:
            right.vectors.add(id=one.value, num_bytes=12, digest=bytes(16), sent=True)
        return right

    return header


@pytest.mark.parametrize(
    ("method", "vector"),
    [
        ("FedAvg", VectorId.X_PREV),
        ("FedAvg", VectorId.MEAN_MOMENTUM),
        ("DOMO", VectorId.X_PREV),
        ("DOMO", VectorId.MEAN_MOMENTUM),
        ("DOMO", VectorId.CONTROL),
        ("SCAFFOLD", VectorId.CONTROL),
    ],
)
def test_a_vector_that_the_method_has_not_is_refused(
    method: str, vector: VectorId, tmp_path: Path
) -> None:
    with played(tmp_path, {"method": method}) as (it, silo):
        it.headers = _vectors(vector)
        with pytest.raises(ContradictionError, match=f"sends {vector.name} in round 1"):
            go(silo)
        assert [d.code for d in it.of("Decline")] == ["contradiction"]


@pytest.mark.parametrize("scale", [None, 0.01, 5.0])
def test_a_scale_that_is_not_that_of_the_round_before_is_refused(
    scale: float | None, tmp_path: Path
) -> None:
    def header(n: int, right: pb.RoundHeader) -> pb.RoundHeader:
        if n:
            x = right.vectors[0]
            right.vectors.add(id=pb.X_PREV, num_bytes=x.num_bytes, digest=x.digest)
            if scale is not None:
                right.inference_scale = scale
        return right

    with played(tmp_path, {"method": "DOMO", "local_steps": 2, "local_lr": 0.5}) as (it, silo):
        it.headers = header
        with pytest.raises(ContradictionError, match=r"inference scale of .* where .* says"):
            go(silo)
        assert len(it.of("SubmitUpdate")) == 1


def test_an_evaluator_is_not_made_to_train(tmp_path: Path) -> None:
    with played(tmp_path, {}, role="evaluator") as (it, silo):
        with pytest.raises(ContradictionError, match="of an evaluator nothing"):
            go(silo)
        assert not it.of("SubmitUpdate")


def test_a_silo_without_test_data_is_not_asked_for_a_test(tmp_path: Path) -> None:
    with played(tmp_path, {}) as (it, silo):
        it.headers = changed(action=pb.EVALUATE)
        with pytest.raises(ContradictionError, match="it has no test data"):
            go(silo, eval_samples=0)


def test_rounds_without_end_are_refused(tmp_path: Path) -> None:
    """Back to round 1 with another model each time: more updates than R."""
    with played(tmp_path, {"local_steps": 1}) as (it, silo):

        def header(n: int, right: pb.RoundHeader) -> pb.RoundHeader:
            return it.assignment(round_index=0).header(it.starts())

        def submit(request: Any) -> pb.SubmitResponse:
            it.vectors[VectorId.X] = it.vectors[VectorId.X] + 1
            return pb.SubmitResponse(state=pb.ACCEPTED)

        it.headers, it.answers["SubmitUpdate"] = header, submit
        with pytest.raises(ContradictionError, match="back to round 1 for the 4th time"):
            go(silo)
        assert len(it.of("SubmitUpdate")) == 4


def test_tests_without_end_are_refused(tmp_path: Path) -> None:
    """One model after the other is tested as x_0, and never trained on."""
    with played(tmp_path, {"local_steps": 1}) as (it, silo):

        def header(n: int, right: pb.RoundHeader) -> pb.RoundHeader:
            it.vectors[VectorId.X] = it.vectors[VectorId.X] + 1
            return it.assignment(action=Action.EVALUATE).header(it.starts())

        it.headers = header
        with pytest.raises(ContradictionError, match="another model 0 tested for the 4th time"):
            go(silo, eval_samples=4)
        assert it.handed == 5


def test_a_digest_that_is_not_that_of_the_configuration_is_found_out(tmp_path: Path) -> None:
    with played(tmp_path, {}) as (it, silo):
        assert it.offer is not None
        it.offer.config_json = it.offer.config_json.replace('"local_steps":500', '"local_steps":1')
        with pytest.raises(RefusedRunError, match="its defaults are others"):
            go(silo)
        assert not it.of("Enroll")


@pytest.mark.parametrize("text", ["[" * 100_000, "{", '{"num_rounds": 1e400}', "[]", "null"])
def test_a_configuration_that_is_none_is_declined(text: str, tmp_path: Path) -> None:
    with played(tmp_path, {}) as (it, silo):
        assert it.offer is not None
        it.offer.config_json = text
        with pytest.raises(RefusedRunError):
            silo.next_run()
        assert [d.code for d in it.of("Decline")] == ["unknown-run"]


def test_more_threads_than_the_silo_gives_are_declined_and_not_started(tmp_path: Path) -> None:
    before = torch.get_num_threads()
    with played(tmp_path, {"threads": 512}, max_threads=4) as (it, silo):
        with pytest.raises(RefusedRunError, match="the run wants 512 CPU threads"):
            go(silo)
        (told,) = it.of("Decline")
        assert told.code == "too-many-threads"
        assert "start this silo with --max-threads 512" in told.reason
    assert torch.get_num_threads() == before


def test_a_coordinator_that_has_nothing_to_say_is_not_asked_without_end(tmp_path: Path) -> None:
    with played(tmp_path, {}) as (it, silo):
        it.answers["FetchRound"] = lambda request: iter(
            [it.assignment(action=Action.ASK_AGAIN, vectors={}).header().SerializeToString()]
        )
        it.answers["Report"] = lambda request: pb.ReportResponse(next_s=1e-9)

        def asks() -> None:
            with suppress(DomoError):
                go(silo)

        thread = threading.Thread(target=asks)
        thread.start()
        thread.join(3)
        fetched, reports = len(it.of("FetchRound")), len(it.of("Report"))
        silo.close()
        thread.join(10)
    assert fetched < 20 + 5 * 3 + 10
    assert reports < 3 / 0.1 + 10


def test_a_coordinator_is_given_nothing_that_was_made_for_another_one(tmp_path: Path) -> None:
    """The same run, round and model: an update of the other one would fit, and be sent."""

    def tests_next(n: int, right: pb.RoundHeader) -> pb.RoundHeader:
        return it.assignment(action=Action.EVALUATE).header(it.starts()) if n else right

    with played(tmp_path, {"local_steps": 1}) as (it, silo):
        it.headers = tests_next
        for rnd in silo.rounds(nn.Linear(2, 1), samples=len(DATA)):
            if rnd.round_index:
                break
            opt = rnd.optimizer()
            for inputs, targets in rnd.batches(DATA):
                (rnd.model(inputs) - targets).square().mean().backward()
                opt.step()
        assert len(it.of("SubmitUpdate")) == 1
    assert (tmp_path / "state" / "pending.json").exists()
    with played(tmp_path, {"local_steps": 1}) as (other, silo):
        other.vectors = it.vectors
        told = next(iter(silo.rounds(nn.Linear(2, 1), samples=len(DATA))))
        assert told.round_index == 0, "an update was sent, and no round was trained"
        assert not other.of("SubmitUpdate")
        assert len(other.of("FetchRound")[0].have) == 1, "of the model's own frozen parameters"
