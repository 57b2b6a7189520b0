"""What a run says of images: the same model and the same inputs wherever it is trained."""

from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

import domo
from domo.commands.export import images_of as images_of_file
from domo.commands.init import make_initial
from domo.errors import ConfigError, TaskError
from domo.inputs.form import InputForm
from domo.inputs.images import ImageSettings
from domo.model.tensor_file import TensorFile
from domo.ops.config_file import validate
from domo.run_config import RunConfig
from domo.tasks import load_task
from domo.tasks.base import Shard
from domo.training.initial import build_initial, task_of
from domo_server.coordinator.submission import check_submission

GREY = {"size": [16, 24], "channels": 1}


def config(**changes: Any) -> RunConfig:
    given = {"task": "imagefolder:2", "num_rounds": 2, "num_silos": 2} | changes
    return validate(RunConfig, given, "run.toml")


def write(root: Path, size: tuple[int, int] = (60, 30)) -> None:
    """Eight files, wide by default: left half black, right half white or red."""
    for i in range(8):
        folder = root / "train" / ("red" if i % 2 else "white")
        folder.mkdir(parents=True, exist_ok=True)
        image = Image.new("RGB", size)
        color = (255, 0, 0) if i % 2 else (255, 255, 255)
        image.paste(color, (size[0] // 2, 0, *size))
        image.save(folder / f"{i}.png")


def test_a_config_without_images_has_the_digest_that_it_had() -> None:
    old = RunConfig(task="imagefolder:2", num_rounds=2)
    assert "images" not in old.model_dump(exclude_defaults=True)
    assert config(images=GREY).digest != config(images={"size": 32}).digest


@pytest.mark.parametrize(
    ("images", "text"),
    [
        ({"size": 4}, r"images\.size = 4: must be greater than or equal to 8"),
        ({"size": [32]}, r"images\.size\[1\]: missing"),
        ({"channels": 2}, r"images\.channels = 2: must be 1 or 3"),
        ({"aspect": "fill"}, r'images\.aspect = "fill": must be \'squeeze\', \'pad\' or \'crop\''),
        ({"sizes": 64}, r"images\.sizes: unknown key; did you mean size\?"),
    ],
)
def test_settings_that_are_wrong(images: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        config(images=images)


def test_the_model_is_built_for_size_and_channels(tmp_path: Path) -> None:
    write(tmp_path)
    task = task_of(config(images=GREY))
    data = task.train_data(tmp_path, None)
    inputs, _ = data[0]
    assert inputs.shape == (1, 16, 24)
    assert task.build_model()(inputs[None]).shape == (1, 2)
    assert task.input_form == InputForm(
        (1, 16, 24),
        channels="L",
        dtype="float32",
        values="0..1",
        aspect="squeeze",
        mean=(0.449,),
        std=(0.226,),
    )


def test_without_settings_all_is_as_it_was() -> None:
    plain, said = load_task("imagefolder:2"), load_task("imagefolder:2", ImageSettings())
    assert plain.input_form == said.input_form
    assert plain.input_form.shape == (3, 32, 32)
    one, two = (build_initial(t, 3)[1] for t in (plain, said))
    assert all(torch.equal(one[k], two[k]) for k in one)
    assert load_task("digits").input_form == InputForm((1, 8, 8), dtype="float32")


@pytest.mark.parametrize(
    ("aspect", "columns", "rows"),
    [("squeeze", 16, 32), ("pad", 16, 16), ("crop", 16, 32)],
)
def test_aspect(tmp_path: Path, aspect: str, columns: int, rows: int) -> None:
    write(tmp_path)
    task = task_of(config(images={"aspect": aspect}))
    pixels = task.train_data(tmp_path, None).inputs[-1, 0]  # of a white file
    assert pixels.shape == (32, 32)
    white = pixels > 127
    assert (int(white.any(0).sum()), int(white.any(1).sum())) == (columns, rows)


def test_a_fixed_model_takes_the_aspect_but_no_other_size() -> None:
    assert load_task("cifar10-cnn", ImageSettings(aspect="crop")).images.aspect == "crop"
    with pytest.raises(TaskError, match=r"cifar10-cnn takes 3x32x32 .* asks for 1x64x64: leave"):
        load_task("cifar10-cnn", ImageSettings(size=64, channels=1))


@pytest.mark.parametrize(
    ("task", "text"),
    [
        ("digits", "images: the task digits reads no folders of images: leave them out"),
        ("my_tasks:Scans", "images: these are settings of named tasks on folders of images; my_"),
        ("svhn-resnet20", "images: the model of svhn-resnet20 takes 3x32x32"),
    ],
)
def test_a_run_is_refused_where_its_task_takes_none(task: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text) as caught:
        check_submission(config(task=task, images={"size": 64}))
    assert caught.value.faults[0].where == "images"


def test_an_object_of_ones_own_takes_none() -> None:
    class Own:
        build_model = train_data = loss = evaluate = None

    with pytest.raises(TaskError, match="reads its data itself"):
        domo.simulate(Own(), "data", images={"size": 64})  # type: ignore[arg-type]


def test_a_simulation_trains_at_the_size_of_the_run(tmp_path: Path) -> None:
    write(tmp_path)
    settings = {"num_rounds": 1, "num_silos": 2, "images": GREY}
    result = domo.simulate("imagefolder:2", tmp_path, **settings)
    assert result.state_dict["7.weight"].shape == (2, 64 * 4 * 6)


def test_x0_of_domo_init_fits_and_says_what_it_was_made_for(tmp_path: Path) -> None:
    file, out = tmp_path / "run.toml", tmp_path / "x0.safetensors"
    file.write_text(
        '[[runs]]\nname = "a"\ntask = "imagefolder:2"\nnum_rounds = 1\n'
        "images = { size = [16, 24], channels = 1 }\n"
    )
    make_initial("imagefolder:2", 0, out, None, file)
    written = TensorFile.open(out)
    assert images_of_file(written) == ImageSettings(size=(16, 24), channels=1)
    wanted, vectors = build_initial(task_of(config(images=GREY)), 0)
    assert wanted.num_params == sum(v.numel() for k, v in vectors.items() if k.name == "TRAINABLE")
    with pytest.raises(ConfigError, match=r"runs\[0\] trains imagefolder:2, not imagefolder:3"):
        make_initial("imagefolder:3", 0, out, None, file)


def test_shards_of_a_folder_without_a_test_part_have_none(tmp_path: Path) -> None:
    write(tmp_path)
    task = task_of(config())
    assert [len(task.eval_data(tmp_path, Shard(i, 3))) for i in range(3)] == [0, 0, 0]
