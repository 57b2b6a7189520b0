"""Ten federations with one silo that means something else, and what else there is to agree on."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import domo
import domo_client
from domo import ArrayDataset, MeaningMismatchError
from tests.support.live.coordinator import Coordinator, coordinator, own_run
from tests.support.live.doctored import doctor
from tests.support.live.silos import Agent, options
from tests.support.tasks.scans import about

SCANS, PLAIN = "tests.support.tasks.scans:Scans", "tests.support.tasks.scans:Plain"
FOLDER = "imagefolder:3"
NAMES = ("airplane", "bird", "cat")


def pictures(folder: Path, *names: str, listed: tuple[str, ...] = ()) -> Path:
    """A folder of images with a few of each class."""
    source = np.random.default_rng(len(names))
    for part, n in (("train", 4), ("test", 2)):
        for name in names:
            (folder / part / name).mkdir(parents=True)
            for i in range(n):
                pixels = source.integers(0, 256, (32, 32, 3), np.uint8)
                Image.fromarray(pixels).save(folder / part / name / f"{i}.png")
    if listed:
        (folder / "classes.txt").write_text("\n".join(listed), "utf-8")
    return folder


class Case(NamedTuple):
    """A federation: the run, the data of a good silo and of the other, and what is said to that."""

    task: str
    good: Callable[[Path], Path]
    other: Callable[[Path], Path]
    text: str
    settings: Mapping[str, Any] = MappingProxyType({})
    doctor: str = ""
    """What the silo's own doctor says, where that names more than leaves the silo."""


def scans(**said: Any) -> Callable[[Path], Path]:
    return lambda folder: about(folder, **said)


def images(*names: str, listed: tuple[str, ...] = ()) -> Callable[[Path], Path]:
    return lambda folder: pictures(folder, *names, listed=listed)


TEN = {
    "class renamed": Case(
        FOLDER,
        images(*NAMES),
        images("bird", "cat", "plane"),
        "the names of the classes differ, plane is no class, airplane is wanted: its classes are "
        "bird (0), cat (1), plane (2); wanted are airplane (0), bird (1), cat (2). Number the "
        "classes as wanted: rename the folders, or list all wanted names in their order",
    ),
    "order": Case(
        FOLDER,
        images(*NAMES),
        images(*NAMES, listed=("cat", "bird", "airplane")),
        "the order of the classes differs, 0 is cat where airplane is wanted: its classes are "
        "cat (0), bird (1), airplane (2); wanted are airplane (0), bird (1), cat (2)",
    ),
    "one class more": Case(
        SCANS,
        scans(),
        scans(classes=["cyst", "healthy", "oedema", "tumour"]),
        "it has 4 classes, wanted are 3, oedema is too many: its classes are cyst (0), healthy "
        "(1), oedema (2), tumour (3); wanted are cyst (0), healthy (1), tumour (2)",
    ),
    "BGR": Case(SCANS, scans(), scans(channels="BGR"), "the channels are BGR, wanted is RGB"),
    "0..255 against 0..1": Case(
        PLAIN,
        scans(),
        scans(scale=255.0),
        "the numbers that the model gets are 0..255, wanted are 0..1. Read the data as the other",
    ),
    "size": Case(
        PLAIN,
        scans(),
        scans(size=32),
        "an input has the shape 3 x 32 x 32, wanted is 3 x 16 x 16",
    ),
    "channels": Case(
        PLAIN,
        scans(),
        scans(num_channels=1),
        "an input has the shape 1 x 16 x 16, wanted is 3 x 16 x 16",
    ),
    "other normalisation": Case(
        SCANS,
        scans(),
        scans(mean=[0.485, 0.456, 0.406]),
        "the normalisation is mean 0.485, 0.456, 0.406, std 0.25, 0.25, 0.25, wanted is mean 0.5, "
        "0.5, 0.5, std 0.25, 0.25, 0.25",
    ),
    "other version of the task": Case(
        SCANS,
        scans(),
        scans(version="2"),
        "the version of the task is '2', wanted is '1'. Use the same version of the task's code",
    ),
    "labels shifted by one": Case(
        SCANS,
        scans(),
        scans(shift=1),
        "labels are 1..3, and 3 classes are 0..2, so they look shifted by one. Number the labels",
    ),
}
MORE = {
    "a class that the run does not list": Case(
        FOLDER,
        images(*NAMES),
        images("bird", "cat", "plane"),
        "a folder is not a class of the task. The classes are airplane, bird,",
        {"classes": NAMES},
        "plane is not a class of the task",
    ),
    "a folder too many": Case(
        FOLDER,
        images(*NAMES),
        images(*NAMES, "zebra"),
        "the data folder has 4 classes, the task has 3",
        doctor="has 4 classes, the task has 3",
    ),
    "no normalisation": Case(
        PLAIN,
        scans(centre=0.5, scale=2.0),
        scans(),
        "the numbers that the model gets are 0..1, wanted are around 0, as after normalisation",
    ),
    "no names where the run has them": Case(
        PLAIN,
        scans(),
        scans(),
        "it does not say its classes; the run has cyst (0), healthy (1), tumour (2). A task of",
        {"classes": ("cyst", "healthy", "tumour")},
    ),
}


@contextmanager
def federation(case: Case, folder: Path) -> Iterator[Coordinator]:
    run = {"task": case.task, "num_silos": 2, "num_rounds": 1, "local_steps": 1, **case.settings}
    run["evaluators"] = ["judge"]
    x0 = {} if case.task == FOLDER else {"initial_model": str(initial(case.task, folder))}
    with coordinator(folder, {**run, **x0}) as server:
        yield server


def initial(task: str, folder: Path) -> Path:
    from domo import load_task, save_initial

    path = folder / "x0.safetensors"
    save_initial(load_task(task).build_model(), path)
    return path


def told(server: Coordinator, kind: str) -> list[str]:
    return [e["text"] for e in server.get("/events") if e["kind"] == kind]


@pytest.mark.parametrize("name", [*TEN, *MORE])
def test_a_silo_that_means_something_else(name: str, tmp_path: Path) -> None:
    """The doctor names it, it is refused before the first round, and all are told why."""
    case = {**TEN, **MORE}[name]
    good, other = case.good(tmp_path / "good"), case.other(tmp_path / "other")
    with federation(case, tmp_path) as server:
        server.until("/events", lambda es: any(e["kind"] == "waiting" for e in es))
        first = None
        if name != "no names where the run has them":
            first = Agent(server.address, "site-a", tmp_path, options(good, case.task))
            server.until("/events", lambda es: any(e["kind"] == "enrolled" for e in es))
        ask = ["--name", "site-b", "--state-dir", str(tmp_path / "state-site-b")]
        ask += ["--task", case.task, "--data", str(other), "--dashboard", server.url]
        beforehand = doctor("doctor", "--server", server.address, *ask)
        problems = [f for f in beforehand.found if f["state"] == "problem"]
        assert beforehand.code == 1
        text = case.doctor or case.text.split(". ")[0]
        assert any(text in f["text"] for f in problems), problems
        assert all(f["mend"] for f in problems)
        second = Agent(server.address, "site-b", tmp_path, options(other, case.task))
        try:
            error = server.until("/silos/site-b", lambda silo: silo["error"])["error"]
            assert case.text in error
            here, there = told(server, "not-ready"), told(server, "declined")
            (said,) = here + there  # by the silo, which looks again; or with the run's word for it
            how = "is not ready for" if here else "declined"
            assert said.startswith(f"site-b {how} {server.run_ids[0]}: ")
            assert case.text in said
            run = server.run()
            assert (run["state"], run["rounds_done"], run["roster"]) == ("WAITING", 0, [])
            assert server.rounds() == []
            assert case.text in run["detail"], "the page says what the run waits for"
        finally:
            second.close()
            if first is not None:
                first.close()


def test_a_loop_says_it_too_and_may_mend_it(tmp_path: Path) -> None:
    run = own_run(tmp_path, nn.Linear(2, 1), num_silos=1, classes=["cat", "dog"])
    data = ArrayDataset(torch.rand(4, 2), torch.arange(4) % 2)
    with (
        coordinator(tmp_path, run) as server,
        domo_client.connect(server.address, "site-a", state_dir=tmp_path / "s") as silo,
    ):
        said = domo.meaning_of(data, classes=["dog", "cat"], version="2")
        with pytest.raises(MeaningMismatchError, match="the order of the classes") as refused:
            next(silo.rounds(nn.Linear(2, 1), samples=4, meaning=said))
        assert refused.value.differences == (
            "the order of the classes differs, 0 is dog where cat is wanted: its classes are "
            "dog (0), cat (1); wanted are cat (0), dog (1)",
        )
        assert server.silo("site-a")["error_code"] == "meaning-mismatch"
        with pytest.raises(MeaningMismatchError, match="it does not say its classes"):
            next(silo.rounds(nn.Linear(2, 1), samples=4))
        assert server.run()["state"] == "WAITING"
        good = domo.meaning_of(data, classes=["cat", "dog"], version="2")
        for rnd in silo.rounds(nn.Linear(2, 1), samples=4, eval_samples=0, meaning=good):
            for _ in rnd.batches(data):
                rnd.optimizer().step()
        assert server.ended()["state"] == "FINISHED"
        assert server.run()["meaning"] == [
            "2 classes: cat (0), dog (1)",
            "inputs: 2, float32",
            "version '2' of the task",
        ]


def test_an_evaluator_is_compared_too(tmp_path: Path) -> None:
    case = TEN["other version of the task"]
    good, other = case.good(tmp_path / "good"), case.other(tmp_path / "other")
    with federation(case, tmp_path) as server:
        first = Agent(server.address, "site-a", tmp_path, options(good, case.task))
        server.until("/events", lambda es: any(e["kind"] == "enrolled" for e in es))
        judge = options(other, case.task, role="evaluator")
        second = Agent(server.address, "judge", tmp_path, judge)
        try:
            error = server.until("/silos/judge", lambda silo: silo["error"])["error"]
            assert "the version of the task is '2', wanted is '1'" in error
        finally:
            second.close()
            first.close()


def test_arrays_of_bytes_beside_standardised_ones(tmp_path: Path) -> None:
    """A folder of npz files for a named task: the numbers themselves tell."""
    case = Case("digits", digits(1.0, -0.5), digits(255.0, 0.0), "are 0..255, wanted are around 0")
    good, other = case.good(tmp_path / "good"), case.other(tmp_path / "other")
    run = {"task": "digits", "num_silos": 2, "num_rounds": 1, "local_steps": 1}
    with coordinator(tmp_path, run) as server:
        first = Agent(server.address, "site-a", tmp_path, options(good))
        server.until("/events", lambda es: any(e["kind"] == "enrolled" for e in es))
        second = Agent(server.address, "site-b", tmp_path, options(other))
        try:
            assert case.text in server.until("/silos/site-b", lambda s: s["error"])["error"]
        finally:
            second.close()
            first.close()


def digits(scale: float, shift: float) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        folder.mkdir()
        pixels = np.random.default_rng(0).random((20, 1, 8, 8), np.float32)
        np.savez(folder / "train.npz", inputs=scale * (pixels + shift), labels=np.arange(20) % 10)
        return folder

    return write
