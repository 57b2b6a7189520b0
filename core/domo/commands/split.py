"""Deal a dataset out to silos: the paper's similarity split, in memory or as one folder a silo.

A silo that trains on its folder sees the same samples as one that trains on the same shard of the
public dataset.
"""

import os
import shutil
from pathlib import Path
from typing import get_args

import torch
from PIL import Image
from torch import Tensor

from domo.errors import ConfigError
from domo.ops.console import say
from domo.ops.words import counted
from domo.tasks import load_task
from domo.tasks.array_task import ArrayTask
from domo.tasks.arrays import check_folder, write_arrays
from domo.tasks.base import ArrayDataset, Shard, Task
from domo.tasks.image_task import ImageTask
from domo.tasks.images.finding import class_names, image_files
from domo.tasks.images.folders import Part
from domo.tasks.images.reading import progress
from domo.tasks.shards import eval_split, similarity_split

__all__ = ["similarity_split", "split_data", "write_silo_folders"]


def split_data(
    task_name: str, data_root: Path, num_silos: int, similarity: float, seed: int, out: Path
) -> None:
    """Write one data folder for each silo, and say what to type next (`domo data split`).

    Args:
        task_name: A named task.
        data_root: Where its dataset is, or is downloaded to.
        num_silos: K.
        similarity: s in [0, 1].
        seed: Seed of the split.
        out: Gets the folders silo-0 ... silo-(K-1).

    Raises:
        ConfigError: A wrong number, a task of the user's own, or folders that are already there.
        TaskError: No such task, or its data cannot be read.
    """
    folders = write_silo_folders(load_task(task_name), data_root, num_silos, similarity, seed, out)
    say(f"{counted(num_silos, 'folder')} in {out}, similarity {similarity:g}. Next, at each silo:")
    say(f"  domo-client --server localhost:50051 --task {task_name} --data {folders[0]}")


def write_silo_folders(
    task: Task, data_root: Path, num_silos: int, similarity: float, seed: int, out: Path
) -> list[Path]:
    """Write one folder for each silo in the form that the task reads as a silo's own data.

    The training set is dealt by similarity, the test set in turn. Image files are hard-linked
    where the file system can, else copied.

    Args:
        task: A task of this package.
        data_root: Where its dataset is.
        num_silos: K.
        similarity: s in [0, 1].
        seed: Seed of the split.
        out: Gets the folders.

    Returns:
        The folders.

    Raises:
        ConfigError: A wrong number, a task of another kind, or folders that are already there.
        TaskError: The data cannot be read.
    """
    if num_silos < 1:
        raise ConfigError(f"cannot deal data to {num_silos} silos: give 1 or more")
    folders = [out / f"silo-{i}" for i in range(num_silos)]
    there = [f for f in folders if f.exists()]
    if there:
        raise ConfigError(f"{there[0]} is already there: remove it or give another --out")
    if isinstance(task, ArrayTask):
        for i, folder in enumerate(progress(folders, "writing folders", 1)):
            shard = Shard(i, num_silos, similarity, seed)
            write_arrays(folder / "train.npz", task.train_data(data_root, shard))
            test = task.eval_data(data_root, shard)
            if test is not None and len(test):
                write_arrays(folder / "test.npz", test)
    elif isinstance(task, ImageTask):
        for part in get_args(Part):
            _write_part(task, data_root, part, folders, similarity, seed)
    else:
        raise ConfigError("only the data of named tasks can be split (`domo tasks` lists them)")
    return folders


def _write_part(
    task: ImageTask, root: Path, part: Part, folders: list[Path], similarity: float, seed: int
) -> None:
    if task.reads_images(root):
        check_folder(root, task.data_hint)
        names = class_names(root, task.classes, task.num_classes)
        files = image_files(root, part, names).files
        labels = torch.tensor([f.label for f in files], dtype=torch.int64)
    else:
        data = task.whole(root, part)
        names, files, labels = list(task.classes or ()), [], data.labels
    if not len(labels) and part == "test":
        return
    if part == "train":
        where = similarity_split(labels, len(folders), similarity, seed)
    else:
        where = eval_split(len(labels), len(folders))
    jobs = [
        (folder, int(i)) for folder, indices in zip(folders, where, strict=True) for i in indices
    ]
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
        text = "".join(f"{name}\n" for name in names)
        (folder / "classes.txt").write_text(text, encoding="utf-8")
    for folder, i in progress(jobs, f"writing {part} images", 1):
        target = folder / part / names[int(labels[i])]
        target.mkdir(parents=True, exist_ok=True)
        if files:
            _link(files[i].path, target / files[i].name)
        else:
            _save(data, i, target / f"{i:06d}.png")


def _link(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source.resolve(), target)
    except OSError:  # another file system
        shutil.copy2(source, target)


def _save(data: ArrayDataset, index: int, path: Path) -> None:
    pixels: Tensor = data.inputs[index]
    Image.fromarray(pixels.permute(1, 2, 0).contiguous().numpy()).save(path)
