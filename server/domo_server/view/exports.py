"""The newest committed model of a run as a file to download. It takes long: in a thread."""

from pathlib import Path

import xxhash

from domo.api.schema import ENDED
from domo.errors import StateError
from domo.model.card import metadata_of
from domo.model.layout import Section
from domo.model.model_file import open_model
from domo.model.tensor_file import TensorFile
from domo_server.runs.card import make_card
from domo_server.runs.model import of_its_files
from domo_server.runs.recovery import committed
from domo_server.store.checkpoint import FROZEN_FILE, export_model
from domo_server.store.rows import RunRow
from domo_server.store.store import Store


def final_model(folder: Path, row: RunRow) -> Path | None:
    """The model file of a run that has ended; None: it has not, or there is none."""
    final = folder / "model.safetensors"
    return final if row.state in ENDED and final.exists() else None


def newest_model(store: Store, folder: Path, run_id: str) -> Path:
    """The newest committed x_r, exported unless it is there; one call at a time.

    Raises:
        CoordinatorUnavailableError: A file of the run cannot be read.
    """
    row = store.run(run_id)  # only now: rounds go by while another model is exported
    assert row is not None
    if final := final_model(folder, row):
        return final
    try:
        return _export(store, folder, row)
    except StateError as error:
        if store.run(run_id) != row:  # its checkpoint was pruned: a newer one is committed
            return newest_model(store, folder, run_id)
        raise of_its_files(error) from error


def _export(store: Store, folder: Path, row: RunRow) -> Path:
    layout, _ = open_model(folder / "x0.safetensors")
    card = make_card(store, row, layout.digest)
    edition = xxhash.xxh3_64_hexdigest(card.model_dump_json().encode())  # tests come later
    path = folder / "exports" / f"x{card.round_index}-{edition}.safetensors"
    if not path.exists():
        state = committed(folder, row)
        has_frozen = layout.num_bytes(Section.FROZEN)
        frozen = TensorFile.open(folder / FROZEN_FILE) if has_frozen else None
        for old in path.parent.glob("*.safetensors"):
            old.unlink()
        export_model(path, layout, state, frozen, metadata_of(card, row.run_config()))
    return path
