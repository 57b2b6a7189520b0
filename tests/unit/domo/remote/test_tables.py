"""The table of silos, in words."""

import io

import pytest
from rich.console import Console

from domo.api.schema import SiloStatus
from domo.remote.tables import silo_table

LOADS = "loading its training data for 75 s"


@pytest.mark.parametrize(("doing", "phase"), [(LOADS, "preparing"), (None, "idle")])
def test_a_silo_that_loads_for_a_run_is_not_idle(doing: str | None, phase: str) -> None:
    silo = SiloStatus(silo_id="site-a", phase="idle", doing=doing)
    out = io.StringIO()
    Console(file=out, width=120).print(silo_table([silo], 120))
    assert f" {phase} " in out.getvalue()
    assert (LOADS in out.getvalue()) == (doing is not None)
