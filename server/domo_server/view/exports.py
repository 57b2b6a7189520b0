"""What a run has made: models as files, cards, rounds, tests. It takes long: in a thread."""

from collections.abc import Sequence
from pathlib import Path

import xxhash

from domo.api.measured import ModelTest
from domo.api.schema import ENDED, RoundRecord, SiloRound
from domo.errors import StateError
from domo.model.card import ModelCard, metadata_of
from domo.model.layout import Section
from domo.model.model_file import open_model
from domo.model.tensor_file import TensorFile
from domo_server.results.numbers import model_tests
from domo_server.runs.card import make_card, of_best
from domo_server.runs.ending import BEST_FILE, MODEL_FILE
from domo_server.runs.model import of_its_files
from domo_server.runs.recovery import committed
from domo_server.store.checkpoint import FROZEN_FILE, export_model, private_section
from domo_server.store.kept import best_checkpoint
from domo_server.store.rows import RunRow
from domo_server.store.store import Store
from domo_server.view.interfaces import Which
from domo_server.view.rows import round_record, silo_round


def is_there(row: RunRow, which: Which) -> bool:
    """Whether a run has such a model: a round is committed, or a model judged."""
    return (row.checkpoint if which == "newest" else row.best_checkpoint) is not None


def final_model(folder: Path, row: RunRow, which: Which = "newest") -> Path | None:
    """The model file of a run that has ended; None: it has not, or there is none."""
    newest = which == "newest" or row.best_index == row.rounds_done
    final = folder / (MODEL_FILE if newest else BEST_FILE)
    return final if row.state in ENDED and final.exists() else None


def card_of(store: Store, folder: Path, run_id: str, which: Which) -> ModelCard | None:
    """What such a model says of itself; None: there is none."""
    row = store.run(run_id)
    if row is None or not is_there(row, which):
        return None
    layout, _ = open_model(folder / "x0.safetensors")
    return _card(store, row, which, layout.digest)


def _card(store: Store, row: RunRow, which: Which, layout_digest: str) -> ModelCard:
    return make_card(store, row if which == "newest" else of_best(row), layout_digest)


def rounds_of(
    store: Store, run_id: str, after: int, limit: int | None
) -> Sequence[RoundRecord] | None:
    """A run's rounds above an index, at most so many; None: there is no such run."""
    if store.run(run_id) is None:
        return None
    return [round_record(row) for row in store.rounds_of(run_id, after, limit)]


def parts_of(store: Store, run_id: str, silo_id: str, after: int) -> Sequence[SiloRound]:
    """A silo's part in a run's rounds above an index that were its own, oldest first."""
    parts = (silo_round(row, silo_id) for row in store.rounds_of(run_id, after))
    return [part for part in parts if part is not None]


def tests_of(
    store: Store, run_id: str, after: int, limit: int | None
) -> Sequence[ModelTest] | None:
    """Tests of a run's models above an index, at most so many; None: there is no such run."""
    row = store.run(run_id)
    if row is None:
        return None
    return model_tests(store, run_id, row.run_config().better_of, after, limit)


def exported_model(store: Store, folder: Path, run_id: str, which: Which) -> Path:
    """The newest committed x_r or the best, exported unless it is there; one call at a time.

    Raises:
        CoordinatorUnavailableError: A file of the run cannot be read.
    """
    row = store.run(run_id)  # only now: rounds go by while another model is exported
    assert row is not None
    if final := final_model(folder, row, which):
        return final
    try:
        return _export(store, folder, row, which)
    except StateError as error:
        if store.run(run_id) != row:  # its checkpoint was pruned: a newer one is committed
            return exported_model(store, folder, run_id, which)
        raise of_its_files(error) from error


def _export(store: Store, folder: Path, row: RunRow, which: Which) -> Path:
    layout, _ = open_model(folder / "x0.safetensors")
    card = _card(store, row, which, layout.digest)
    edition = xxhash.xxh3_64_hexdigest(card.model_dump_json().encode())  # tests come later
    kind = "x" if which == "newest" else "best-x"
    path = folder / "exports" / f"{kind}{card.round_index}-{edition}.safetensors"
    if not path.exists():
        if which == "newest":
            state = committed(folder, row)
        else:
            best = best_checkpoint(folder / "checkpoints", row)
            assert best is not None
            state = best
        has_frozen = layout.num_bytes(Section.FROZEN)
        frozen = TensorFile.open(folder / FROZEN_FILE) if has_frozen else None
        for old in path.parent.glob(f"{kind}*.safetensors"):
            old.unlink()
        about = metadata_of(card, row.run_config())
        private = private_section(folder / "x0.safetensors")
        export_model(path, layout, state, frozen, about, private)
    return path
