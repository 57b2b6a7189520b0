"""Configuration from TOML, and what is wrong with it in words that an operator can act on.

Every fault is a `ConfigError` that names the file, the key, the value given and what is allowed,
and for an unknown key the nearest one that exists.
"""

import difflib
import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from domo.errors import ConfigError, Fault

M = TypeVar("M", bound=BaseModel)
Place = tuple[str | int, ...]
WORDS = {
    r"^(Input|String|Value|List|Tuple|Dictionary) should": "must",
    r"a valid (tuple|list|set)": "an array",
    r"a valid dictionary( or instance of \w+)?": "a table",
    r"a valid integer": "an integer",
    r"a valid (number|string|boolean)": r"a \1",
    r" after validation, not \d+": "",
    r", unable to (parse|interpret).*|, got a number with a fractional part": "",
}
"""pydantic's words to TOML's."""


def load_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file.

    Raises:
        ConfigError: No such file, not readable, or not TOML (names line and column).
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not a text file (UTF-8)") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from None


def load_runs(path: Path) -> list[dict[str, Any]]:
    """Read the `[[runs]]` of a TOML file, one or more.

    Raises:
        ConfigError: As `load_toml`; or there are none, or they are no tables.
    """
    runs = load_toml(path).get("runs")
    if not isinstance(runs, list) or not runs or not all(isinstance(r, dict) for r in runs):
        raise ConfigError(f"{path}: needs at least one [[runs]] table")
    return runs


def validate(
    model_class: type[M],
    data: Mapping[str, Any],
    where: str | Path,
    *,
    at: str = "",
    names: Mapping[str, str] | None = None,
) -> M:
    """Make a configuration object of plain data.

    Args:
        model_class: A pydantic model; models may be nested in it.
        data: As `load_toml` gives it.
        where: The file, or "the command line"; errors begin with it.
        at: Where in the file `data` lies, such as `runs[0]`.
        names: What to call a key instead, such as the flag that sets it.

    Raises:
        ConfigError: Everything that is wrong, a line for each fault.
    """
    try:
        return model_class.model_validate(dict(data))
    except ValidationError as error:
        faults = list(_explain(model_class, data, error, at, names or {}))
    raise _refusal(where, faults)


def validate_all(where: str | Path, *parts: Callable[[], M]) -> list[M]:
    """What several calls of `validate` make of one file; faults of all of them are told at once.

    Raises:
        ConfigError: Everything that is wrong in any of them, a line for each fault.
    """
    made, faults = [], list[Fault]()
    for part in parts:
        try:
            made.append(part())
        except ConfigError as error:
            faults += error.faults or [Fault("", str(error))]
    if faults:
        raise _refusal(where, faults)
    return made


def _refusal(where: str | Path, faults: Sequence[Fault]) -> ConfigError:
    if len(faults) == 1:
        return ConfigError(f"{where}: {faults[0]}", faults)
    lines = "\n".join(f"  {fault}" for fault in faults)
    return ConfigError(f"{where}: {len(faults)} faults\n{lines}", faults)


def _explain(
    model_class: type[BaseModel],
    data: Mapping[str, Any],
    error: ValidationError,
    at: str,
    names: Mapping[str, str],
) -> Iterator[Fault]:
    """One for each place; what several types of a union say is joined by "or"."""
    faults: dict[Place, list[Any]] = {}
    for fault in error.errors(include_url=False):
        faults.setdefault(_place(data, fault), []).append(fault)
    for place, found in faults.items():
        if any(other[: len(place)] == place and other != place for other in faults if place):
            continue  # another type of a union got further
        key = names.get(str(place[-1]), "") if len(place) == 1 else ""
        key = key or _path(at, place)
        first = found[0]
        if first["type"] == "extra_forbidden":
            near, keys = _nearest(model_class, place)
            guess = f"did you mean {near}?" if near else ""
            known = f" (known: {', '.join(keys)})" if keys and not near else ""
            yield Fault(key, f"{key}: unknown key{known}", guess)
        elif first["type"] == "missing":
            yield Fault(key, f"{key}: missing")
        elif isinstance(first["input"], Mapping) and first["type"] == "value_error":
            about = getattr(first["ctx"]["error"], "key", "")  # of a relation between keys
            text = f"{key}: {_rule(first)}" if key else _rule(first)
            yield Fault(_path(key, (about,)) if about else key, text)
        else:
            rules = " or ".join(dict.fromkeys(_rule(f) for f in found))
            yield Fault(key, f"{key} = {_show(key, first['input'])}: {rules}")


def _place(data: Any, fault: Any) -> Place:
    """The fault's location without the names of union types that pydantic puts into it."""
    place: list[str | int] = []
    new = fault["type"] in ("missing", "extra_forbidden")
    for i, part in enumerate(fault["loc"]):
        in_table = isinstance(data, Mapping) and part in data
        in_list = isinstance(data, Sequence) and isinstance(part, int) and part < len(data)
        if in_table or in_list:
            data = data[part]
        elif not (new and i == len(fault["loc"]) - 1):
            continue
        place.append(part)
    return tuple(place)


def _path(at: str, place: Place) -> str:
    text = at
    for part in place:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def _rule(fault: Any) -> str:
    """What is allowed, in TOML's words."""
    if fault["type"] == "value_error":
        return str(fault["ctx"]["error"])
    text = str(fault["msg"])
    for pydantic, ours in WORDS.items():
        text = re.sub(pydantic, ours, text)
    return text[:1].lower() + text[1:]


def _show(key: str, value: Any) -> str:
    if any(word in key.lower() for word in ("token", "password", "secret")):
        return "***"
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:57] + "..."


def _nearest(model_class: type[BaseModel], place: Place) -> tuple[str, Sequence[str]]:
    """The key that is most like an unknown one (or empty), and all keys of the model it lies in."""
    owner: type[BaseModel] | None = model_class
    for part in place[:-1]:
        if isinstance(part, str) and owner is not None:
            field = owner.model_fields.get(part)
            owner = _model_in(field.annotation) if field else None
    keys = list(owner.model_fields) if owner is not None else []
    near = difflib.get_close_matches(str(place[-1]), keys, n=1)
    return near[0] if near else "", keys


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The first pydantic model in a type such as `tuple[RunConfig, ...] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found = (_model_in(a) for a in get_args(annotation))
    return next((m for m in found if m is not None), None)
