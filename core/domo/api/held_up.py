"""Who holds a run up, as REST has it."""

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict


class HeldUp(BaseModel):
    """Silos that hold a run up for one and the same reason."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    silo_ids: Sequence[str]
    why: str
    help: str
    """What to do."""
    last: str = ""
    """What it did last, if it is one."""
