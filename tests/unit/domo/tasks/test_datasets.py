import gzip
import logging
import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Subset

from domo.errors import ConfigError, TaskError
from domo.model.flat import digest
from domo.tasks import datasets, load_task
from domo.tasks.base import ArrayDataset, Shard
from domo.tasks.datasets import DEBIAN_FASHION, FASHION_FILES, PixelDataset
from domo.training.batches import BatchLoader
from domo.training.loading.travel import stacks_itself

NOWHERE = Path("/nonexistent")


def test_digits_are_the_1797_images_that_scikit_learn_ships():
    train, test = datasets.digits()
    assert train.inputs.shape == (1437, 1, 8, 8)
    assert test.inputs.shape == (360, 1, 8, 8)
    counts = torch.bincount(torch.cat([train.labels, test.labels]))
    assert counts.tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert train.inputs.mean().item() == pytest.approx(0, abs=1e-5)
    assert train.inputs.std().item() == pytest.approx(1, abs=1e-5)


def test_digits_file_has_not_changed():
    path = Path(datasets.__file__).with_name("digits.npz")
    assert path.stat().st_size < 60_000
    with np.load(path, allow_pickle=False) as arrays:
        flat = [arrays[k].ravel() for k in sorted(arrays.files)]
    assert {a.dtype for a in flat} == {np.dtype(np.uint8)}
    assert digest(torch.from_numpy(np.concatenate(flat))) == "ee5ffc85532a19adb43f44efc88187a8"


@pytest.mark.parametrize("num_shards", [1, 4, 7])
def test_shards_are_the_whole_of_both_sets(num_shards):
    task = load_task("digits")
    shards = [Shard(i, num_shards) for i in range(num_shards)]
    for read, whole in (
        (task.train_data, datasets.digits().train),
        (task.eval_data, datasets.digits().test),
    ):
        parts = [read(NOWHERE, s) for s in shards]
        assert sum(map(len, parts)) == len(whole)
        rows = torch.cat([p.inputs for p in parts]).flatten(1)
        assert torch.equal(rows.unique(dim=0), whole.inputs.flatten(1).unique(dim=0))
    first = task.eval_data(NOWHERE, shards[0])
    assert torch.equal(first.labels, datasets.digits().test.labels[::num_shards])


def test_a_shard_that_is_not_there():
    for read in (load_task("digits").train_data, load_task("digits").eval_data):
        with pytest.raises(ConfigError, match="no shard 4 of 4: with 4 shards the index is 0 to 3"):
            read(NOWHERE, Shard(4, 4))


def test_pixels_are_standardised_the_same_one_by_one_and_in_batches():
    pixels = torch.randint(0, 256, (5, 3, 4, 4), dtype=torch.uint8)
    data = PixelDataset(pixels, torch.arange(5), (0.5, 0.4, 0.3), (0.2, 0.1, 0.3))
    batch, labels = data.stacked([4, 2])
    assert torch.equal(batch[1], data[2][0])
    assert labels.tolist() == [4, 2]
    expected = (pixels[2, 1].double() / 255 - 0.4) / 0.1
    assert torch.allclose(batch[1, 1].double(), expected, atol=1e-5)


@pytest.mark.parametrize("pick", [None, range(3, 40)])
def test_torchs_own_loader_gives_what_domos_does(pick: range | None):
    """One by one and collated; of a part of it as well."""
    pixels = torch.randint(0, 256, (50, 3, 4, 4), dtype=torch.uint8)
    mean_and_std = (0.5, 0.4, 0.3), (0.2, 0.1, 0.3)
    for whole in (
        load_task("digits").train_data(NOWHERE, Shard(0, 4)),
        PixelDataset(pixels, torch.arange(50), *mean_and_std),
    ):
        data = whole if pick is None else Subset(whole, pick)
        theirs, ours = DataLoader(data, batch_size=16), BatchLoader(data).sequential(16)
        for (inputs, labels), batch in zip(theirs, ours, strict=True):
            assert torch.equal(inputs, batch[0])
            assert torch.equal(labels, batch[1])


class Halved(ArrayDataset):
    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        inputs, label = super().__getitem__(index)
        return inputs / 2, label


class HalvedAtOnce(Halved):
    def stacked(self, indices: Sequence[int]) -> tuple[Tensor, Tensor]:
        inputs, labels = super().stacked(indices)
        return inputs / 2, labels


def test_a_subclass_that_changes_items_is_read_item_by_item():
    inputs, labels = torch.ones(4, 2), torch.arange(4)
    assert stacks_itself(ArrayDataset(inputs, labels))
    assert not stacks_itself(Halved(inputs, labels))
    assert stacks_itself(HalvedAtOnce(inputs, labels))
    for kind in (Halved, HalvedAtOnce):
        (batch,) = BatchLoader(kind(inputs, labels)).sequential()
        assert torch.equal(batch[0], inputs / 2)


# ---- Fashion-MNIST


def write_fashion(folder: Path, num_train: int = 20, num_test: int = 8) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    for train, n in ((True, num_train), (False, num_test)):
        images, labels = FASHION_FILES[train]
        pixels = rng.integers(0, 256, (n, 28, 28), dtype=np.uint8)
        head = struct.pack(">BBBBIII", 0, 0, 8, 3, n, 28, 28)
        (folder / images).write_bytes(gzip.compress(head + pixels.tobytes()))
        head = struct.pack(">BBBBI", 0, 0, 8, 1, n)
        (folder / labels).write_bytes(gzip.compress(head + bytes(i % 10 for i in range(n))))


@pytest.mark.parametrize("where", ["", "FashionMNIST/raw"])
def test_fashion_mnist_is_read_from_root(tmp_path, where):
    write_fashion(tmp_path / where)
    train, test = datasets.fashion_mnist(tmp_path)
    assert train.inputs.shape == (20, 1, 28, 28)
    assert test.labels.tolist() == [0, 1, 2, 3, 4, 5, 6, 7]


def test_fashion_mnist_is_read_from_the_environments_folder(tmp_path, monkeypatch):
    write_fashion(tmp_path / "there")
    monkeypatch.setenv("DOMO_FASHION_MNIST", str(tmp_path / "there"))
    assert len(datasets.fashion_mnist(tmp_path / "root").train) == 20


def test_quick_fashion_is_pooled_by_the_mean(tmp_path):
    write_fashion(tmp_path)
    full, quick = datasets.fashion_mnist(tmp_path), datasets.fashion_mnist_quick(tmp_path)
    pixels = full.test.inputs[0, 0].double()
    pooled = (pixels[::2, ::2] + pixels[1::2, ::2] + pixels[::2, 1::2] + pixels[1::2, 1::2]) / 4
    got = quick.test.inputs[0, 0].double()
    slope = (got[0, 0] - got[5, 5]) / (pooled[0, 0] - pooled[5, 5])
    assert torch.allclose(got - got[0, 0], slope * (pooled - pooled[0, 0]), atol=1e-5)
    assert quick.train.inputs.mean().item() == pytest.approx(0, abs=1e-5)


@pytest.mark.skipif(
    not DEBIAN_FASHION.is_dir(), reason="Fashion-MNIST (dataset-fashion-mnist) is not installed"
)
def test_the_quick_comparison_has_10240_images_of_the_real_set():
    train, test = datasets.fashion_mnist_quick(NOWHERE)
    assert train.inputs.shape == (10_240, 1, 14, 14)
    assert test.inputs.shape == (10_000, 1, 14, 14)
    assert torch.bincount(train.labels).min() > 950


def test_a_damaged_fashion_file_is_named(tmp_path):
    write_fashion(tmp_path)
    (tmp_path / FASHION_FILES[False][0]).write_bytes(b"nonsense")
    with pytest.raises(TaskError, match=r"t10k-images-idx3-ubyte.gz is not a gzipped IDX file"):
        datasets.fashion_mnist(tmp_path)
    (tmp_path / FASHION_FILES[False][0]).write_bytes(gzip.compress(b"\0\0\x08\x03" + b"\0" * 99))
    with pytest.raises(TaskError, match="is not a gzipped IDX file"):
        datasets.fashion_mnist(tmp_path)


def test_a_failed_download_says_what_else_to_do(tmp_path, monkeypatch, caplog):
    def offline(root, download):
        raise RuntimeError("no network")

    monkeypatch.setattr(datasets, "DEBIAN_FASHION", NOWHERE)
    monkeypatch.setattr("torchvision.datasets.FashionMNIST", offline)
    with caplog.at_level(logging.INFO), pytest.raises(TaskError, match="apt install") as caught:
        datasets.fashion_mnist(tmp_path)
    assert "could not be downloaded (no network)" in str(caught.value)
    assert f"downloading Fashion-MNIST (31 MB) into {tmp_path}" in caplog.text


# ---- torchvision's


class FakeCifar:
    def __init__(self, root, train, download=False):
        if not download and not Path(root, "there").exists():
            raise RuntimeError("Dataset not found or corrupted.")
        n = 30 if train else 10
        self.data = np.arange(n * 32 * 32 * 3, dtype=np.uint32).astype(np.uint8)
        self.data = self.data.reshape(n, 32, 32, 3)
        self.targets = [i % 10 for i in range(n)]


class FakeSvhn:
    def __init__(self, root, split, download=False):
        self.data = np.zeros((20, 3, 32, 32), np.uint8)
        self.labels = np.arange(20) % 10


def test_cifar_is_downloaded_where_absent(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("torchvision.datasets.CIFAR10", FakeCifar)
    task = load_task("cifar10-cnn")
    with caplog.at_level(logging.INFO):
        parts = [task.train_data(tmp_path / "new", Shard(i, 3, 1.0)) for i in range(3)]
    assert [len(p) for p in parts] == [10, 10, 10]
    assert f"downloading CIFAR10 (170 MB in all) into {tmp_path / 'new'}" in caplog.text
    assert parts[0].inputs.shape == (10, 3, 32, 32)
    assert sum(len(task.eval_data(tmp_path / "new", Shard(i, 3))) for i in range(3)) == 10


def test_cifar_that_is_there_is_not_downloaded(tmp_path, monkeypatch, caplog):
    (tmp_path / "there").touch()
    monkeypatch.setattr("torchvision.datasets.CIFAR100", FakeCifar)
    with caplog.at_level(logging.INFO):
        train = datasets.cifar100(tmp_path).train
    assert "downloading" not in caplog.text
    assert train.inputs[0, :, 0, 0].tolist() == [0, 1, 2]  # channels last become first


def test_svhn_has_labels_of_another_name(tmp_path, monkeypatch):
    monkeypatch.setattr("torchvision.datasets.SVHN", FakeSvhn)
    assert len(load_task("svhn-resnet20").train_data(tmp_path, Shard(0, 2))) == 10


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OSError("no route"), "SVHN is not in .* could not be downloaded: no route"),
        (ModuleNotFoundError("No module named 'scipy'"), "Try: pip install scipy"),
    ],
)
def test_a_dataset_that_cannot_be_had(tmp_path, monkeypatch, error, text):
    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr("torchvision.datasets.SVHN", fail)
    with pytest.raises(TaskError, match=text):
        load_task("svhn-resnet20").train_data(tmp_path, Shard(0, 2))


# ---- a silo's own arrays


def save(root: Path, name: str = "train.npz", **arrays) -> None:
    given = {"inputs": np.zeros((3, 1, 8, 8), np.float32), "labels": np.array([0, 1, 9])}
    np.savez(root / name, **{k: v for k, v in (given | arrays).items() if v is not None})


def test_own_arrays_are_read(tmp_path, caplog):
    save(tmp_path, inputs=np.ones((3, 1, 8, 8)), labels=np.array([0, 1, 9], np.uint8))
    task = load_task("digits")
    train = task.train_data(tmp_path, None)
    assert (train.inputs.dtype, train.labels.dtype) == (torch.float32, torch.int64)
    assert train.labels.tolist() == [0, 1, 9]
    with caplog.at_level(logging.INFO):
        assert task.eval_data(tmp_path, None) is None
    assert "nothing to evaluate on" in caplog.text
    save(tmp_path, "test.npz")
    assert len(task.eval_data(tmp_path, None)) == 3


INFINITE = np.zeros((3, 1, 8, 8), np.float32)
INFINITE[2, 0, 1, 1] = np.inf


@pytest.mark.parametrize(
    ("arrays", "text"),
    [
        (
            {"labels": np.array([0, 10, -1])},
            r"train.npz: label 10 at index 1 is not in 0..9 \(2 of",
        ),
        ({"inputs": np.zeros((3, 64), np.float32)}, r"shape \(3, 64\).*takes .*\(N, 1, 8, 8\)"),
        ({"labels": np.array([1, 2])}, r"labels of shape \(2,\)"),
        ({"labels": None}, "has no array named labels; it has inputs"),
        ({"inputs": np.zeros((3, 1, 8, 8), np.uint8)}, "inputs of uint8 .* float32 and int64"),
        ({"labels": np.array([0.0, 1.0, 2.0])}, "labels of float64; float32 and int64 are wanted"),
        ({"labels": np.array([{}, 1, 2], object)}, "cannot be read as an npz file of plain arrays"),
        ({"inputs": INFINITE}, "the input at index 2 has values that are not finite"),
        (
            {"inputs": np.zeros((0, 1, 8, 8), np.float32), "labels": np.zeros(0, np.int64)},
            "train.npz has no samples",
        ),
    ],
)
def test_wrong_arrays_are_named(tmp_path, arrays, text):
    save(tmp_path, **arrays)
    with pytest.raises(TaskError, match=text):
        load_task("digits").train_data(tmp_path, None)


def test_a_file_that_is_no_npz(tmp_path):
    path = tmp_path / "train.npz"
    path.write_text("a,b,c")
    with pytest.raises(TaskError, match="cannot be read as an npz file"):
        load_task("digits").train_data(tmp_path, None)
    with path.open("wb") as f:
        np.save(f, np.zeros(3))
    with pytest.raises(TaskError, match="cannot be read as an npz file"):
        load_task("digits").train_data(tmp_path, None)
    path.write_bytes(b"PK\x03\x04 cut off")
    with pytest.raises(TaskError, match="cannot be read as an npz file"):
        load_task("digits").train_data(tmp_path, None)


@pytest.mark.parametrize("name", ["digits", "cifar10-cnn"])
def test_a_data_folder_that_is_missing_or_empty_or_a_file(tmp_path, name):
    task = load_task(name)
    for read in (task.train_data, task.eval_data):
        with pytest.raises(TaskError, match=r"absent does not exist\. It should hold train"):
            read(tmp_path / "absent", None)
        (tmp_path / "empty").mkdir(exist_ok=True)
        with pytest.raises(TaskError, match=r"empty is empty\. It should hold train"):
            read(tmp_path / "empty", None)
        (tmp_path / "file").touch()
        with pytest.raises(TaskError, match="file is a file, not a folder"):
            read(tmp_path / "file", None)


def test_a_folder_without_train_npz_says_what_makes_one(tmp_path):
    save(tmp_path, "test.npz")
    with pytest.raises(TaskError, match=r"no train.npz in .*`domo data split` makes such"):
        load_task("digits").train_data(tmp_path, None)


# ---- a silo's own images


def paint(path: Path, color: tuple[int, int, int] = (255, 0, 0), size: int = 32) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (size, size), color).save(path)


def test_images_get_the_number_of_their_class_even_where_a_class_is_missing(tmp_path):
    paint(tmp_path / "train" / "truck" / "a.png", (255, 0, 0))
    paint(tmp_path / "train" / "cat" / "deep" / "b.JPG")
    paint(tmp_path / "val" / "dog" / "c.png", size=50)
    (tmp_path / "train" / "cat" / "notes.txt").write_text("no image")
    (tmp_path / "train" / ".hidden").mkdir()
    task = load_task("cifar10-cnn")
    train, test = task.train_data(tmp_path, None), task.eval_data(tmp_path, None)
    assert train.labels.tolist() == [3, 9]
    assert test.labels.tolist() == [5]
    assert test.inputs.shape == (1, 3, 32, 32)
    red = train[1][0][:, 0, 0]
    assert red.tolist() == pytest.approx(
        [(1 - 0.4914) / 0.2470, -0.4822 / 0.2435, -0.4465 / 0.2616], abs=1e-4
    )


def test_one_image_in_ten_is_held_out_where_there_are_no_parts(tmp_path, caplog):
    for i in range(30):
        paint(tmp_path / ("cat" if i % 2 else "dog") / f"{i}.png", (i, 0, 0))
    task = load_task("imagefolder:2")
    with caplog.at_level(logging.INFO):
        train, test = task.train_data(tmp_path, None), task.eval_data(tmp_path, None)
    assert (len(train), len(test)) == (27, 3)
    seen = torch.cat([train.inputs, test.inputs])[:, 0, 0, 0].tolist()
    assert sorted(seen) == list(range(30))
    assert "3 of 30 images are held out for evaluation" in caplog.text
    assert torch.equal(task.eval_data(tmp_path, None).inputs, test.inputs)


def test_a_folder_with_only_a_test_part_can_evaluate(tmp_path):
    paint(tmp_path / "test" / "cat" / "a.png")
    task = load_task("cifar10-cnn")
    assert len(task.eval_data(tmp_path, None)) == 1
    with pytest.raises(TaskError, match="no training images in"):
        task.train_data(tmp_path, None)


def test_a_silo_without_test_images_does_not_evaluate(tmp_path):
    paint(tmp_path / "train" / "cat" / "a.png")
    assert load_task("cifar10-cnn").eval_data(tmp_path, None) is None


def test_classes_txt_lets_silos_agree_on_numbers(tmp_path, caplog):
    paint(tmp_path / "train" / "zebra" / "a.png")
    (tmp_path / "classes.txt").write_text("zebra\nemu\n\n yak \n")
    assert load_task("imagefolder:3").train_data(tmp_path, None).labels.tolist() == [0]


def test_classes_by_folder_name_are_said_once(tmp_path, caplog):
    paint(tmp_path / "train" / "yak" / "a.png")
    paint(tmp_path / "test" / "emu" / "a.png")
    task = load_task("imagefolder:2")
    with caplog.at_level(logging.INFO):
        assert task.train_data(tmp_path, None).labels.tolist() == [1]
        assert task.eval_data(tmp_path, None).labels.tolist() == [0]
        task.meaning(tmp_path, None)
    assert caplog.text.count("classes by folder name: emu, yak") == 1


@pytest.mark.parametrize(
    ("task", "classes", "text"),
    [
        ("imagefolder:3", None, r"has 1 class, the task has 3\. .*put a classes.txt"),
        ("imagefolder:2", "cat\ncat\n", "classes.txt names a class twice"),
        ("imagefolder:2", "dog\nemu\n", r"train/cat is not a class of the task\..* are dog, emu"),
        (
            "cifar10-cnn",
            "cat\ndog\n",
            "does not list the classes of the task: they differ in airpl",
        ),
        ("svhn-resnet20", None, "train/cat is not a class of the task. The classes are 0, 1"),
    ],
)
def test_classes_that_are_not_the_tasks(tmp_path, task, classes, text):
    paint(tmp_path / "train" / "cat" / "a.png")
    if classes:
        (tmp_path / "classes.txt").write_text(classes)
    with pytest.raises(TaskError, match=text):
        load_task(task).train_data(tmp_path, None)


def test_a_misspelt_class_suggests_the_nearest(tmp_path):
    paint(tmp_path / "train" / "aeroplane" / "a.png")
    with pytest.raises(TaskError, match="Did you mean airplane"):
        load_task("cifar10-cnn").train_data(tmp_path, None)


def test_a_folder_one_level_too_high_is_recognised(tmp_path):
    paint(tmp_path / "cifar10" / "train" / "cat" / "a.png")
    with pytest.raises(TaskError, match=r"one level down; give --data .*cifar10$"):
        load_task("cifar10-cnn").train_data(tmp_path, None)


def test_no_images_and_broken_images(tmp_path):
    task = load_task("cifar10-cnn")
    (tmp_path / "train" / "cat").mkdir(parents=True)
    with pytest.raises(
        TaskError, match=r"no images in .*train/CLASS/; files ending in apng, avif, bmp"
    ):
        task.train_data(tmp_path, None)
    (tmp_path / "train" / "cat" / "bad.png").write_bytes(b"not an image")
    with pytest.raises(TaskError, match=r"bad\.png cannot be read as an image"):
        task.train_data(tmp_path, None)


def test_cifar_shards_are_read_from_an_image_folder_once(tmp_path, monkeypatch):
    for i in range(8):
        paint(tmp_path / "train" / ("cat" if i % 2 else "dog") / f"{i}.png", (i, 0, 0))
    opened: list[Path] = []
    real = Image.open

    def spy(path, **kwargs):
        opened.append(path)
        return real(path, **kwargs)

    monkeypatch.setattr("domo.tasks.images.decoding.Image.open", spy)
    parts = [load_task("cifar10-cnn").train_data(tmp_path, Shard(i, 2, 0.0)) for i in range(2)]
    assert [p.labels.tolist() for p in parts] == [[3] * 4, [5] * 4]
    assert len(opened) == 8


# ---- augmentation


def test_augmentation_is_a_function_of_the_generator():
    task = load_task("cifar10-cnn")
    batch = torch.randn(16, 3, 32, 32), torch.arange(16)
    one, two, other = (
        task.augment(batch, torch.Generator().manual_seed(seed))[0] for seed in (1, 1, 2)
    )
    assert torch.equal(one, two)
    assert not torch.equal(one, other)


def test_augmentation_crops_pads_with_black_and_flips():
    task = load_task("cifar10-cnn")
    black = -torch.tensor(task.statistics.mean) / torch.tensor(task.statistics.std)
    images = torch.arange(3 * 32 * 32).float().view(1, 3, 32, 32).repeat(200, 1, 1, 1) + 10
    out, labels = task.augment((images, torch.arange(200)), torch.Generator().manual_seed(0))
    assert labels.tolist() == list(range(200))
    padded = black.view(3, 1, 1).repeat(1, 40, 40)
    padded[:, 4:36, 4:36] = images[0]
    crops = {}
    for top in range(9):
        for left in range(9):
            crop = padded[:, top : top + 32, left : left + 32]
            crops[crop.contiguous().numpy().tobytes()] = (top, left, False)
            crops[crop.flip(2).contiguous().numpy().tobytes()] = (top, left, True)
    found = [crops[image.numpy().tobytes()] for image in out]
    tops, lefts, flips = map(set, zip(*found, strict=True))
    assert tops == lefts == set(range(9))
    assert 60 < sum(f for *_, f in found) < 140
    assert flips == {True, False}
