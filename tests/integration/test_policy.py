"""A silo's policy: each rule refuses, both ends know why, and the data were not opened."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from typer.testing import CliRunner

import domo_client
from domo.metrics.table import Sum
from domo.model.flat import FlatModel
from domo.tasks.base import ArrayDataset
from domo_client.cli import app
from domo_client.loop import allowed
from domo_client.loop.silo import Silo
from domo_client.policy import gate
from domo_client.policy.gate import sha256_of
from domo_client.policy.pins import OtherCoordinatorError, shows
from domo_client.rpc.offer import ContradictionError, PolicyError
from domo_proto.channel import TlsFiles
from domo_proto.v1 import federation_pb2 as pb
from tests.support.live.coordinator import coordinator
from tests.support.live.enrolled import enrolling
from tests.support.live.silos import Agent, options
from tests.support.played.hostile import RUN_ID, Hostile
from tests.support.tasks.unopened import Unopened

TASK = "tests.support.tasks.unopened:Unopened"
FINE = {"task": TASK, "num_silos": 3, "batch_size": 32, "num_rounds": 3}
LAYOUT = FlatModel(Unopened().build_model()).layout.digest
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def policy_file(folder: Path, text: str) -> Path:
    path = folder / "policy.toml"
    path.write_text(text)
    return path


@contextmanager
def offered(folder: Path, config: dict[str, Any], policy: str | Path) -> Iterator[Hostile]:
    """A run for the agent of a silo whose data nobody may open."""
    (folder / "data").mkdir(exist_ok=True)
    with Hostile(Unopened().build_model(), {**FINE, **config}) as it:
        agent = Agent(it.address, "site-a", folder, options(folder / "data", TASK), policy=policy)
        try:
            yield it
        finally:
            agent.close()
        assert not it.of("Enroll")


@pytest.mark.parametrize(
    ("config", "policy", "text"),
    [
        ({"batch_size": 15}, "", "min_batch: batches of 15 samples, .* 16 or more"),
        (
            {"local_steps": 1, "batch_size": 255},
            "",
            r"min_samples_per_update: updates of 255 samples \(1 step\), .* 256 or more",
        ),
        ({"num_silos": 2}, "", "min_silos: rounds of 2 silos, .* 3 or more"),
        (
            {"num_silos": 4, "on_missing": "proceed", "min_silos": 2},
            "",
            "min_silos: rounds of 2 silos",
        ),
        ({"num_silos": 4, "participation": 2}, "", "min_silos: rounds of 2 silos"),
        ({"method": "FedCM"}, 'methods = ["DOMO"]', "methods: FedCM, .* only DOMO"),
        ({}, 'tasks = ["digits"]', f"tasks: {TASK}, .* only digits"),
        ({}, f'layouts = ["{"0" * 32}"]', f"layouts: the model {LAYOUT} is not on the list"),
        ({}, "max_model_mb = 0.00001", "max_model_mb: a model of 2.4e-05 MB, .* 1e-05 at most"),
        ({"threads": 2}, "max_threads = 1", "max_threads: 2 CPU threads, .* 1 at most"),
        ({"local_steps": 9}, "max_steps = 8", "max_steps: 9 steps in a round, .* 8 at most"),
        ({"local_lr": 0.2}, "max_step_size = 0.1", "max_step_size: a step size of 0.2"),
        ({}, "max_rounds = 2", "max_rounds: 3 rounds, .* 2 at most"),
        ({"method": "FedAvgLM"}, "clip = 1.0", "clip: updates of FedAvgLM with an averaged mom"),
    ],
)
def test_a_run_is_refused_before_the_data_are_opened(
    config: dict[str, Any],
    policy: str,
    text: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = policy_file(tmp_path, policy) if policy else "default"
    with offered(tmp_path, config, given) as it:
        (told,) = it.until(lambda: it.of("Decline"))
    assert told.code == "policy"
    assert told.reason.startswith("this silo's policy refuses it: ")
    assert re.search(text, told.reason), told.reason
    here = capsys.readouterr()
    assert re.search(text, here.out + here.err), "its operator reads the same"


def test_a_list_of_the_right_model_goes_on_to_the_data(tmp_path: Path) -> None:
    """Here they raise, so the other tests would have seen it."""
    given = policy_file(tmp_path, f'layouts = ["{LAYOUT}"]')
    with offered(tmp_path, {}, given) as it:
        (told,) = it.until(lambda: it.of("Decline"))
    assert told.code != "policy"
    assert "AssertionError" in told.reason


def test_a_policy_that_was_broken_since_refuses(tmp_path: Path) -> None:
    given = policy_file(tmp_path, "min_batch = 8")
    (tmp_path / "data").mkdir()
    with Hostile(Unopened().build_model(), FINE) as it:
        it.offer, offer = None, it.offer
        agent = Agent(
            it.address, "site-a", tmp_path, options(tmp_path / "data", TASK), policy=given
        )
        try:
            it.until(lambda: it.of("WaitForRun"))
            given.write_text("min_batch = 0")
            it.offer = offer
            (told,) = it.until(lambda: it.of("Decline"))
        finally:
            agent.close()
    assert told.reason.endswith("this silo's policy cannot be read")


# which coordinator


def test_a_coordinator_that_the_policy_does_not_name_hears_nothing(tmp_path: Path) -> None:
    with enrolling(tmp_path) as home:
        address, tls = home.coordinator.address, home.enrolled("site-a").files(tmp_path / "tls")
        shown = shows(address, tls)
        (ca,), key = shown.authorities, shown.key
        before = home.coordinator.get("/silos")

        def join(*named: str, tls: TlsFiles | None = tls) -> None:
            given = policy_file(tmp_path, f"coordinator = {list(named)}".replace("'", '"'))
            where = {"state_dir": tmp_path / "state", "policy": given}
            domo_client.connect(address, "site-a", tls=tls, **where).close()

        other = "0" * 64
        for named in ([f"key:{other}"], [f"ca:{other}"], [ca, f"key:{other}"], []):
            with pytest.raises(OtherCoordinatorError, match="nothing was said to it") as caught:
                join(*named)
            assert str(key) in str(caught.value), "the one that it has, to compare"
        with pytest.raises(OtherCoordinatorError, match="without TLS"):
            join(ca, tls=None)
        assert home.coordinator.get("/silos") == before
        for named in ([ca], [str(key)], [ca, str(key)], [f"key:{other}", str(key)]):
            join(*named)


# a loop of one's own

INPUTS = torch.randn(40, 2, generator=torch.Generator().manual_seed(1))
DATA = ArrayDataset(INPUTS, INPUTS.sum(1, keepdim=True))
OWN = {"task": "own:Loop", "num_silos": 3, "num_rounds": 3, "batch_size": 16, "method": "FedAvg"}


@contextmanager
def joined(
    folder: Path, config: dict[str, Any], policy: str | Path, samples: int = len(DATA)
) -> Iterator[tuple[Hostile, Silo]]:
    torch.manual_seed(0)
    with (
        Hostile(nn.Linear(2, 1), {**OWN, **config}, samples=samples) as it,
        domo_client.connect(
            it.address, "site-a", state_dir=folder / "state", policy=policy
        ) as silo,
    ):
        yield it, silo


def go(silo: Silo, samples: int = len(DATA)) -> list[int]:
    torch.manual_seed(0)
    done = []
    for rnd in silo.rounds(nn.Linear(2, 1), samples=samples, eval_samples=len(DATA)):
        rnd.evaluate(lambda model, batch: {"loss": Sum(1.0, 1)}, [(INPUTS, INPUTS)])
        opt = rnd.optimizer()
        for inputs, targets in rnd.batches(DATA):
            (rnd.model(inputs) - targets).square().mean().backward()
            opt.step()
            opt.zero_grad()
        done.append(rnd.round_index)
    return done


def refused(folder: Path, config: dict[str, Any], policy: str, samples: int = len(DATA)) -> str:
    """Why; the coordinator has heard it too, and no update."""
    given = policy_file(folder, policy) if policy else "default"
    with joined(folder, config, given, samples) as (it, silo):
        with pytest.raises(PolicyError) as caught:
            go(silo, samples)
        assert not it.of("SubmitUpdate")
        (told,) = it.of("Decline")
        assert told.reason == str(caught.value)
    return str(caught.value)


def test_whole_passes_are_enough_where_there_is_little(tmp_path: Path) -> None:
    with joined(tmp_path, {"evaluate_every": 0}, "default") as (it, silo):
        assert go(silo) == [0, 1, 2]
        assert len(it.of("SubmitUpdate")) == 3


@pytest.mark.parametrize(
    ("config", "policy", "samples", "text"),
    [
        ({"local_epochs": 0.5}, "", 40, r"updates of 32 samples \(2 steps\), .* or whole passes"),
        ({}, "", 15, "min_batch: batches of 15 samples"),
        ({}, "max_steps = 2", 40, "max_steps: 3 steps in a round"),
        ({}, 'devices = ["cuda"]', 40, "devices: cpu, .* says cuda"),
        ({}, f'x0 = ["{"0" * 64}"]', 40, "x0: a first model of SHA-256 [0-9a-f]{64} is not on"),
    ],
)
def test_what_the_data_the_machine_or_the_first_model_tell(
    config: dict[str, Any], policy: str, samples: int, text: str, tmp_path: Path
) -> None:
    assert re.search(text, refused(tmp_path, config, policy, samples))


def test_a_first_model_on_the_list_is_trained(tmp_path: Path) -> None:
    torch.manual_seed(0)
    digest = sha256_of(FlatModel(nn.Linear(2, 1)).vector)
    given = policy_file(tmp_path, f'x0 = ["{digest}"]')
    with joined(tmp_path, {"evaluate_every": 0}, given) as (_, silo):
        assert go(silo) == [0, 1, 2]


def test_the_model_of_the_seed_is_known_and_another_one_is_not(tmp_path: Path) -> None:
    given = policy_file(tmp_path, 'x0 = ["seed"]')
    with joined(tmp_path, {"evaluate_every": 0}, given) as (_, silo):
        assert go(silo) == [0, 1, 2]
    other = tmp_path / "other"
    other.mkdir()
    with joined(other, {"evaluate_every": 0}, given) as (it, silo):
        for vector in it.vectors.values():
            vector += 1
        with pytest.raises(PolicyError, match="x0: a first model of SHA-256"):
            go(silo)


def test_a_silo_that_comes_later_cannot_know_the_first_model(tmp_path: Path) -> None:
    given = policy_file(tmp_path, 'x0 = ["seed"]')
    with joined(tmp_path, {"evaluate_every": 0}, given) as (it, silo):
        it.round_index = 1
        with pytest.raises(PolicyError, match="was not there when the run began"):
            go(silo)


@pytest.mark.parametrize(
    "header", [{"num_steps": 1}, {"local_lr": 0.5}, {"num_rounds": 9}], ids=lambda h: next(iter(h))
)
def test_a_header_that_differs_from_the_configuration_is_refused(
    header: dict[str, Any], tmp_path: Path
) -> None:
    with joined(tmp_path, {}, "default") as (it, silo):

        def changed(n: int, right: pb.RoundHeader) -> pb.RoundHeader:
            for name, value in header.items():
                setattr(right, name, value)
            return right

        it.headers = changed
        with pytest.raises(ContradictionError):
            go(silo)
        assert [told.code for told in it.of("Decline")] == ["contradiction"]


def test_a_rule_that_is_made_stricter_meanwhile_holds_for_the_next_round(tmp_path: Path) -> None:
    given = policy_file(tmp_path, "")
    with joined(tmp_path, {"evaluate_every": 0}, given) as (it, silo):

        def stricter(n: int, right: pb.RoundHeader) -> pb.RoundHeader:
            if n == 1:
                given.write_text("min_batch = 17")
            return right

        it.headers = stricter
        with pytest.raises(PolicyError, match="min_batch: batches of 16 samples"):
            go(silo)
        assert len(it.of("SubmitUpdate")) == 1


def test_the_same_model_is_tested_once(tmp_path: Path) -> None:
    with joined(tmp_path, {}, "default") as (it, silo):
        it.headers = _tests
        with pytest.raises(PolicyError, match="model 0 is to be tested a second time"):
            go(silo)
        assert len(it.of("ReportEvaluation")) == 1


def _tests(n: int, right: pb.RoundHeader) -> pb.RoundHeader:
    right.action = pb.EVALUATE
    right.num_steps, right.local_lr = 0, 0.0
    right.evaluate = True
    return right


class Clock:
    """What time it is, for a gate."""

    def __init__(self, now: datetime):
        self.now = now

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Looked at often, and moved by tests."""
    made = Clock(NOON)
    monkeypatch.setattr(gate, "local_now", made)
    monkeypatch.setattr(allowed, "AGAIN_S", 0.05)
    return made


def test_one_update_more_than_a_day_may_have_waits_for_the_next_day(
    tmp_path: Path, clock: Clock
) -> None:
    given = policy_file(tmp_path, "max_rounds_a_day = 2")
    with joined(tmp_path, {"evaluate_every": 0}, given) as (it, silo):

        def tell(request: Any) -> Any:
            notes = " ".join(request.notes)
            if "max_rounds_a_day: 2 have left today" in notes:
                assert len(it.of("SubmitUpdate")) == 2
                clock.now += timedelta(days=1)
            return it.report(request)

        it.answers["Report"] = tell
        assert go(silo) == [0, 1, 2]
        assert clock.now > NOON, "it had to wait"


def test_the_thousand_and_first_update_of_a_day_waits(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "state").mkdir()
    told = '{"day": "2026-01-31", "updates": 999, "tests": 0, "newest": "x"}'
    (tmp_path / "state" / "policy-day.json").write_text(told)
    with joined(tmp_path, {"evaluate_every": 0}, "default") as (it, silo):

        def tell(request: Any) -> Any:
            if "1000 have left today" in " ".join(request.notes):
                assert len(it.of("SubmitUpdate")) == 1
                clock.now += timedelta(days=1)
            return it.report(request)

        it.answers["Report"] = tell
        assert go(silo) == [0, 1, 2]
        assert clock.now > NOON


def test_outside_its_hours_a_silo_waits_and_says_so(tmp_path: Path, clock: Clock) -> None:
    given = policy_file(tmp_path, 'hours = "20:00-06:00"')
    with joined(tmp_path, {"evaluate_every": 0}, given) as (it, silo):

        def tell(request: Any) -> Any:
            if "hours: this silo" in request.not_ready.reason:
                assert not it.of("Enroll")
                clock.now = NOON.replace(hour=20)
            return it.report(request)

        it.answers["Report"] = tell
        assert go(silo) == [0, 1, 2]
        assert clock.now > NOON


# approval


def say(folder: Path, *words: str) -> str:
    given = ["--state-dir", str(folder / "state")]
    done = CliRunner().invoke(app, [*words, *given])
    assert done.exit_code == 0, done.output
    return done.output


def test_a_run_waits_until_it_is_approved(tmp_path: Path) -> None:
    given = policy_file(tmp_path, 'approve = "ask"')
    with joined(tmp_path, {"evaluate_every": 0}, given) as (it, silo):

        def tell(request: Any) -> Any:
            if "domo-client approve" in request.not_ready.reason:
                assert not it.of("Enroll")
                assert f"run {RUN_ID}: " in say(tmp_path, "approve")
                say(tmp_path, "approve", RUN_ID, "--by", "somebody")
            return it.report(request)

        it.answers["Report"] = tell
        assert go(silo) == [0, 1, 2]
        assert say(tmp_path, "approve").strip() == "no run waits to be approved"


def test_a_run_that_is_refused_by_a_person_is_declined(tmp_path: Path) -> None:
    given = policy_file(tmp_path, 'approve = "ask"')
    with joined(tmp_path, {}, given) as (it, silo):

        def tell(request: Any) -> Any:
            if "domo-client approve" in request.not_ready.reason:
                say(tmp_path, "refuse", RUN_ID, "--by", "somebody", "--why", "not before May")
            return it.report(request)

        it.answers["Report"] = tell
        with pytest.raises(PolicyError, match="its operator has refused it"):
            go(silo)
        (told,) = it.of("Decline")
        assert "May" not in told.reason, "why is for this silo's record"


def test_nobody_says_yes_in_time(tmp_path: Path) -> None:
    given = policy_file(tmp_path, 'approve = "ask"\napprove_within_s = 0.3')
    began = time.monotonic()
    with (
        joined(tmp_path, {}, given) as (_, silo),
        pytest.raises(PolicyError, match="nobody at this silo has approved it within"),
    ):
        go(silo)
    assert time.monotonic() - began > 0.3


def test_the_doctor_names_what_the_policy_refuses_of_the_open_run(tmp_path: Path) -> None:
    run = {"task": "digits", "num_rounds": 1, "num_silos": 2, "batch_size": 8}
    with coordinator(tmp_path, run) as server:
        server.until(f"/runs/{server.run_ids[0]}", lambda run: run["state"] == "WAITING")
        given = ["--server", server.address, "--name", "site-a", "--state-dir", str(tmp_path / "s")]
        words = [*given, "--data", str(tmp_path), "--policy", "default", "--json"]
        done = CliRunner().invoke(app, ["doctor", *words])
        assert done.exit_code == 1
        assert "this silo's policy (the default) refuses the run" in done.stdout
        assert "min_batch: batches of 8 samples" in done.stdout
        done = CliRunner().invoke(app, ["doctor", *words[:-2], "open", "--json"])
        assert "policy" not in done.stdout
