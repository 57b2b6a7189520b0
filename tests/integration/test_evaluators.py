"""Who may test a run's models: silos that the run names, and none that the admin has left out."""

from pathlib import Path
from typing import Any

import pytest
from torch import nn

from domo import errors
from domo.ops.config_file import validate
from domo.run_config import RunConfig
from domo_proto.v1 import federation_pb2 as pb
from tests.support.live.coordinator import Coordinator, coordinator, own_run
from tests.support.played.lab import life, play
from tests.support.played.raw import Raw, fault


class Judge(Raw):
    """One that comes as evaluator, and tries everything."""

    def __init__(self, server: Coordinator, name: str, role: int = pb.EVALUATOR):
        super().__init__(server)
        self.name = name
        self.join(silo_id=name, instance_id=name, role=role)

    def offered(self) -> str:
        """The run that it is offered, or why it is none."""
        answer = self.stub.WaitForRun(pb.WaitForRunRequest(session=self.session), timeout=30)
        return answer.offer.run_id or answer.text

    def look(self, role: int = pb.EVALUATOR) -> Any:
        request = pb.LookAtRunRequest(silo_id=self.name, role=role)
        return self.stub.LookAtRun(request, timeout=30)

    def report(self, total: float = 1.0) -> Any:
        metrics = {"accuracy": pb.MetricSum(total=total, num=1.0)}
        request = pb.ReportEvaluationRequest(
            session=self.session, run_id=self.run_id, metrics=metrics
        )
        return self.stub.ReportEvaluation(request, timeout=30)

    def beat(self, **given: Any) -> Any:
        request = pb.ReportRequest(session=self.session, run_id=self.run_id, **given)
        return self.stub.Report(request, timeout=30)


def started(server: Coordinator) -> Raw:
    """A run that goes on: its only trainer has enrolled."""
    trainer = Raw(server)
    trainer.join(silo_id="site-a")
    assert trainer.enroll(num_samples=4, num_eval_samples=4).enrolled
    server.until(f"/runs/{trainer.run_id}", lambda run: run["state"] == "OPEN")
    return trainer


def test_one_that_nobody_has_named_gets_nothing(tmp_path: Path) -> None:
    run = own_run(tmp_path, nn.Linear(2, 1), evaluators=["judge"], evaluate_every=1)
    with coordinator(tmp_path, run) as server:
        trainer = started(server)
        layout = trainer.stub.WaitForRun(
            pb.WaitForRunRequest(session=trainer.session), timeout=30
        ).offer
        stranger = Judge(server, "stranger")
        why = "it is not one of the run's evaluators; the admin names them in the run"
        assert why in stranger.offered()
        assert why in stranger.look().text
        digests = {
            "config_digest": layout.config_digest,
            "layout_digest": layout.layout_digest,
        }
        error = fault(stranger.enroll, num_eval_samples=10**9, **digests)
        assert why in str(error)
        for call in (stranger.fetch, stranger.report):
            error = fault(call)
            assert type(error) is errors.ProtocolError
            assert str(error) == f"stranger is not part of {stranger.run_id}"
        assert stranger.submit().state == pb.STALE
        assert stranger.beat(notes=["red"], phase=pb.TRAINING).directive == pb.CONTINUE
        events = server.until(
            "/events?silo_id=stranger", lambda es: [e for e in es if e["kind"] == "silo-note"]
        )
        notes = [e for e in events if e["kind"] == "silo-note"]
        assert [e["run_id"] for e in notes] == [None], "it says nothing for a run that is not its"
        assert server.silo("stranger")["run_id"] is None
        assert server.run()["metrics"] == []
        for silo in (stranger, trainer):
            silo.close()


def test_one_that_is_named_tests_until_it_is_left_out(tmp_path: Path) -> None:
    run = own_run(tmp_path, nn.Linear(2, 1), evaluators=["judge"], evaluate_every=1)
    with coordinator(tmp_path, run) as server:
        trainer = started(server)
        judge = Judge(server, "judge")
        assert judge.offered() == judge.run_id
        assert judge.enroll(num_eval_samples=4).enrolled
        assert pb.RoundHeader.FromString(judge.fetch()[0]).action == pb.EVALUATE
        server.post("/silos/judge/drop", {"reason": "its certificate was stolen"})
        again = Judge(server, "judge")
        assert "the admin has left it out" in again.offered()
        assert not again.look().HasField("offer")
        header = pb.RoundHeader.FromString(again.fetch()[0])
        assert (header.action, list(header.vectors)) == (pb.ASK_AGAIN, [])
        again.report(total=0.0)
        assert server.run()["metrics"] == [], "what it says counts no more"
        for silo in (judge, again, trainer):
            silo.close()


def test_a_name_has_one_part_in_a_run(tmp_path: Path) -> None:
    run = own_run(tmp_path, nn.Linear(2, 1), evaluators=["judge"])
    with coordinator(tmp_path, run) as server:
        judge = Judge(server, "judge", pb.TRAINER)
        assert "the run names it as evaluator: start it with --role evaluator" in judge.offered()
        trainer = started(server)
        other = Judge(server, "site-a2")
        other.close()
        back = Judge.__new__(Judge)
        Raw.__init__(back, server)
        back.name = "site-a"
        back.join(silo_id="site-a", role=pb.EVALUATOR)
        assert "it is in it as trainer: start it with --role trainer" in back.offered()
        for silo in (judge, back, trainer):
            silo.close()


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"evaluators": ["a", "a"]}, "evaluators names a silo twice"),
        ({"evaluators": ["a"], "roster": ["a", "b"]}, "names a, which trains, and so tests anyway"),
        ({"evaluators": ["a b"]}, "evaluators"),
    ],
)
def test_a_run_that_cannot_be_meant_so(given: dict[str, Any], text: str) -> None:
    values = {"task": "digits", "num_rounds": 1, **given}
    with pytest.raises(errors.ConfigError, match=text):
        validate(RunConfig, values, "the test")


def test_nobody_else_is_named_by_default_and_the_digest_is_the_old_one() -> None:
    plain = RunConfig(task="digits", num_rounds=1)
    assert plain.evaluators == ()
    assert RunConfig(task="digits", num_rounds=1, evaluators=()).digest == plain.digest


def test_samples_that_decide_a_run_alone_are_said(tmp_path: Path) -> None:
    async def act() -> None:
        roster = ["site-a", "site-b"]
        async with life(tmp_path, roster=roster, weights="samples") as lab:
            await lab.enroll("site-b", 1000)
            await lab.enroll("site-b", 10**12)
            await lab.enroll("site-a", 90)
            await lab.round_open(0)
            (text,) = await lab.events("unusual")
            assert "site-b says that it has 1000000000000 training samples, 100 % of all" in text
            told = await lab.events("enrolled")
            assert told[-2] == "site-b enrolled with 1000000000000 samples, before with 1000"
            with pytest.raises(errors.ConfigError, match="a run needs the same data from start"):
                await lab.enroll("site-b", 9 * 10**11)

    play(act())


def test_accuracy_in_percent_is_left_out_and_said_at_both_ends(tmp_path: Path) -> None:
    run = own_run(tmp_path, nn.Linear(2, 1), evaluators=["judge"], evaluate_every=1)
    with coordinator(tmp_path, run) as server:
        trainer, judge = started(server), Judge(server, "judge")
        assert judge.enroll(num_eval_samples=4).enrolled
        metrics = {
            "accuracy": pb.MetricSum(total=350.0, num=4.0),
            "loss": pb.MetricSum(total=2.0, num=4.0),
        }
        request = pb.ReportEvaluationRequest(
            session=judge.session, run_id=judge.run_id, metrics=metrics
        )
        for _ in range(2):
            told = judge.stub.ReportEvaluation(request, timeout=30).text
            assert told.startswith("'accuracy' is a share, from 0 to 1, and comes as 87.5: return")
        assert server.run()["metrics"][-1]["metrics"] == {"loss": 0.5}
        events = server.get("/events?kind=metric&silo_id=judge")
        assert [e["text"] for e in events] == [f"judge: {told}; it is left out"]
        for silo in (judge, trainer):
            silo.close()
