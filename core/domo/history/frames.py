"""A history's tables as data frames of pandas."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from domo.errors import ConfigError
from domo.history.tables import Column, Kind

if TYPE_CHECKING:
    from pandas import DataFrame

EXTRA = 'pip install "domo-federated[notebook]"'
_TYPES: dict[Kind, str] = {
    "integer": "Int64",
    "number": "float64",
    "text": "str",
    "flag": "boolean",
}
"""Integers and flags that may be missing stay what they are: pandas' own nullable types."""


def frame(
    columns: Mapping[str, Column], rows: Sequence[Mapping[str, Any]], index: Sequence[str]
) -> "DataFrame":
    """Rows under their columns; what a row does not have is missing.

    Args:
        columns: In the order of the frame; `attrs["units"]` of it has their units.
        rows: By name of the column.
        index: Columns that name a row.

    Raises:
        ConfigError: pandas is not installed; says how to get it.
    """
    try:
        import pandas as pd
    except ImportError:
        raise ConfigError(f"data frames need pandas: {EXTRA}") from None
    made = pd.DataFrame(
        {
            name: pd.Series([_cell(row.get(name), column) for row in rows], dtype=_type(column))
            for name, column in columns.items()
        }
    ).set_index(list(index))
    made.attrs["units"] = {name: column.unit for name, column in columns.items()}
    return made


def _type(column: Column) -> str:
    return _TYPES[column.kind]


def _cell(value: Any, column: Column) -> Any:
    if value is None and column.kind == "number":
        return float("nan")
    return value
