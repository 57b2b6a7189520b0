from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from domo.commands.split import similarity_split, split_data, write_silo_folders
from domo.errors import ConfigError, TaskError
from domo.tasks import load_task, named
from domo.tasks.base import Shard
from domo.tasks.datasets import PixelDataset, Public


@given(
    labels=st.lists(st.integers(0, 9), min_size=1, max_size=200),
    num_silos=st.integers(1, 20),
    similarity=st.floats(0, 1),
    seed=st.integers(0, 2**31),
)
def test_every_sample_goes_to_one_silo_and_sizes_differ_by_at_most_one(
    labels, num_silos, similarity, seed
):
    num_silos = min(num_silos, len(labels))
    parts = similarity_split(torch.tensor(labels), num_silos, similarity, seed)
    assert torch.cat(parts).sort().values.tolist() == list(range(len(labels)))
    sizes = [len(p) for p in parts]
    assert len(sizes) == num_silos
    assert max(sizes) - min(sizes) <= 1
    again = similarity_split(torch.tensor(labels), num_silos, similarity, seed)
    assert all(torch.equal(a, b) for a, b in zip(parts, again, strict=True))


@given(st.integers(0, 1000))
def test_without_similarity_the_silos_have_consecutive_labels(seed):
    labels = torch.arange(100) % 10
    parts = similarity_split(labels, 5, 0.0, seed)
    assert [sorted(set(labels[p].tolist())) for p in parts] == [
        [0, 1],
        [2, 3],
        [4, 5],
        [6, 7],
        [8, 9],
    ]


def test_similarity_is_the_share_of_samples_dealt_at_random():
    labels = torch.arange(10).repeat_interleave(1000)
    for similarity in (0.1, 0.5):
        parts = similarity_split(labels, 10, similarity, seed=0)
        own = torch.tensor([(labels[p] == i).float().mean() for i, p in enumerate(parts)])
        assert own.mean().item() == pytest.approx(1 - 0.9 * similarity, abs=0.02)
    mixed = similarity_split(labels, 10, 1.0, seed=0)
    assert all(torch.bincount(labels[p]).min() > 60 for p in mixed)


def test_a_seed_changes_the_split():
    labels = torch.arange(10).repeat_interleave(10)
    one, two = (similarity_split(labels, 4, 0.2, seed) for seed in (0, 1))
    assert any(not torch.equal(a, b) for a, b in zip(one, two, strict=True))


@pytest.mark.parametrize(
    ("num_silos", "similarity", "text"),
    [
        (0, 0.1, "cannot deal 5 samples to 0 silos: give 1 to 5 silos"),
        (6, 0.1, "cannot deal 5 samples to 6 silos"),
        (2, 1.5, r"similarity = 1.5 is not in \[0, 1\]"),
        (2, float("nan"), "similarity = nan"),
    ],
)
def test_impossible_splits_are_refused(num_silos, similarity, text):
    with pytest.raises(ConfigError, match=text):
        similarity_split(torch.zeros(5, dtype=torch.int64), num_silos, similarity, 0)


def test_a_silos_own_digits_are_its_shard(tmp_path, capsys):
    split_data("digits", tmp_path, 4, 0.05, 7, tmp_path / "out")
    task = load_task("digits")
    for i in range(4):
        shard, root = Shard(i, 4, 0.05, 7), tmp_path / "out" / f"silo-{i}"
        for read in (task.train_data, task.eval_data):
            own, part = read(root, None), read(tmp_path, shard)
            assert torch.equal(own.inputs, part.inputs)
            assert torch.equal(own.labels, part.labels)
    shown = capsys.readouterr().out
    first = tmp_path / "out" / "silo-0"
    command = f"domo-client --server localhost:50051 --task digits --data {first}"
    assert command in shown.replace("\n", "")


def make_tree(root: Path, classes: list[str], per_class: int, parts=("train", "test")) -> None:
    rng = np.random.default_rng(0)
    for part in parts:
        for name in classes:
            folder = root / part / name
            folder.mkdir(parents=True)
            for i in range(per_class):
                pixels = rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / f"{i:03d}.png")


def test_a_silos_own_images_are_its_shard_and_are_not_copied(tmp_path):
    source, out = tmp_path / "photos", tmp_path / "out"
    make_tree(source, ["cat", "dog", "emu"], per_class=6)
    task = load_task("imagefolder:3")
    folders = write_silo_folders(task, source, 3, 0.0, 1, out)
    assert [f.name for f in folders] == ["silo-0", "silo-1", "silo-2"]
    for i, folder in enumerate(folders):
        assert (folder / "classes.txt").read_text().split() == ["cat", "dog", "emu"]
        for read in (task.train_data, task.eval_data):
            own, part = read(folder, None), read(source, Shard(i, 3, 0.0, 1))
            assert torch.equal(own.inputs, part.inputs)
            assert torch.equal(own.labels, part.labels)
    assert [p.name for p in (folders[1] / "train").iterdir()] == ["dog"]
    image = folders[1] / "train" / "dog" / "003.png"
    assert image.samefile(source / "train" / "dog" / "003.png")


def test_images_are_copied_where_they_cannot_be_linked(tmp_path, monkeypatch):
    make_tree(tmp_path / "photos", ["a", "b"], per_class=2)

    def refuse(*args):
        raise OSError("another file system")

    monkeypatch.setattr("os.link", refuse)
    task = load_task("imagefolder:2")
    first, _ = write_silo_folders(task, tmp_path / "photos", 2, 0.0, 0, tmp_path / "out")
    assert len(task.train_data(first, None)) == 2


def test_a_public_image_dataset_becomes_folders_of_png(tmp_path):
    pixels = torch.randint(0, 256, (20, 3, 32, 32), dtype=torch.uint8)
    data = PixelDataset(pixels, torch.arange(20) % 10, (0.5,) * 3, (0.5,) * 3)
    task = named.ImageTask(
        torch.nn.Identity,
        named.datasets.Statistics((0.5,) * 3, (0.5,) * 3),
        named.datasets.DIGITS,
        lambda root: Public(data, data),
    )
    folders = write_silo_folders(task, tmp_path, 2, 0.5, 0, tmp_path / "out")
    for part in (task.train_data, task.eval_data):
        read = [part(folder, None) for folder in folders]
        images = torch.cat([r.inputs for r in read])
        labels = torch.cat([r.labels for r in read])
        found = {(int(label), i.numpy().tobytes()) for label, i in zip(labels, images, strict=True)}
        given_ = zip(data.labels, pixels, strict=True)
        assert found == {(int(label), i.numpy().tobytes()) for label, i in given_}


def test_folders_that_are_there_are_left_alone(tmp_path):
    (tmp_path / "silo-1").mkdir()
    with pytest.raises(ConfigError, match=r"silo-1 is already there: remove it or give another"):
        split_data("digits", tmp_path, 2, 0.1, 0, tmp_path)
    assert not (tmp_path / "silo-0").exists()


def test_only_named_tasks_can_be_split(tmp_path):
    with pytest.raises(ConfigError, match="only the data of named tasks"):
        write_silo_folders(object(), tmp_path, 2, 0.1, 0, tmp_path / "out")
    with pytest.raises(TaskError, match="Did you mean 'digits'"):
        split_data("digit", tmp_path, 2, 0.1, 0, tmp_path / "out")


@pytest.mark.parametrize(("num_silos", "similarity"), [(0, 0.1), (2, 2.0)])
def test_a_wrong_number_leaves_no_folder(tmp_path, num_silos, similarity):
    make_tree(tmp_path / "photos", ["a", "b"], per_class=2)
    for task in ("digits", "imagefolder:2"):
        with pytest.raises(ConfigError):
            split_data(task, tmp_path / "photos", num_silos, similarity, 0, tmp_path / "out")
        assert not (tmp_path / "out").exists()
