"""Whether two silos mean the same, and where they do not, in words.

What is said is compared as it is. What is measured is compared in kind alone: data of two silos
may differ in any way that does not make their numbers stand for something else.
"""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import NamedTuple

from domo.errors import DataError, MeaningMismatchError
from domo.inputs.form import InputForm
from domo.meaning.value import Kind, Meaning
from domo.names import one_line
from domo.outside.text import public

SHOWN = 12
"""Names of classes in a text."""
BYTES_AND_ABOVE: set[Kind] = {"0..255", "above 255"}
OTHER_KINDS: dict[Kind, set[Kind]] = {
    "0..1": {*BYTES_AND_ABOVE, "around 0", "wide"},
    "around 0": {*BYTES_AND_ABOVE, "0..1"},
    "0..255": {"0..1", "around 0"},
    "above 255": {"0..1", "around 0"},
    "wide": {"0..1"},
}
"""Which kinds of numbers cannot be those of one way of reading: a dark picture in 16 bits may well
have no value above 255, and no picture that is scaled to 0..1 has one."""

CURES = {
    "classes": (
        "Number the classes as wanted: rename the folders, or list all wanted names in their "
        "order, one a line, in classes.txt in the data folder; a task of your own gives its list "
        "as `classes`. If the wanted list is the wrong one, the admin sets classes = [...] in the "
        "run"
    ),
    "labels": "Number the labels of the data from 0",
    "input": (
        "Read the data as the other silos do. If theirs is the wrong way, the admin drops the silo "
        "that said it first (event `meaning`), and this one starts again"
    ),
    "shape": (
        "Bring the inputs to the wanted shape. If the model takes any size, the task says so: "
        "input_form = domo.InputForm((3, None, None))"
    ),
    "unsaid": (
        "A task of your own gives their names, in the order of their numbers, as `classes`; a "
        "loop gives meaning=domo.meaning_of(data, classes=[...]) to rounds()"
    ),
    "version": "Use the same version of the task's code at all silos",
    "code": (
        "Use the same files at all silos; or, where a silo has to read its data in its own way, "
        "the admin submits the run without same_code"
    ),
}
"""What to do about a difference, by what differs."""
SAME = "Use the coordinator's version of domo here: it compares more than this one"


class Difference(NamedTuple):
    """One thing that a silo means otherwise.

    Attributes:
        what: classes, labels, input, shape, version, code, or unsaid.
        text: In words, the silo's own beside what is wanted.
    """

    what: str
    text: str


def differences(
    own: Meaning, wanted: Meaning, *, listed: bool = False, same_code: bool = False
) -> list[Difference]:
    """Where a silo means something else than is wanted; with itself: where it cannot be right.

    Args:
        own: Of the silo.
        wanted: Of the run.
        listed: The run lists its classes, so they have to be said.
        same_code: The run wants the code of the task to be the same too.
    """
    found = [Difference("classes", text) for text in _classes(own, wanted)]
    if listed and wanted.classes and not own.classes:
        text = f"it does not say its classes; the run has {numbered(wanted.classes)}"
        found.append(Difference("unsaid", text))
    count = _count(wanted) or _count(own)
    if own.labels is not None and count and not (own.labels[0] >= 0 and own.labels[1] < count):
        found.append(Difference("labels", _labels(own.labels, count)))
    found += _input(own.input, wanted.input)
    if wanted.kind in OTHER_KINDS.get(own.kind, ()):
        text = f"the numbers that the model gets are {_told(own.kind)}, wanted are"
        found.append(Difference("input", f"{text} {_told(wanted.kind)}"))
    if own.version and wanted.version and own.version != wanted.version:
        text = f"the version of the task is {own.version!r}, wanted is {wanted.version!r}"
        found.append(Difference("version", text))
    if same_code and other_code(own, wanted):
        text = f"the code of the task is {own.code}, wanted is {wanted.code} (sha256)"
        found.append(Difference("code", text))
    return found


def other_code(own: Meaning, other: Meaning) -> bool:
    """Whether both say of what code their task is, and it is not the same."""
    return bool(own.code and other.code and own.code != other.code)


def check_own(own: Meaning) -> None:
    """See that what a silo means can be right.

    Raises:
        DataError: Its labels are none of its classes.
    """
    if found := differences(own, own):
        texts = "; ".join(d.text for d in found)
        raise public(DataError(f"{texts}. {CURES[found[0].what]}"))


def check_all(classes: Sequence[str] | None, silos: Iterable[tuple[str, Meaning]]) -> None:
    """Compare silos as a coordinator does, one after another.

    Args:
        classes: As the run lists them, if it does.
        silos: Name and meaning of each.

    Raises:
        MeaningMismatchError: Names the first silo that differs.
    """
    wanted = Meaning(classes=tuple(classes or ()))
    for silo_id, own in silos:
        if found := differences(own, wanted, listed=classes is not None):
            raise mismatch(found, f"the data of {silo_id}")
        wanted = wanted.filled(own)


def mismatch(
    found: Sequence[Difference], whose: str = "this silo's data", most: int | None = None
) -> MeaningMismatchError:
    """The error of these differences, in `most` characters, with what to do about each."""
    cures = dict.fromkeys(CURES[d.what] for d in found) or {SAME: None}
    text = (
        one_line("; ".join(d.text for d in found), most)
        or "the coordinator says so, and does not say where"
    )
    return MeaningMismatchError(
        f"{whose} mean something else than the run's: {text}. {'. '.join(cures)}",
        [d.text for d in found],
    )


def unsaid(own: Meaning, wanted: Meaning) -> list[str]:
    """What is wanted and not said, so that nobody can compare it."""
    pairs = {
        "its classes": (own.classes or own.num_classes, wanted.classes),
        "the shape of inputs": (own.input.shape, wanted.input.shape),
        "the order of channels": (own.input.channels, wanted.input.channels),
        "the normalisation of inputs": (own.input.mean, wanted.input.mean),
        "the version of its task": (own.version, wanted.version),
    }
    return [what for what, (mine, theirs) in pairs.items() if theirs and not mine]


def described(meaning: Meaning) -> list[str]:
    """What is said, in words, a line for each thing."""
    form, lines = meaning.input, []
    if meaning.classes:
        lines.append(f"{len(meaning.classes)} classes: {numbered(meaning.classes)}")
    elif meaning.num_classes:
        lines.append(f"{meaning.num_classes} classes without names")
    told = [shape_text(form.shape)] if form.shape is not None else []
    told += [t for t in (form.channels, form.dtype) if t]
    if form.values or meaning.kind:
        told.append(f"values {form.values or _told(meaning.kind)}")
    if form.mean or form.std:
        told.append(_normal(form))
    told += [f"aspect by {form.aspect}"] if form.aspect else []
    told += [f"{_range(form)} read as 0 and 1"] if form.value_range else []
    if told:
        lines.append(f"inputs: {', '.join(told)}")
    if meaning.labels is not None:
        lines.append(f"labels {meaning.labels[0]}..{meaning.labels[1]}")
    if meaning.version:
        lines.append(f"version {meaning.version!r} of the task")
    return lines


def numbered(names: Sequence[str], most: int = SHOWN) -> str:
    """`cat (0), dog (1), ...`."""
    return _cut((class_text(name, i) for i, name in enumerate(names)), len(names), most)


def class_text(name: str, number: int) -> str:
    """`dog (1)`; `1`, where it is called by its number."""
    return name if name == str(number) else f"{name} ({number})"


def shape_text(shape: Sequence[int | None]) -> str:
    """`3 x 32 x 32`."""
    return " x ".join("any" if n is None else str(n) for n in shape) or "a single number"


def _cut(parts: Iterable[str], num: int, most: int = SHOWN) -> str:
    shown = [part for part, _ in zip(parts, range(most), strict=False)]
    return ", ".join(shown) + (f", ... ({num} in all)" if num > most else "")


def _count(meaning: Meaning) -> int:
    return len(meaning.classes) or meaning.num_classes


def _classes(own: Meaning, wanted: Meaning) -> list[str]:
    if not (own.classes and wanted.classes):
        mine, theirs = _count(own), _count(wanted)
        return [f"it has {mine} classes, wanted are {theirs}"] if 0 < mine != theirs > 0 else []
    if own.classes == wanted.classes:
        return []
    lists = f"its classes are {numbered(own.classes)}; wanted are {numbered(wanted.classes)}"
    return [f"{_first(own.classes, wanted.classes)}: {lists}"]


def _first(own: Sequence[str], wanted: Sequence[str]) -> str:
    """What it is about two lists of classes that differ."""
    here, there = set(own), set(wanted)
    many, few = [n for n in own if n not in there], [n for n in wanted if n not in here]
    if not many and not few:
        i = next(i for i, (a, b) in enumerate(zip(own, wanted, strict=True)) if a != b)
        return f"the order of the classes differs, {i} is {own[i]} where {wanted[i]} is wanted"
    if len(own) == len(wanted):
        renamed = ((n, _meant(n, few, own, wanted)) for n in many)
        told = _cut((f"{a} is no class, {b} is wanted" for a, b in renamed), len(many), 3)
        return f"the names of the classes differ, {told}"
    parts = [f"{_cut(many, len(many), 3)} is too many"] if many else []
    parts += [f"{_cut(few, len(few), 3)} is missing"] if few else []
    return f"it has {len(own)} classes, wanted are {len(wanted)}, {' and '.join(parts)}"


def _meant(name: str, few: Sequence[str], own: Sequence[str], wanted: Sequence[str]) -> str:
    """The wanted class that a strange one stands for: of the same number, or of a name like it."""
    there = wanted[own.index(name)]
    return there if there in few else get_close_matches(name, few[:100], 1, 0.0)[0]


def _labels(labels: tuple[int, int], count: int) -> str:
    shifted = labels[0] >= 1 and labels[1] == count
    hint = ", so they look shifted by one" if shifted else ""
    return f"labels are {labels[0]}..{labels[1]}, and {count} classes are 0..{count - 1}{hint}"


def _input(own: InputForm, wanted: InputForm) -> list[Difference]:
    found = []
    if own.shape is not None and wanted.shape is not None and not _fit(own.shape, wanted.shape):
        mine, theirs = shape_text(own.shape), shape_text(wanted.shape)
        found.append(Difference("shape", f"an input has the shape {mine}, wanted is {theirs}"))
    for what, mine, theirs in (
        ("the channels are", own.channels, wanted.channels),
        ("the type of inputs is", _plain_type(own.dtype), _plain_type(wanted.dtype)),
        ("values are", own.values, wanted.values),
        ("images of another shape are treated by", own.aspect, wanted.aspect),
        ("the values that become 0 and 1 are", _range(own), _range(wanted)),
    ):
        if mine and theirs and mine != theirs:
            found.append(Difference("input", f"{what} {mine}, wanted is {theirs}"))
    said = (own.mean or own.std) and (wanted.mean or wanted.std)
    if said and (own.mean, own.std) != (wanted.mean, wanted.std):
        text = f"the normalisation is {_normal(own)}, wanted is {_normal(wanted)}"
        found.append(Difference("input", text))
    return found


def _fit(own: Sequence[int | None], wanted: Sequence[int | None]) -> bool:
    pairs = list(zip(own, wanted, strict=False))
    return len(own) == len(wanted) and all(a == b or None in (a, b) for a, b in pairs)


def _plain_type(dtype: str) -> str:
    """float16 and float64 are numbers as float32 is: how wide they are changes no meaning."""
    kind = dtype.removeprefix("torch.").removeprefix("b").rstrip("0123456789")
    return {"uint": "int"}.get(kind, kind)


def _told(kind: Kind) -> str:
    more = {"around 0": ", as after normalisation", "wide": "far below 0 and above it"}
    return more[kind] if kind == "wide" else f"{kind or 'of no kind'}{more.get(kind, '')}"


def _normal(form: InputForm) -> str:
    parts = (("mean", form.mean), ("std", form.std))
    return ", ".join(f"{n} {_cut(map(_short, v), len(v), 4)}" for n, v in parts if v)


def _range(form: InputForm) -> str:
    return " and ".join(map(_short, form.value_range or ()))


def _short(value: float) -> str:
    return f"{value:.6g}"
