"""What the doctor says of inputs, and the sheet that it draws."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from domo.meaning.value import NOTHING
from domo.ops.findings import Finding, Report
from domo.tasks import load_task
from domo.tasks.base import ArrayDataset
from domo.tasks.datasets import PixelDataset
from domo.training.batches import BatchLoader
from domo_client.doctor.checks import Facts, Setup
from domo_client.doctor.checks.inputs import inputs, seen, some, spread
from domo_client.doctor.checks.samples import samples
from domo_client.doctor.sheet import COLUMNS, GAP, LINE, SIDE, Page, Picture, draw
from domo_client.work import Work

RAMP = np.arange(64 * 64).reshape(64, 64)


def looked(train: Any, look: Path | None = None, name: str = "imagefolder:2") -> list[Finding]:
    task = load_task(name)
    work = Work(task, task.build_model(), BatchLoader(train), None, NOTHING)
    setup = Setup("localhost:1", "site-a", Path("state"), look=look)
    return list(inputs(setup, Facts(works={name: work})))


def test_without_data_the_sheet_is_not_blamed() -> None:
    setup = Setup("localhost:1", "site-a", Path("state"), look=Path("sheet.png"))
    (said,) = inputs(setup, Facts())
    assert said.state == "not checked"
    assert said.text == "no task with its data is ready, so --look sheet.png is not drawn"


def folder(root: Path) -> Path:
    for name in ("cat", "dog"):
        (root / "train" / name).mkdir(parents=True)
        shade = RAMP if name == "cat" else RAMP[::-1]
        Image.fromarray((shade * 16).astype(np.uint16)).save(root / "train" / name / "0.png")
    (root / "train" / "cat" / "1.heic").write_bytes(b"x")
    return root


def test_levels_values_and_what_was_left_out(tmp_path: Path) -> None:
    data = load_task("imagefolder:2").train_data(folder(tmp_path), None)
    files, left, levels = looked(data)
    assert (files.state, left.state, levels.state) == ("ok", "warning", "ok")
    assert files.text == (
        "imagefolder:2: training files: 2 of 16 bits, values 0 to 65520; 64x64 pixels"
    )
    assert left.text.endswith("train: 1 .heic (convert them to PNG or JPEG)")
    assert "3x32x32, values -2.068 to 2.589, 1,024" in levels.text
    assert "2 looked at" in levels.text


def test_three_levels_are_hardly_a_picture() -> None:
    dull = ArrayDataset(torch.arange(3).repeat(4, 1, 8, 8).float(), torch.arange(4))
    (found,) = looked(dull)
    assert found.state == "warning"
    assert "3 levels in each of 4 looked at" in found.text
    assert "hardly a picture" in found.text


def test_inputs_that_are_not_finite_are_a_problem() -> None:
    spoilt = torch.rand(4, 3, 8, 8)
    spoilt[1, 0, 0, 0] = float("nan")
    (found,) = looked(ArrayDataset(spoilt, torch.arange(4)))
    assert found.state == "problem"
    assert "training inputs: 1 of 4 looked at have values that are not finite" in found.text


class Broken(ArrayDataset):
    """A dataset with a sample that is on a bad place of the disk."""

    def __getitem__(self, index: int) -> Any:
        if index == 3:
            raise OSError("the drive is gone")
        return super().__getitem__(index)


def read_through(data: ArrayDataset) -> list[Finding]:
    task = load_task("digits")
    work = Work(task, task.build_model(), BatchLoader(data), None, NOTHING)
    report = Report(quiet=True)
    setup = Setup("localhost:1", "site-a", Path("state"))
    report.run("samples", lambda: samples(setup, Facts(works={"digits": work})))
    return [found for _, found in report.found]


def test_a_sample_that_cannot_be_read_is_named() -> None:
    found = read_through(Broken(torch.rand(5, 8), torch.arange(5)))[-1]
    assert found.state == "problem"
    text = "sample 3 of the training data cannot be read: OSError: the drive is gone, in "
    assert found.text.startswith(f"{text}{__file__}, line ")
    assert "report it" not in found.mend


def test_samples_of_any_type_are_counted() -> None:
    found = read_through(ArrayDataset(torch.rand(5, 8).bfloat16(), torch.arange(5) % 2))
    assert "digits: training samples by class: 0 3, 1 2" in [f.text for f in found]
    assert not [f for f in found if f.state == "problem"]


def test_inputs_that_are_no_pictures(tmp_path: Path) -> None:
    rows = ArrayDataset(torch.randn(5, 7), torch.arange(5))
    levels, sheet = looked(rows, tmp_path / "a.png")
    assert levels.state == "ok"
    assert "5 looked at" in levels.text
    assert sheet.state == "problem"
    assert "no inputs are pictures" in sheet.text
    (none,) = looked([{"text": "a"}, {"text": "b"}])
    assert none.state == "not checked"


def test_samples_are_taken_of_each_class() -> None:
    labels = torch.tensor([0] * 90 + [1] * 5 + [2] * 5)
    chosen = spread(labels, 12)
    assert [int(labels[i]) for i in chosen] == [0] * 4 + [1] * 4 + [2] * 4
    assert spread(torch.tensor([3, 3]), 12) == [0, 1]
    loaded = some(BatchLoader(ArrayDataset(torch.randn(100, 1, 4, 4), labels)))
    assert loaded is not None
    assert len(loaded.inputs) == 64
    assert set(loaded.labels) == {0, 1, 2}


def test_the_sheet_shows_what_the_model_sees_with_its_class(tmp_path: Path) -> None:
    data = load_task("imagefolder:2").train_data(folder(tmp_path / "data"), None)
    out = tmp_path / "sheet.png"
    *_, drawn = looked(data, out)
    text = "2 inputs with their classes, as the model will see them: look at it"
    assert drawn == Finding("ok", f"{out}: {text}", elsewhere=text)
    times = -(-SIDE // 32)
    with Image.open(out) as sheet:
        pixels = np.asarray(sheet)
    assert pixels.shape[1] == GAP + COLUMNS * (32 * times + GAP)
    first = pixels[LINE + 2 * GAP :, GAP:][: 32 * times : times, : 32 * times : times]
    assert np.array_equal(first[..., 0], data.inputs[0, 0].round().byte().numpy())
    label = pixels[LINE + 2 * GAP + 32 * times + 2 :][:LINE, GAP : GAP + 40]
    assert (label < 128).any(), "its class is written below"


def test_standardising_is_undone() -> None:
    pixels = torch.randint(0, 256, (1, 3, 8, 8), dtype=torch.uint8)
    data = PixelDataset(pixels, torch.zeros(1, dtype=torch.int64), (0.5, 0.4, 0.3), (0.2, 0.1, 0.3))
    assert torch.equal(seen(data[0][0], data), pixels[0])


@pytest.mark.parametrize("name", ["sheet.xyz", "absent/sheet.png"])
def test_a_sheet_that_cannot_be_written(tmp_path: Path, name: str) -> None:
    data = ArrayDataset(torch.rand(4, 1, 8, 8), torch.arange(4))
    *_, drawn = looked(data, tmp_path / name)
    assert drawn.state == "problem"
    assert "cannot be written" in drawn.text


def test_long_labels_and_large_pictures(tmp_path: Path) -> None:
    large = Picture(torch.zeros(1, 300, 200, dtype=torch.uint8), "a" * 100)
    draw([Page("one", [large] * 9)], tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as sheet:
        assert sheet.size == (GAP + COLUMNS * 210, LINE + 2 * GAP + 2 * (300 + LINE + GAP))
