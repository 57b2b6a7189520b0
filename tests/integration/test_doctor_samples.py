"""What the doctor says of classes, counts, and likely mistakes in the data."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.support.findings import Outcome
from tests.support.live.coordinator import Coordinator, coordinator
from tests.support.live.doctored import doctor


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Coordinator]:
    with coordinator(tmp_path_factory.mktemp("plain")) as it:
        yield it


def images(folder: Path, **counts: int) -> Path:
    """`cat=3`: three images in folder/cat."""
    source = np.random.default_rng(len(str(folder)))
    for name, n in counts.items():
        (folder / name).mkdir(parents=True)
        for i in range(n):
            pixels = source.integers(0, 256, (32, 32, 3), np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{i}.png")
    return folder


def look(plain: Coordinator, root: Path, task: str, tmp_path: Path) -> Outcome:
    state = str(tmp_path / "state")
    return doctor(
        *("doctor", "--server", plain.address, "--dashboard", plain.url, "--task", task),
        *("--name", "site-a", "--state-dir", state, "--data", str(root)),
    )


def told(outcome: Outcome, state: str) -> list[str]:
    return [f["text"] for f in outcome.found if (f["check"], f["state"]) == ("samples", state)]


def test_counts_and_nothing_to_warn_of(plain: Coordinator, tmp_path: Path) -> None:
    images(tmp_path / "data" / "train", ape=3, bee=2)
    images(tmp_path / "data" / "test", ape=1, bee=2)
    outcome = look(plain, tmp_path / "data", "imagefolder:2", tmp_path)
    assert told(outcome, "warning") == told(outcome, "problem") == []
    assert told(outcome, "ok") == [
        "imagefolder:2: 2 classes: ape (0), bee (1)",
        "imagefolder:2: inputs: 3 x 32 x 32, RGB, float32, values 0..1, mean 0.485, 0.456, 0.406, "
        "std 0.229, 0.224, 0.225, aspect by squeeze",
        "imagefolder:2: labels 0..1",
        "imagefolder:2: version '1' of the task",
        "imagefolder:2: training samples by class: ape (0) 3, bee (1) 2",
        "imagefolder:2: test samples by class: ape (0) 1, bee (1) 2",
    ]


def test_mistakes_that_are_likely(plain: Coordinator, tmp_path: Path) -> None:
    root = tmp_path / "data"
    images(root / "train", ape=3, bee=1)
    images(root / "test", ape=2)
    (root / "classes.txt").write_text("ape\nbee\ncat\n", "utf-8")
    (root / "test" / "ape" / "0.png").write_bytes((root / "train" / "ape" / "1.png").read_bytes())
    outcome = look(plain, root, "imagefolder:3", tmp_path)
    assert outcome.code == 0, "they are warnings"
    assert told(outcome, "warning") == [
        "imagefolder:3: no training samples of cat (2)",
        "imagefolder:3: a single training sample of bee (1)",
        "imagefolder:3: no test samples of bee (1), cat (2)",
        "imagefolder:3: 1 of 2 test samples are training samples too (test 0 is training 1)",
    ]
    assert all(f["mend"] for f in outcome.found if f["state"] == "warning")


def test_a_part_that_domo_has_held_out(plain: Coordinator, tmp_path: Path) -> None:
    images(tmp_path / "data", ape=12, bee=9)
    outcome = look(plain, tmp_path / "data", "imagefolder:2", tmp_path)
    assert (
        "imagefolder:2: no train and test folders: domo holds one image in ten out for tests by "
        "itself"
    ) in told(outcome, "warning")


def test_no_test_data(plain: Coordinator, tmp_path: Path) -> None:
    images(tmp_path / "data" / "train", ape=3, bee=2)
    outcome = look(plain, tmp_path / "data", "imagefolder:2", tmp_path)
    assert told(outcome, "warning") == [
        "imagefolder:2: there are no test data: this silo trains, and tests nothing"
    ]


def test_the_task_of_the_open_run_is_looked_at_where_none_is_given(tmp_path: Path) -> None:
    images(tmp_path / "data" / "train", ape=3, bee=2)
    run = {
        "task": "imagefolder:2",
        "num_rounds": 1,
        "num_silos": 2,
        "classes": ["bee", "ape"],
        "images": {"size": 16, "channels": 1},
    }
    with coordinator(tmp_path, run) as server:
        server.until("/events", lambda es: any(e["kind"] == "waiting" for e in es))
        outcome = doctor(
            *("doctor", "--server", server.address, "--dashboard", server.url),
            *("--name", "site-a", "--state-dir", str(tmp_path / "state")),
            *("--data", str(tmp_path / "data")),
        )
    texts = [f["text"] for f in outcome.found]
    run_id = server.run_ids[0]
    assert (
        f"the run {run_id} is open to site-a: imagefolder:2; 2 classes: bee (0), ape (1)" in texts
    )
    assert "imagefolder:2: 2 classes: bee (0), ape (1)" in texts, "numbered as the run has it"
    assert any("inputs: 1 x 16 x 16, L, float32" in text for text in texts)
    assert f"the data mean what the run {run_id} wants" in texts
