"""A recipe: one table or figure of the paper as data, and the runs that it is made of.

A recipe is a TOML file: panels (the plots of a figure, the columns of a table), rows (methods, or
values of a constant), settings for each scale, the numbers that the paper prints, and the claims to
check. Those of the paper are in the folder `recipes` beside this file; anybody's own is a path.

Settings of a run are laid over one another in this order: the scale's, the panel's, the panel's for
the scale, the row's, the method's for the scale, and what was typed; the seed comes last.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from domo.errors import ConfigError
from domo.names import alike
from domo.ops.config_file import load_toml, validate
from domo.run_config import RunConfig

Scale = Literal["paper", "small", "tiny"]
SCALES: tuple[Scale, ...] = ("paper", "small", "tiny")
"""The paper's settings; minutes on two cores; seconds, for tests, of which no number means much."""
Settings = dict[str, Any]
Drawn = Literal["curves", "rows", "heatmap", "values"]
ORDER = ("figure-2", "heatmap", "figure-4", "alpha-beta", "svhn", "cifar100")
"""As they come in the paper."""
SYMBOLS = {
    "server_momentum": "mu_s",
    "local_momentum": "mu_l",
    "server_lr": "alpha",
    "fusion_coef": "beta",
}
"""Keys of a grid to the paper's letters, as rows are called by them."""
TINY: Settings = {
    "task": "digits",
    "num_silos": 16,
    "num_rounds": 3,
    "local_epochs": 1.0,
    "lr_milestones": [0.6, 0.8],
}
"""Of every recipe: its cells in full, each of a fraction of a second."""
STRICT = ConfigDict(frozen=True, extra="forbid")


class Printed(BaseModel):
    """What the paper prints of a cell: test accuracy, per cent; without a std where it has none."""

    model_config = STRICT

    mean: float
    std: float | None = None


class ClaimSpec(BaseModel):
    """Something that the paper says of the numbers.

    Attributes:
        says: In words.
        check: Name of a function of `domo.experiments.claims`.
        printed: The difference that the paper prints, points.
        given: Further arguments of the function.
    """

    model_config = STRICT

    says: str
    check: str
    printed: float | None = None
    given: dict[str, Any] = {}


class Panel(BaseModel):
    """One plot of a figure, or one column of a table.

    Attributes:
        name: Its heading.
        set: Settings at every scale.
        scales: Further ones at a scale.
        grid: As of the recipe, in its place.
        printed: Row to what the paper prints.
    """

    model_config = STRICT

    name: str
    set: Settings = {}
    scales: dict[Scale, Settings] = {}
    grid: dict[str, tuple[float, ...]] = {}
    printed: dict[str, Printed] = {}


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a plot, or one entry of a table's first column.

    Attributes:
        name: A method, or values of constants as in `mu_s = 0.9, mu_l = 0.6`.
        set: Its settings.
        at: Key of the grid to value; empty where rows are methods.
    """

    name: str
    set: Settings
    at: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Cell:
    """One run: a row of a panel with a seed."""

    panel: str
    row: str
    seed: int
    config: RunConfig

    @property
    def key(self) -> str:
        """What it is called where people read it."""
        return f"{self.panel} | {self.row} | seed {self.seed}"


class Variant(BaseModel):
    """A row with a name and settings of its own, such as a method with another optimizer inside."""

    model_config = STRICT

    name: str
    set: Settings


class Recipe(BaseModel):
    """A table or a figure.

    Attributes:
        name: What people type.
        title: What it shows, in a line.
        paper: Where it is in the paper.
        notes: What a reader should know of the settings.
        drawn: How its plot looks.
        seeds: Of each row of each panel.
        methods: Rows are these methods; or
        grid: rows are all combinations of these values of constants; or
        variants: rows are these.
        panels: In order.
        scales: Settings of all runs at a scale.
        by_method: Scale to method to settings.
        claims: What the paper says of it.
    """

    model_config = STRICT

    name: str
    title: str
    paper: str
    notes: str = ""
    drawn: Drawn
    seeds: Annotated[tuple[int, ...], Field(min_length=1)] = (0, 1, 2)
    methods: tuple[str, ...] = ()
    grid: dict[str, tuple[float, ...]] = {}
    variants: tuple[Variant, ...] = ()
    panels: Annotated[tuple[Panel, ...], Field(min_length=1)]
    scales: dict[Scale, Settings]
    by_method: dict[Scale, dict[str, Settings]] = {}
    claims: tuple[ClaimSpec, ...] = ()

    @model_validator(mode="after")
    def _relations(self) -> Self:
        for panel in self.panels:
            grid = panel.grid or self.grid
            if sum(map(bool, (self.methods, grid, self.variants))) != 1:
                text = "give methods, or a grid, or variants"
                raise ValueError(f"rows of {panel.name!r}: {text}")
            if odd := sorted(grid.keys() - SYMBOLS.keys()):
                raise ValueError(f"a grid is over {', '.join(SYMBOLS)}, not over {odd[0]}")
            names = [row.name for row in self.rows(panel)]
            if odd := sorted(panel.printed.keys() - set(names)):
                raise ValueError(f"printed has {odd[0]!r}, which is no row of {panel.name!r}")
        names = [panel.name for panel in self.panels]
        if len(set(names)) < len(names):
            raise ValueError("two panels have one name")
        return self

    def rows(self, panel: Panel) -> Iterator[Row]:
        """The rows of a panel in order."""
        for method in self.methods:
            yield Row(method, {"method": method}, {})
        for variant in self.variants:
            yield Row(variant.name, variant.set, {})
        grid = {} if self.methods else panel.grid or self.grid
        for values in itertools.product(*grid.values()) if grid else ():
            at = dict(zip(grid, values, strict=True))
            name = ", ".join(f"{SYMBOLS[key]} = {value:g}" for key, value in at.items())
            yield Row(name, {**at, **_limit_of(at)}, at)

    def cells(
        self,
        scale: Scale,
        seeds: Sequence[int] = (),
        typed: Mapping[str, Any] | None = None,
    ) -> list[Cell]:
        """All runs at a scale, seed by seed, so that data that several share are read once.

        Args:
            scale: Which settings.
            seeds: In place of the recipe's.
            typed: Settings that win over those of the recipe.

        Raises:
            ConfigError: It has no such scale, or a setting is wrong; names the cell and the key.
        """
        base = (
            {**TINY, **self.scales.get("tiny", {})} if scale == "tiny" else self.scales.get(scale)
        )
        if base is None:
            known = ", ".join(self.scales)
            raise ConfigError(f"{self.name} has no scale {scale}: it has {known}")
        made = []
        for seed, panel in itertools.product(seeds or self.seeds, self.panels):
            for row in self.rows(panel):
                given = {**base, **panel.set, **panel.scales.get(scale, {}), **row.set}
                method = str(given.get("method", "DOMO"))
                given |= self.by_method.get(scale, {}).get(method, {})
                given |= {**(typed or {}), "seed": seed}
                where = f"{self.name}, {panel.name}, {row.name}"
                made.append(Cell(panel.name, row.name, seed, validate(RunConfig, given, where)))
        return made


def _limit_of(at: Mapping[str, float]) -> Settings:
    """The method that DOMO becomes where a momentum is 0, as the heat map's caption means it."""
    no_server, no_local = at.get("server_momentum") == 0, at.get("local_momentum") == 0
    if no_server:
        return {"method": "FedAvg" if no_local else "FedAvgLM"}
    return {"method": "FedAvgSM"} if no_local else {}


def load_recipe(name: str) -> Recipe:
    """A recipe of the paper by name, or anybody's by the path of its file.

    Raises:
        ConfigError: There is none, or something in it is wrong; names the key.
    """
    own = Path(name)
    if own.suffix == ".toml":
        return validate(Recipe, {"name": own.stem, **load_toml(own)}, own)
    if name not in ORDER:
        near = alike(name, ORDER)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ConfigError(
            f"there is no recipe {name!r}.{hint} There are {', '.join(ORDER)}, `all`, and files of "
            "your own, such as mine.toml"
        )
    file = resources.files("domo.experiments") / "recipes" / f"{name}.toml"
    with resources.as_file(file) as path:
        return validate(Recipe, {"name": name, **load_toml(path)}, path)


def load_recipes(names: Sequence[str]) -> list[Recipe]:
    """Several, each once; `all`: those of the paper.

    Raises:
        ConfigError: As `load_recipe`.
    """
    wanted = itertools.chain.from_iterable(ORDER if n == "all" else (n,) for n in names)
    return [load_recipe(name) for name in dict.fromkeys(wanted)]
