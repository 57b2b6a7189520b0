"""The loop API against a real coordinator: what each way to go through a round does."""

import json
import logging
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import domo_client
from domo.errors import (
    ConfigError,
    IncompleteRoundError,
    LayoutMismatchError,
    RoundError,
    StrayParameterError,
)
from domo.model.flat import FlatModel
from domo.tasks.base import ArrayDataset
from domo.training.local_round import LocalRound
from domo.training.round_data import RoundNumbers
from domo_client.loop import rounds
from domo_client.loop.heartbeat import Progress
from domo_client.loop.outcome import Outcome
from domo_client.loop.rounds import Rounds
from domo_client.loop.silo import Silo
from domo_server.results.evaluations import Evaluations
from tests.support.live.coordinator import Coordinator, coordinator, own_run

INPUTS = torch.tensor([[1.0, 2.0], [0.5, -1.0], [-2.0, 0.25], [1.5, 1.0]])
DATA = ArrayDataset(INPUTS, INPUTS.sum(1, keepdim=True))


def model() -> nn.Module:
    return nn.Linear(2, 1)


def join(server: Coordinator, folder: Path, name: str = "site-a", **given: Any) -> Silo:
    return domo_client.connect(server.address, name, state_dir=folder / f"state-{name}", **given)


def train(rnd: LocalRound) -> int:
    """The loop of the documentation; returns the number of batches."""
    opt, batches = rnd.optimizer(), 0
    for inputs, targets in rnd.batches(DATA):
        batches += 1
        (rnd.model(inputs) - targets).square().mean().backward()
        opt.step()
        opt.zero_grad()
    return batches


def go(server: Coordinator, folder: Path, body: Callable[[LocalRound], Any]) -> None:
    """A run at one silo, with `body` in the loop over its rounds."""
    with join(server, folder) as silo:
        for rnd in silo.rounds(model()):
            body(rnd)


def step(rnd: LocalRound, inputs: torch.Tensor) -> None:
    rnd.model(inputs).sum().backward()
    rnd.optimizer().step()


def squares(module: nn.Module, batch: Any) -> dict[str, tuple[float, float]]:
    inputs, targets = batch
    return {"loss": (float((module(inputs) - targets).square().sum()), len(inputs))}


def unsent(server: Coordinator) -> None:
    """No update has come, and the run waits for the silo."""
    run = server.run()
    assert (run["state"], run["rounds_done"], run["waiting_for"]) == ("OPEN", 0, ["site-a"])
    spool = server.state_dir / "runs" / run["run_id"] / "spool"
    assert not list(spool.rglob("*.*"))


def test_log_lines_leave_the_site_only_where_that_is_wanted(tmp_path: Path) -> None:
    def says(log: Any) -> bool:
        return any("finished" in line["text"] for line in log["lines"])

    run = own_run(tmp_path, nn.Linear(2, 1), num_rounds=1, evaluate_every=0)
    with coordinator(tmp_path, run) as server, join(server, tmp_path, "site-b"):
        with join(server, tmp_path, share_log=True) as silo:
            for rnd in silo.rounds(model(), samples=4):
                logging.getLogger("my_task").error("patient 7")
                train(rnd)
            log = server.until("/silos/site-a/log", says)
        silent = server.get("/silos/site-b/log")
    assert (silent["shared"], silent["lines"]) == (False, [])
    texts = [line["text"] for line in log["lines"]]
    run_id = server.run_ids[0]
    assert texts[0].startswith(f"joined {server.address}")
    assert texts[1:3] == [f"run {run_id}: enrolled with 4 samples", "round 1 of 1: 1 steps"]
    assert re.fullmatch(r"round 1: accepted, \d+\.\d s", texts[3])
    assert texts[4] == f"run {run_id}: finished: all 1 rounds are committed"
    assert "patient 7" not in str(log)


def test_the_heartbeat_tells_the_time_of_the_steps_after_the_first(tmp_path: Path) -> None:
    run = own_run(tmp_path, model(), num_rounds=1, local_steps=3, evaluate_every=0)
    told = []
    with coordinator(tmp_path, run) as server, join(server, tmp_path) as silo:
        for rnd in silo.rounds(model(), samples=4):
            opt = rnd.optimizer()
            for i, (inputs, _) in enumerate(rnd.batches(DATA)):
                told.append(silo.progress.longest_step_s)
                rnd.model(inputs).sum().backward()
                time.sleep(0.6 if i < 2 else 0.05)  # the first step has two batches
                if i:
                    opt.step()
                    opt.zero_grad()
            told.append(silo.progress.longest_step_s)
    assert told[:3] == [None] * 3
    assert told[3] is not None
    assert 0.05 <= told[3] < 0.55, "neither the first step nor a batch of it"
    assert len(told) == 5
    assert told[4] >= told[3]


def test_what_a_loop_logs_is_where_the_documentation_says(tmp_path: Path) -> None:
    """Of each silo and as means, by name, in REST and CSV; not on the dashboard alone."""
    with coordinator(tmp_path, own_run(tmp_path, model(), num_rounds=2)) as server:

        def body(rnd: LocalRound) -> None:
            train(rnd)
            rnd.log(loss=7.5, grad_norm=2.0)

        go(server, tmp_path, body)
        records = server.rounds()
        header, first = server.get_text(f"/runs/{server.run_ids[0]}/history.csv").splitlines()[:2]
    for record in records:
        assert record["train_metrics"] == {"loss": 7.5, "grad_norm": 2.0}
        (part,) = record["participants"]
        assert part["metrics"] == {"loss": 7.5, "grad_norm": 2.0}
    columns = dict(zip(header.split(","), first.split(","), strict=True))
    assert float(columns["round_train_grad_norm"]) == 2.0
    text = (Path(__file__).parents[2] / "docs" / "bring-your-model.md").read_text()
    (row,) = [line for line in text.splitlines() if line.startswith("| `rnd.log(")]
    assert "`metrics`" in row
    assert "`train_metrics`" in row


def test_a_run_makes_exactly_p_steps_in_each_round_and_tests_every_model(tmp_path: Path) -> None:
    run = own_run(tmp_path, model(), num_rounds=3, local_steps=5)
    seen, local = [], []
    with coordinator(tmp_path, run) as server:
        with join(server, tmp_path) as silo:
            for rnd in silo.rounds(model(), samples=4):
                local.append(rnd.evaluate(squares, [DATA[0:4]])["loss"])
                seen.append((rnd.round_index, rnd.num_steps, train(rnd)))
                rnd.log(loss=7.5)
            assert silo.outcome == Outcome(
                "1-domo-own.loop", "FINISHED", "all 3 rounds are committed", 3
            )
        ended = server.run()
        records = server.rounds()
    assert seen == [(0, 5, 5), (1, 5, 5), (2, 5, 5), (3, 0, 0)]
    assert [p["model_index"] for p in ended["metrics"]] == [0, 1, 2, 3]
    assert [p["metrics"]["loss"] for p in ended["metrics"]] == local
    assert [p["num_samples"] for p in ended["metrics"]] == [4.0] * 4
    assert local[3] < local[0]
    assert [r["train_loss"] for r in records] == [7.5] * 3
    assert [r["participants"][0]["num_steps"] for r in records] == [5] * 3
    assert ended["complete"] is True


def test_a_silo_says_which_model_it_is_through_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[int, str, str]] = []
    real = Evaluations.note_tested

    def note(self: Evaluations, silo_id: str, model_index: int, tested: str = "") -> None:
        told.append((model_index, tested, self.model_digests[model_index]))
        real(self, silo_id, model_index, tested)

    monkeypatch.setattr(Evaluations, "note_tested", note)
    with coordinator(tmp_path, own_run(tmp_path, nn.BatchNorm1d(2), task="own:Norm")) as server:
        with join(server, tmp_path) as silo:
            for rnd in silo.rounds(nn.BatchNorm1d(2)):
                for inputs, _ in rnd.batches(DATA):
                    step(rnd, inputs)
        assert server.ended()["state"] == "FINISHED"
    assert {index for index, _, _ in told} == {0, 1, 2}
    assert all(tested == known for _, tested, known in told)


def test_a_loop_that_never_tests_is_not_waited_for(tmp_path: Path) -> None:
    run = own_run(tmp_path, model(), num_rounds=1, evaluation_deadline_s=1e6)
    with coordinator(tmp_path, run) as server, join(server, tmp_path) as silo:
        for rnd in silo.rounds(model()):
            train(rnd)
        assert silo.outcome is not None
        assert silo.outcome.state == "FINISHED"
        assert server.run()["metrics"] == []


def test_break_in_the_batch_loop_sends_nothing(tmp_path: Path) -> None:
    def body(rnd: LocalRound) -> None:
        for inputs, _ in rnd.batches(DATA):
            step(rnd, inputs)
            break

    with coordinator(tmp_path, own_run(tmp_path, model(), local_steps=3)) as server:
        with pytest.raises(IncompleteRoundError, match="left after 1 of 3 local steps") as caught:
            go(server, tmp_path, body)
        assert (caught.value.done, caught.value.wanted) == (1, 3)
        unsent(server)
        text = "round 1 was left after 1 of 3 local steps; nothing was sent"
        status = server.silo("site-a")
        assert (status["phase"], status["error"]) == ("offline", text)


def test_too_few_batches_are_too_few_steps(tmp_path: Path) -> None:
    def body(rnd: LocalRound) -> None:
        for inputs, _ in rnd.batches(DATA, plan=[[0], [1]]):
            step(rnd, inputs)

    with coordinator(tmp_path, own_run(tmp_path, model(), local_steps=3)) as server:
        with pytest.raises(IncompleteRoundError, match="2 of 3 local steps"):
            go(server, tmp_path, body)
        unsent(server)


def test_a_body_that_does_nothing_is_incomplete(tmp_path: Path) -> None:
    with coordinator(tmp_path, own_run(tmp_path, model(), local_steps=3)) as server:
        with pytest.raises(IncompleteRoundError, match="0 of 3 local steps"):
            go(server, tmp_path, lambda rnd: None)
        unsent(server)


def test_too_many_steps_are_refused_too(tmp_path: Path) -> None:
    def body(rnd: LocalRound) -> None:
        for inputs, _ in rnd.batches(DATA):
            step(rnd, inputs)
            step(rnd, inputs)

    with coordinator(tmp_path, own_run(tmp_path, model(), local_steps=3)) as server:
        with pytest.raises(RoundError, match="wants 3 local steps and 4 were made"):
            go(server, tmp_path, body)
        unsent(server)


def test_a_forgotten_step_is_noticed(tmp_path: Path) -> None:
    def body(rnd: LocalRound) -> None:
        for inputs, _ in rnd.batches(DATA):
            rnd.model(inputs).sum().backward()

    with coordinator(tmp_path, own_run(tmp_path, model())) as server:
        with pytest.raises(RoundError, match=r"opt\.step\(\) was not called for 256 batches"):
            go(server, tmp_path, body)
        unsent(server)


def test_break_of_the_outer_loop_leaves_quietly_and_the_silo_may_come_back(tmp_path: Path) -> None:
    with coordinator(tmp_path, own_run(tmp_path, model())) as server:
        with join(server, tmp_path) as silo:
            for rnd in silo.rounds(model()):
                rnd.optimizer()
                break
            assert silo.outcome is None
        status = server.silo("site-a")
        assert (status["phase"], status["error"]) == ("offline", None)
        unsent(server)
        assert not [e for e in server.get("/events") if e["kind"] == "silo-failed"]
        with join(server, tmp_path) as silo:
            for rnd in silo.rounds(model()):
                train(rnd)
            assert silo.outcome is not None
            assert silo.outcome.state == "FINISHED"


def test_an_exception_in_the_body_is_reported_and_raised(tmp_path: Path) -> None:
    def body(rnd: LocalRound) -> None:
        for _ in rnd.batches(DATA):
            raise ValueError("a scan is upside down")

    with coordinator(tmp_path, own_run(tmp_path, model(), local_steps=3)) as server:
        with pytest.raises(ValueError, match="a scan is upside down"):
            go(server, tmp_path, body)
        unsent(server)
        text = server.silo("site-a")["error"]
        assert text.startswith("ValueError, in test_loop_api.py, line ")
        assert "upside" not in text
        events = [e["text"] for e in server.get("/events") if e["kind"] == "silo-failed"]
        assert events == [f"site-a failed in round 1: {text}"]


def test_a_round_for_which_memory_is_short_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short, waited = [RuntimeError("can't allocate memory")], []

    def make(flat: FlatModel, numbers: RoundNumbers, *args: Any, **given: Any) -> LocalRound:
        if numbers.round_index == 1 and short:
            raise short.pop()
        return LocalRound(flat, numbers, *args, **given)

    def back_off(of: Rounds) -> None:
        waited.append(of._reporter.progress)

    monkeypatch.setattr(rounds, "LocalRound", make)
    monkeypatch.setattr(Rounds, "_back_off", back_off)

    def body(rnd: LocalRound) -> None:
        train(rnd)
        rnd.log(loss=7.5)

    with coordinator(tmp_path, own_run(tmp_path, model(), num_rounds=2)) as server:
        go(server, tmp_path, body)
        assert server.run()["state"] == "FINISHED"
        events = [e["text"] for e in server.get("/events") if e["kind"] == "silo-failed"]
    assert len(events) == 1
    assert events[0].startswith("site-a failed in round 2: memory is short, in test_loop_api.py")
    assert waited == [Progress("waiting", "1-domo-own.loop", round_index=1, loss=7.5)]


def test_an_update_without_room_is_not_called_kept_and_goes_with_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unsaved = []

    def room(failure: Exception | str = "") -> None:
        if failure:
            unsaved.append(silo.has_unsaved)
            full.unlink()

    run = own_run(tmp_path, model(), num_rounds=1)
    with coordinator(tmp_path, run) as server, join(server, tmp_path) as silo:
        full = tmp_path / "state-site-a" / "pending.bin"
        full.symlink_to("/dev/full")
        monkeypatch.setattr(silo._reporter, "beat", room)
        silo.on_sent = lambda *_: unsaved.append(silo.has_unsaved)
        for rnd in silo.rounds(model()):
            train(rnd)
        assert silo.outcome is not None
        assert silo.outcome.state == "FINISHED"
    assert unsaved == [True, False]
    assert not list(full.parent.glob("pending.*"))


def flip(path: Path, name: str) -> None:
    """Change a bit of a tensor in a safetensors file."""
    with path.open("r+b") as f:
        size = int.from_bytes(f.read(8), "little")
        f.seek(8 + size + json.loads(f.read(size))[name]["data_offsets"][0])
        (byte,) = f.read(1)
        f.seek(-1, 1)
        f.write(bytes([byte ^ 1]))


def test_a_model_that_is_damaged_at_the_coordinator_is_on_its_page(tmp_path: Path) -> None:
    told = []

    def mend(text: str) -> None:
        silo._note_damage(text)
        told.append(server.silo("site-a")["error"])
        flip(x_0, "x")

    with coordinator(tmp_path, own_run(tmp_path, model(), num_rounds=2)) as server:
        with join(server, tmp_path) as silo:
            silo.connection.data.vectors.on_damage = mend
            for rnd in silo.rounds(model()):
                train(rnd)
                if rnd.round_index == 0:  # x_0 has to come again, as x_{r-1} of the next round
                    (x_0,) = server.state_dir.glob("runs/*/checkpoints/x000000.safetensors")
                    flip(x_0, "x")
                    silo.connection.data.vectors._memory.clear()
                    silo._state.keep_only([])
        assert server.run()["state"] == "FINISHED"
    text = "X_PREV of round 2 has come 2 times and does not fit its digest"
    assert told == [f"{text}: its file may be damaged at the coordinator"]


def test_gradient_accumulation(tmp_path: Path) -> None:
    batches = 0
    with (
        coordinator(tmp_path, own_run(tmp_path, model(), local_steps=3)) as server,
        join(server, tmp_path) as silo,
    ):
        for rnd in silo.rounds(model()):
            opt = rnd.optimizer()
            for i, (inputs, _) in enumerate(rnd.batches(DATA)):
                batches += 1
                (rnd.model(inputs).sum() / 2).backward()
                if i % 2:
                    opt.step()
                    opt.zero_grad()
        assert [r["participants"][0]["num_steps"] for r in server.rounds()] == [3, 3]
    assert batches == 2 * 6


def replace_weight(module: nn.Module) -> None:
    module.weight = nn.Parameter(module.weight.detach().clone())


def move_weight(module: nn.Module) -> None:
    module.weight.data = module.weight.data.clone()


@pytest.mark.parametrize("change", [replace_weight, move_weight])
@pytest.mark.parametrize("when", ["before the optimizer", "in the batch loop"])
def test_parameters_that_left_the_vector_are_named(
    change: Callable[[nn.Module], None], when: str, tmp_path: Path
) -> None:
    def body(rnd: LocalRound) -> None:
        if when == "before the optimizer":
            change(rnd.model)
        for inputs, _ in rnd.batches(DATA):
            step(rnd, inputs)
            change(rnd.model)

    with coordinator(tmp_path, own_run(tmp_path, model())) as server:
        with pytest.raises(StrayParameterError, match=r"handed over: weight\. Move the") as caught:
            go(server, tmp_path, body)
        assert caught.value.names == ("weight",)
        unsent(server)


def test_parameters_without_gradient_stay(tmp_path: Path) -> None:
    class TwoHeads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.unused = nn.Linear(2, 1), nn.Linear(2, 1)

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return self.used(inputs)

    x0, mine = TwoHeads(), TwoHeads()
    with (
        coordinator(tmp_path, own_run(tmp_path, x0)) as server,
        join(server, tmp_path) as silo,
    ):
        for rnd in silo.rounds(mine):
            train(rnd)
        assert len(server.rounds()) == 2
    assert torch.equal(mine.unused.weight, x0.unused.weight)
    assert not torch.equal(mine.used.weight, x0.used.weight)


def test_evaluate_belongs_before_the_batches(tmp_path: Path) -> None:
    def body(rnd: LocalRound) -> None:
        train(rnd)
        rnd.evaluate(squares, [DATA[0:4]])

    with (
        coordinator(tmp_path, own_run(tmp_path, model())) as server,
        pytest.raises(RoundError, match="before the batch loop: the model is not x_r now"),
    ):
        go(server, tmp_path, body)


def test_a_run_that_counts_samples_asks_for_them(tmp_path: Path) -> None:
    run = own_run(tmp_path, model(), weights="samples")
    with coordinator(tmp_path, run) as server:
        with pytest.raises(ConfigError, match=r"pass samples=len\(dataset\) to rounds\(\)"):
            go(server, tmp_path, train)
        assert server.run()["state"] == "WAITING"


def test_another_model_is_refused_by_name(tmp_path: Path) -> None:
    with coordinator(tmp_path, own_run(tmp_path, model())) as server:
        with (
            pytest.raises(LayoutMismatchError, match="weight: the run has float32") as caught,
            join(server, tmp_path) as silo,
        ):
            next(iter(silo.rounds(nn.Linear(3, 1))))
        assert caught.value.differences == (
            "weight: the run has float32[1, 2] (trainable), this silo has float32[1, 3] "
            "(trainable)",
        )
        assert server.run()["state"] == "WAITING"


def test_a_stop_ends_local_training_within_seconds(tmp_path: Path) -> None:
    run = own_run(tmp_path, model(), local_steps=10_000_000)
    training = threading.Event()
    ended: list[tuple[Outcome | None, float]] = []
    with coordinator(tmp_path, run) as server:

        def loop() -> None:
            with join(server, tmp_path) as silo:
                for rnd in silo.rounds(model()):
                    opt = rnd.optimizer()
                    for inputs, _ in rnd.batches(DATA):
                        rnd.model(inputs).sum().backward()
                        opt.zero_grad()  # the gradient is 0: the model stays finite
                        opt.step()
                        training.set()
                ended.append((silo.outcome, time.monotonic()))

        thread = threading.Thread(target=loop, daemon=True)
        thread.start()
        assert training.wait(60)
        asked = time.monotonic()
        server.post(f"/runs/{server.run_ids[0]}/stop")
        thread.join(60)
        assert ended, "the loop goes on"
        (outcome, at), run = ended[0], server.run()
        assert outcome == Outcome(run["run_id"], "STOPPED", "stopped by the admin", 0)
        assert at - asked < 30
        assert (run["state"], run["detail"]) == ("STOPPED", "stopped by the admin")


def in_threads(*loops: Callable[[], None]) -> None:
    """Run loops side by side; what one raises fails the test."""
    errors: list[BaseException] = []

    def guarded(loop: Callable[[], None]) -> None:
        try:
            loop()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(loop,), daemon=True) for loop in loops]
    for t in threads:
        t.start()
    for t in threads:
        t.join(100)
        assert not t.is_alive(), "a loop does not end"
    assert not errors, errors


def test_a_silo_that_is_not_sampled_only_tests(tmp_path: Path) -> None:
    run = own_run(
        *(tmp_path, model()),
        num_rounds=3,
        num_silos=None,
        roster=["site-a", "site-b"],
        participants=[["site-a"], ["site-b"], ["site-a", "site-b"]],
        local_steps=2,
    )
    seen: dict[str, list[tuple[int, int]]] = {"site-a": [], "site-b": []}
    with coordinator(tmp_path, run) as server:

        def loop(name: str) -> None:
            with join(server, tmp_path, name) as silo:
                for rnd in silo.rounds(model()):
                    rnd.evaluate(squares, [DATA[0:4]])
                    seen[name].append((rnd.round_index, train(rnd)))

        in_threads(lambda: loop("site-a"), lambda: loop("site-b"))
        run = server.run()
        taken = [[p["silo_id"] for p in r["participants"]] for r in server.rounds()]
    trained = {name: [s for s in rounds if s[1]] for name, rounds in seen.items()}
    assert trained == {"site-a": [(0, 2), (2, 2)], "site-b": [(1, 2), (2, 2)]}
    assert taken == [["site-a"], ["site-b"], ["site-a", "site-b"]]
    assert seen["site-a"][-1] == seen["site-b"][-1] == (3, 0)
    assert run["metrics"][3]["num_silos"] == 2


def test_an_abandoned_round_ends_its_loop_and_the_next_one_comes(tmp_path: Path) -> None:
    run = own_run(
        *(tmp_path, model()),
        num_silos=None,
        roster=["fast", "slow"],
        on_missing="proceed",
        min_silos=1,
        local_steps_list=[{"fast": 1, "slow": 10_000_000}, {"fast": 1, "slow": 1}],
    )
    begun = threading.Event()
    seen: list[tuple[int, bool]] = []
    with coordinator(tmp_path, run) as server:

        def fast() -> None:
            with join(server, tmp_path, "fast") as silo:
                for rnd in silo.rounds(model(), eval_samples=0):
                    assert begun.wait(60)
                    train(rnd)

        def slow() -> None:
            with join(server, tmp_path, "slow") as silo:
                for rnd in silo.rounds(model()):
                    opt = rnd.optimizer()
                    for inputs, _ in rnd.batches(DATA):
                        rnd.model(inputs).sum().backward()
                        opt.zero_grad()
                        opt.step()
                        begun.set()
                    seen.append((rnd.round_index, rnd.abandoned))

        in_threads(fast, slow)
        records, run = server.rounds(), server.run()
    assert seen[0] == (0, True)
    assert run["state"] == "FINISHED"
    assert [p["silo_id"] for p in records[0]["participants"]] == ["fast"]
    assert records[0]["left_out"] == {"slow": "no update in time"}
    assert run["complete"] is False


def test_an_evaluator_tests_every_model_and_is_on_no_roster(tmp_path: Path) -> None:
    evaluator_in = threading.Event()
    seen: list[tuple[int, int]] = []
    with coordinator(tmp_path, own_run(tmp_path, model(), evaluators=["central"])) as server:

        def trainer() -> None:
            with join(server, tmp_path, "trainer") as silo:
                assert evaluator_in.wait(60)
                for rnd in silo.rounds(model(), eval_samples=0):
                    train(rnd)

        def evaluator() -> None:
            with join(server, tmp_path, "central", role="evaluator") as silo:
                evaluator_in.set()
                for rnd in silo.rounds(model(), eval_samples=4):
                    rnd.evaluate(squares, [DATA[0:4]])
                    seen.append((rnd.round_index, rnd.num_steps))

        in_threads(trainer, evaluator)
        run = server.run()
    assert run["roster"] == ["trainer"]
    assert seen[-1] == (2, 0)
    assert not any(steps for _, steps in seen)
    assert run["metrics"][-1]["model_index"] == 2
    assert run["metrics"][-1]["num_samples"] == 4
