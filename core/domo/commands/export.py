"""What `domo export` does: a model of domo, as a file that other tools load, with its card."""

import json
from collections.abc import Iterable
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory
from typing import Literal, get_args

import torch
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn
from torch import Tensor

from domo.errors import ConfigError, TaskError
from domo.inputs.images import ImageSettings
from domo.model.card import card_in
from domo.model.card_text import markdown
from domo.model.given import load_given
from domo.model.layout import Layout, Section
from domo.model.model_file import check_content, open_model, pack, save_model
from domo.model.tensor_file import TensorFile
from domo.names import GARBLED
from domo.ops.console import console, say
from domo.remote.token import reader
from domo.remote.which import find_run
from domo.storage.files import write_at
from domo.tasks import load_task
from domo.tasks.base import Task
from domo.training.initial import build_model

Format = Literal["torch", "safetensors"]
ENDINGS: dict[str, Format] = {
    ".safetensors": "safetensors",
    ".pt": "torch",
    ".pth": "torch",
    ".bin": "torch",
}
"""Endings of files; the first of a format is the one it gets by default."""
FINAL, BEST = "model.safetensors", "best.safetensors"
CARD_FILE = "README.md"


def export(
    source: str,
    form: str | None,
    out: Path,
    server: str,
    task_name: str | None,
    force: bool,
    best: bool = False,
    token_file: Path | None = None,
) -> None:
    """Write a model and its card.

    Args:
        source: A file, the folder of a run, or a run at a coordinator.
        form: A `Format`; by the ending of `out`, or safetensors, by default.
        out: A folder, or a file with one of `ENDINGS`.
        server: The coordinator's dashboard.
        task_name: The task whose module the model has to fit; what the file names is not imported.
        force: Write over what is there.
        best: The best model of the run that was tested, not its newest.
        token_file: A token for that coordinator.

    Raises:
        ConfigError: A flag is wrong, something is in the way, or it is no model.
        TaskError: The task cannot be imported, or the model is not its.
        StateError: The file is damaged.
        CoordinatorUnavailableError: Nobody answers.
    """
    chosen = find_format(form, out)
    path, card_path = names(chosen, out)
    keep_off([path], force)
    room = next(p for p in path.absolute().parents if p.is_dir())  # on the same disk
    with TemporaryDirectory(dir=room, prefix=".domo-export-") as scratch:
        file = find(source, server, Path(scratch), best, token_file)
        layout, _ = open_model(file.path)
        if not check_content(file):
            say("not checked: the file has no digest, as those of older versions", style="yellow")
        card = card_in(file.metadata)
        readme = markdown(card) if card is not None else None
        if readme is not None and card_path.exists() and card_path.read_text("utf-8") != readme:
            keep_off([card_path], force)
        task = load_task(task_name, images_of(file)) if task_name else None
        made = Path(scratch) / "made"
        made.mkdir()
        note = write(file, layout, chosen, task, made / path.name)
        parts = {part: path.with_name(part.name) for part in sorted(made.iterdir())}
        keep_off(parts.values(), force)
        path.parent.mkdir(parents=True, exist_ok=True)
        for part, place in parts.items():
            part.replace(place)
    say(f"model: {path}: {note}")
    if readme is None:
        say("card:  none: checkpoints and files of older versions have none", style="yellow")
    else:
        card_path.write_text(readme, encoding="utf-8")
        say(f"card:  {card_path}")


def keep_off(paths: Iterable[Path], force: bool) -> None:
    """Do not write over files.

    Raises:
        ConfigError: One of them is there, and it is not forced.
    """
    there = next((p for p in paths if p.exists()), None)
    if there is not None and not force:
        raise ConfigError(f"{there} is there already: give another --out, or --force")


def find_format(form: str | None, out: Path) -> Format:
    """What to write.

    Raises:
        ConfigError: No such format, or `out` is named as one of another.
    """
    by_ending = ENDINGS.get(out.suffix)
    known: tuple[Format, ...] = get_args(Format)
    if form is None:
        return by_ending or "safetensors"
    chosen = next((f for f in known if f == form), None)
    if chosen is None:
        raise ConfigError(f"--format {form!r}: must be {', '.join(known)}")
    if by_ending not in (None, chosen):
        raise ConfigError(f"--out {out} is named as {by_ending}, and --format is {form}")
    return chosen


def names(form: Format, out: Path) -> tuple[Path, Path]:
    """The model's file and the card's: README.md in a folder, else beside it with its name."""
    if out.suffix in ENDINGS:
        return out, out.with_suffix(".md")
    ending = next(e for e, f in ENDINGS.items() if f == form)
    return out / f"model{ending}", out / CARD_FILE


def find(
    source: str, server: str, scratch: Path, best: bool = False, token_file: Path | None = None
) -> TensorFile:
    """The model's file: local, made of a checkpoint, or fetched from a coordinator.

    Raises:
        ConfigError: No such file or run, or it is no model.
    """
    path = Path(source)
    if path.is_dir():
        path = best_in(path) if best else path / FINAL
        if not path.exists():
            raise ConfigError(f"there is no {FINAL} in {source}: the run has not ended, or is none")
    elif not path.exists() and (path.suffix in ENDINGS or len(path.parts) > 1):
        raise ConfigError(f"there is no file {source}")
    elif not path.exists():
        return TensorFile.open(fetch(source, server, scratch, best, token_file))
    elif best:
        raise ConfigError(f"--best is of a run or its folder; {source} is one file")
    file = TensorFile.open(path)
    return file if "domo_layout" in file.metadata else from_checkpoint(file, scratch / FINAL)


def best_in(folder: Path) -> Path:
    """The best model in the folder of a run; the last one may be it.

    Raises:
        ConfigError: There is none.
    """
    if (folder / BEST).exists():
        return folder / BEST
    path = folder / FINAL
    card = card_in(TensorFile.open(path).metadata) if path.exists() else None
    if card is None or card.best_index != card.round_index:
        raise ConfigError(
            f"there is no {BEST} in {folder}: no model was tested by the run's primary metric, or "
            "the run has not ended"
        )
    return path


def fetch(
    run_id: str, server: str, folder: Path, best: bool = False, token_file: Path | None = None
) -> Path:
    """The newest or the best model of a run, with a bar on a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    bar = Progress(
        *columns,
        TransferSpeedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with bar, reader(server, token_file) as coordinator:
        run_id = find_run(coordinator, run_id)
        fetched = bar.add_task(f"fetching {run_id}", total=None)

        def show(done: int, total: int | None) -> None:
            bar.update(fetched, completed=done, total=total)

        return coordinator.download_model(run_id, folder, show, best)


def from_checkpoint(file: TensorFile, path: Path) -> TensorFile:
    """A whole model of a coordinator's checkpoint and the x_0 of its run.

    Raises:
        ConfigError: It is no checkpoint, or x_0 is not where a run has it.
    """
    if not {"x", "m"} <= {s.name for s in file.specs}:
        raise ConfigError(
            f"{file.path} holds tensors, but no model that domo wrote: its layout is missing. Give "
            f"{FINAL} of a run, a checkpoint in its folder, or a run at a coordinator"
        )
    x0 = file.path.parent.parent / "x0.safetensors"
    if not x0.exists():
        raise ConfigError(
            f"{file.path} is a coordinator's checkpoint; it needs the layout that lies in {x0}, "
            "which is not there"
        )
    layout, initial = open_model(x0)
    vectors = pack(layout, {e.name: initial.read(e.name) for e in layout.entries})
    vectors[Section.TRAINABLE] = file.read("x")
    for section in (Section.FLOAT_BUFFER, Section.INTEGER_BUFFER):
        vectors[section] = file.read(section.value)
    kept = {k: v for k, v in initial.metadata.items() if k in ("task", "seed", "images")}
    save_model(path, layout, vectors, kept | {"round_index": file.metadata["round_index"]})
    return TensorFile.open(path)


def images_of(file: TensorFile) -> ImageSettings | None:
    """The image settings that a model was trained with, if it says so."""
    try:
        told = file.metadata.get("images") or json.loads(file.metadata["config"])["images"]
        if isinstance(told, str):
            told = json.loads(told)
        return None if told is None else ImageSettings.model_validate(told)
    except GARBLED:
        return None


def write(file: TensorFile, layout: Layout, form: Format, task: Task | None, path: Path) -> str:
    """Write the model in a format; what is to be said of it."""
    notes = [f"{layout.num_params:,} trained parameters"]
    if form == "safetensors":
        copyfile(file.path, path)
    if form == "torch":
        state = state_dict(file, layout)
        try:
            torch.save(state, path)
        except RuntimeError:  # torch's writer does not say what the disk said
            with path.open("r+b") as again:
                size = sum(t.numel() * t.element_size() for t in state.values())
                write_at(again.fileno(), 0, memoryview(bytes(size)))
            raise
    if task is not None:
        module = build_model(task, 0)
        if differs := load_given(module, state_dict(file, layout)):
            raise TaskError(f"the model is not one of the task's: {differs}")
        notes.append("it loads into the task's module")
    return "; ".join(notes)


def state_dict(file: TensorFile, layout: Layout) -> dict[str, Tensor]:
    """All tensors by name; tied ones are one tensor under several names."""
    state = {e.name: file.read(e.name) for e in layout.entries}
    return state | {alias: state[name] for alias, name in layout.aliases.items()}
