"""The best round and early stopping: deployed as simulated; who counts; what silos may send."""

from pathlib import Path
from typing import Any

import pytest
import torch

import domo
from domo.api.client import Coordinator as Client
from domo.model.layout import Section
from domo.model.model_file import load_card, load_model
from domo_server.check import MODELS_OF_A_RUN
from domo_server.results.numbers import latest_metrics
from domo_server.runs.ending import Ending
from tests.support.live.coordinator import coordinator
from tests.support.live.silos import agents, options
from tests.support.played.lab import RUN_ID, SILOS, Lab, life, play
from tests.support.tasks.measured import CLASSES, MeasuredDigits

A, B, C, D = SILOS
TASK = "tests.support.tasks.measured:MeasuredDigits"
NAMES = ["silo-0", "silo-1", "silo-2"]


def settings(folder: Path, **more: Any) -> dict[str, Any]:
    domo.save_initial(MeasuredDigits().build_model(), folder / "x0.safetensors")
    values = {"task": TASK, "num_rounds": 5, "num_silos": 3, "seed": 3, "local_steps": 4}
    return {**values, "initial_model": str(folder / "x0.safetensors"), **more}


def simulated(folder: Path, run: dict[str, Any]) -> domo.SimulationResult:
    given = {k: v for k, v in run.items() if k not in ("task", "num_silos")}
    return domo.simulate(MeasuredDigits(), folder, roster=NAMES, **given)


@pytest.mark.parametrize(
    "more",
    [
        {"primary_metric": "auc"},
        {"primary_metric": "wobble", "primary_better": "lower", "stop_after": 2},
        {"primary_metric": "macro_f1", "stop_after": 1, "stop_min_delta": 0.3},
    ],
    ids=["auc", "the first is the best", "small steps"],
)
def test_a_deployed_run_chooses_and_stops_as_a_simulated_one(
    tmp_path: Path, more: dict[str, Any]
) -> None:
    run = settings(tmp_path, **more)
    result = simulated(tmp_path, run)
    assert result.best_index is not None
    assert (result.stopped is None) == ("stop_after" not in more)

    def of(i: int) -> Any:
        return options(None, TASK, shard=(i, 3))

    with coordinator(tmp_path, {**run, "name": "r"}) as server:
        with agents(server.address, NAMES, tmp_path, of):
            told = server.ended()
        assert told["state"] == "FINISHED", told["detail"]
        assert (told["best_index"], told["best_value"]) == (result.best_index, result.best_value)
        assert told["best_digest"] == result.best_digest
        assert told["primary_metric"] == more["primary_metric"]
        assert told["rounds_done"] == len(result.history) - 1
        assert told["checkpoint_digest"] == result.checkpoint_digest
        assert result.stopped is None or told["detail"] == result.stopped
        points = {p["model_index"]: p["metrics"] for p in told["metrics"]}
        assert points == {r.model_index: r.metrics for r in result.history}

        with Client(server.url, server.token) as client:
            path = client.download_model("1-r", tmp_path, best=True)
            tests, tables = client.tests("1-r"), client.tables("1-r", best=True)
        assert path.name == f"1-r-best-x{result.best_index}.safetensors"
        _, vectors, _ = load_model(path)
        assert torch.equal(vectors[Section.TRAINABLE], result.best_vectors[Section.TRAINABLE])
        card = load_card(path)
        assert card is not None
        assert (card.round_index, card.best_index) == (result.best_index, result.best_index)
        assert card.checkpoint_digest == result.best_digest

        for test, record in zip(tests, result.history, strict=True):
            assert {s.silo_id: s.metrics for s in test.silos} == record.silos
        spread = tests[-1].spread["accuracy"]
        own = {s.silo_id: s.metrics["accuracy"] for s in tests[-1].silos}
        assert (spread.lowest, spread.highest) == (min(own.values()), max(own.values()))
        assert own[spread.worst or ""] == spread.lowest

        assert tables.model_index == result.best_index
        by_name = {t.name: t for t in tables.tables}
        assert sorted(by_name) == ["auc", "calibration", "confusion"]
        matrix = torch.tensor(by_name["confusion"].matrix)
        assert matrix.sum() == tests[0].num_samples
        assert by_name["confusion"].labels == CLASSES
        best = points[result.best_index]
        assert matrix.diag().sum() / matrix.sum() == pytest.approx(best["accuracy"])
        assert by_name["auc"].numbers["auc"] == best["auc"]
        newest = server.get("/runs/1-r/tables")
        assert newest["model_index"] == result.history[-1].model_index

        said = [e["text"] for e in server.get("/events?kind=metric")]
        assert len(said) == 1, said
        assert said[0].startswith("'macro_auc' comes as a mean over batches or silos")
        assert "domo.metrics.auc(labels, logits=...)" in said[0]
        head = server.get_text("/runs/1-r/history.csv").splitlines()[0].split(",")
        assert {"test_auc", "test_f1/digit 3", "silo_test_auc", "silo_test_ece"} <= set(head)
    assert result.history[0].notes == (said[0],)


async def report(lab: Lab, i: int, **values: float) -> None:
    for name, value in values.items():
        numbers = {"accuracy": domo.Sum(10 * value, 10)}
        await lab.run.evaluations.add(f"site-{name}", i, numbers)


async def one_round(lab: Lab, r: int) -> None:
    await lab.send_all(*SILOS)
    await lab.round_open(r + 1)


def test_a_model_that_few_have_tested_is_not_the_best_and_late_numbers_change_no_choice(
    tmp_path: Path,
) -> None:
    async def go() -> None:
        async with life(tmp_path, num_rounds=9, evaluate_every=1) as lab:
            for name in SILOS:
                await lab.enroll(name, num_tests=10)
            await lab.round_open(0)
            await report(lab, 0, a=0.5, b=0.5, c=0.5, d=0.5)
            await one_round(lab, 0)
            await report(lab, 1, a=1.0)  # the others are slow: it waits for them for a round
            await one_round(lab, 1)
            judged = [j.model_index for j in lab.store.judgements_of(RUN_ID)]
            assert judged == [0]
            await report(lab, 2, a=0.6, b=0.6, c=0.6, d=0.6)
            await one_round(lab, 2)
            run = await lab.view.run(RUN_ID)
            assert run is not None
            assert [j.model_index for j in lab.store.judgements_of(RUN_ID)] == [0, 1, 2]
            assert (run.best_index, run.best_value) == (2, 0.6)
            await report(lab, 1, b=1.0, c=1.0, d=1.0)
            await report(lab, 3, a=0.1, b=0.1, c=0.1, d=0.1)
            await one_round(lab, 3)
            run = await lab.view.run(RUN_ID)
            assert run is not None
            assert (run.best_index, run.best_value) == (2, 0.6)
            assert [p.metrics["accuracy"] for p in run.metrics] == [0.5, 1.0, 0.6, 0.1]
            assert latest_metrics(run.metrics)["accuracy"] == 0.1
            checkpoints = lab.run.folder / "checkpoints"
            assert [p.name for p in checkpoints.glob("best-*")] == ["best-000002.safetensors"]
            best = await lab.view.model_file(RUN_ID, "best")
            newest = await lab.view.model_file(RUN_ID)
            assert best is not None
            assert newest is not None
            assert best.exists()
            assert newest.exists()
            assert best != newest

    play(go())


def test_a_run_that_may_stop_early_waits_for_the_tests_but_not_for_ever(tmp_path: Path) -> None:
    async def go() -> None:
        more = {"num_rounds": 9, "evaluate_every": 1, "stop_after": 1}
        async with life(tmp_path, evaluation_deadline_s=20.0, **more) as lab:
            for name in SILOS:
                await lab.enroll(name, num_tests=10)
            await lab.round_open(0)
            await report(lab, 0, a=0.5, b=0.5, c=0.5)
            await lab.send_all(*SILOS)
            await lab.until(lambda: lab.run.detail == "testing the model at site-d")
            await report(lab, 0, d=0.5)
            await lab.round_open(1)
            await report(lab, 1, a=0.6, b=0.6, c=0.6)
            await lab.send_all(*SILOS)
            await lab.until(lambda: "site-d" in lab.run.detail)
            lab.pass_time(21.0)
            await lab.round_open(2)
            await report(lab, 2, a=0.4, b=0.4, c=0.4, d=0.4)
            run = await lab.ended()
            assert run.state == "FINISHED"
            assert run.detail == (
                "stopped early after round 2: accuracy did not improve for 1 test; "
                "best was the initial model"
            )
            assert (run.rounds_done, run.best_index) == (2, 0)
            best = await lab.view.model_file(RUN_ID, "best")
            assert best is not None
            assert best.name == "best.safetensors"

    play(go())


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (
            {"primary_metric": "auc", "stop_after": 1},
            "no silo measures auc, which the run is judged by, but accuracy: no model is marked as "
            "the best, and stop_after does not end the run",
        ),
        ({}, ""),
    ],
)
def test_what_nobody_measures_is_said(tmp_path: Path, more: dict[str, Any], text: str) -> None:
    async def go() -> None:
        async with life(tmp_path, num_rounds=4, evaluate_every=1, **more) as lab:
            for name in SILOS:
                await lab.enroll(name, num_tests=10)
            await lab.round_open(0)
            for i in range(2):
                await report(lab, i, a=0.5, b=0.5, c=0.5, d=0.5)
                await one_round(lab, i)
            assert await lab.events("metric") == ([text] if text else [])

    play(go())


def test_tables_of_a_silo_that_is_left_out_give_way_to_those_of_the_others(tmp_path: Path) -> None:
    async def go() -> None:
        async with life(tmp_path, num_rounds=4, evaluate_every=1) as lab:
            for name in SILOS:
                await lab.enroll(name, num_tests=2)
            await lab.round_open(0)

            async def counts(name: str, *classes: str) -> str:
                table = domo.metrics.confusion([0, 1], predictions=[0, 1], classes=classes)
                return await lab.run.evaluations.add(name, 0, {"confusion": table})

            await counts(A, "ape", "dog")
            assert "ape, cat cannot be added" in await counts(B, "ape", "cat")
            await lab.view.drop(A, "it counts other classes")
            for name in (B, C, D):
                await counts(name, "ape", "cat")
            tables = await lab.view.tables(RUN_ID)
            assert tables is not None
            assert [list(t.labels) for t in tables.tables] == [["ape", "cat"]]
            await lab.send_all(B, C, D)
            await lab.round_open(1)
            (point,) = (await lab.view.run(RUN_ID)).metrics  # type: ignore[union-attr]
            assert (point.num_silos, point.num_samples) == (3, 6.0)
        async with life(tmp_path, num_rounds=4, evaluate_every=1) as lab:
            (judged,) = lab.store.judgements_of(RUN_ID)
            assert (judged.value, judged.num_silos) == (1.0, 3)

    play(go())


def test_a_run_takes_no_more_room_than_the_check_reckons_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = torch.nn.Linear(400, 100)
    domo.save_initial(model, tmp_path / "x0.safetensors")
    size = sum(4 * p.numel() for p in model.parameters())
    taken = []

    def look(ending: Ending) -> None:
        folder = ending._run.folder
        found = [f.stat() for f in folder.rglob("*") if f.is_file() and "spool" not in f.parts]
        taken.append(sum({f.st_ino: f.st_size for f in found}.values()))
        tidy(ending)

    tidy = Ending._tidy
    monkeypatch.setattr(Ending, "_tidy", look)

    async def go() -> None:
        async with life(tmp_path, num_rounds=6, evaluate_every=1) as lab:
            for name in SILOS:
                await lab.enroll(name, num_tests=10)
            await lab.round_open(0)
            for i in range(6):
                await report(lab, i, a=1 / (1 + i), b=0.0, c=0.0, d=0.0)
                await lab.send_all(*SILOS)
                await lab.until(lambda: lab.run.state.round_index > i)  # noqa: B023
            await lab.view.model_file(RUN_ID)
            await lab.view.model_file(RUN_ID, "best")
            await report(lab, 6, a=0.0, b=0.0, c=0.0, d=0.0)
            await lab.ended()

    play(go())
    assert MODELS_OF_A_RUN - 1.5 < taken[0] / size < MODELS_OF_A_RUN


def test_one_silo_with_another_meaning_of_a_name_costs_the_others_no_round(tmp_path: Path) -> None:
    """A silo whose report is refused has a failed round."""
    table = domo.metrics.confusion([0, 1], predictions=[0, 1], classes=("ape", "dog"))

    async def go() -> None:
        async with life(tmp_path, num_rounds=2, evaluate_every=1) as lab:
            for name in SILOS:
                await lab.enroll(name, num_tests=2)
            await lab.round_open(0)
            add = lab.run.evaluations.add
            await add(A, 0, {"loss": table})
            mine = {"loss": domo.Sum(1.0, 2.0), "accuracy": domo.Sum(1.0, 2.0)}
            assert "it is a table at other silos, and a sum here" in await add(B, 0, mine)
            for name in (C, D, B):
                assert await add(name, 0, mine) == ""
            assert "it is a sum at other silos" in await add(A, 0, {"loss": table})
            (point,) = (await lab.view.run(RUN_ID)).metrics  # type: ignore[union-attr]
            assert point.metrics == {"accuracy": 0.5, "loss": 0.5}
            texts = await lab.events("metric")
            assert any(t.startswith("metric 'loss' of site-a: it is a sum at other") for t in texts)
            assert texts[0].endswith("and a sum here; it is left out (others: site-a)")

    play(go())


def test_a_number_of_one_silo_alone_is_not_what_a_run_is_judged_by(tmp_path: Path) -> None:
    async def go() -> None:
        async with life(tmp_path, num_rounds=2, evaluate_every=1) as lab:
            for name in SILOS:
                await lab.enroll(name, num_tests=2)
            await lab.round_open(0)
            for name in SILOS:
                alone = {"accuracy": domo.Sum(2.0, 2.0)} if name == A else {}
                mine = {"loss": domo.Sum(1.0, 2.0), **alone}
                await lab.run.evaluations.add(name, 0, mine)
            await lab.send_all(*SILOS)
            await lab.round_open(1)
            (judged,) = lab.store.judgements_of(RUN_ID)
            assert (judged.metric, judged.value) == ("loss", 0.5)

    play(go())


def test_where_two_measure_different_things_nothing_is_judged_and_that_is_said(
    tmp_path: Path,
) -> None:
    async def go() -> None:
        async with life(tmp_path, roster=[A, B], num_rounds=2, evaluate_every=1) as lab:
            for name in (A, B):
                await lab.enroll(name, num_tests=2)
            await lab.round_open(0)
            await lab.run.evaluations.add(A, 0, {"accuracy": domo.Sum(2.0, 2.0)})
            await lab.run.evaluations.add(B, 0, {"loss": domo.Sum(2.0, 2.0)})
            await lab.send_all(A, B)
            await lab.round_open(1)
            (judged,) = lab.store.judgements_of(RUN_ID)
            assert (judged.metric, judged.value) == (None, None)
            (text,) = await lab.events("metric")
            assert text.startswith("no number is measured by most silos (accuracy, loss): no model")

    play(go())
