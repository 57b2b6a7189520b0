"""The model that is a silo's own once a run is over: with its private tensors, or Ditto's v_k."""

import logging
from pathlib import Path

from torch import Tensor

from domo.model.flat import FlatModel
from domo.model.layout import Section
from domo.model.model_file import save_model
from domo.model.private import PRIVATE, private_of, private_size
from domo.training.personal import PERSONAL
from domo_client.rpc.offer import Offer
from domo_client.state.folder import SiloState

log = logging.getLogger(__name__)

OWN_FILE = "own-model.safetensors"


def save_own_model(state: SiloState, offer: Offer, flat: FlatModel, tested: int) -> Path | None:
    """Write it into the state folder, over that of an earlier run; None: there is none.

    A full disk is said in the log: the run is over in any case.

    Args:
        state: The silo's state folder.
        offer: The run.
        flat: The model, with x_r in it, or what training has made of it.
        tested: Index of the model in it, where nothing was trained since; else -1.
    """
    if not offer.config.has_own_models:
        return None
    config, layout = offer.config, flat.layout
    kept: dict[str, Tensor] = {}
    sizes = config.kept_sizes(layout.num_params, private_size(layout))
    with state.kept.reading(offer.run_id, state.kept.newest(offer.run_id)) as blocks:
        for name in (PRIVATE, PERSONAL):
            if name in blocks:
                kept[name] = blocks[name](0, sizes[name])
    sections = flat.read_all()
    if PERSONAL in kept:
        sections[Section.TRAINABLE] = kept[PERSONAL]
    elif PRIVATE in kept and tested == config.num_rounds:
        sections[Section.PRIVATE] = private_of(flat, kept)
    else:
        return None
    path = state.folder / OWN_FILE
    about = {"run_id": offer.run_id, "method": config.method, "task": config.task}
    try:
        save_model(path, layout, sections, about)
    except OSError as error:
        log.warning("this silo's own model cannot be written to %s: %s", path, error.strerror)
        return None
    log.info("this silo's own model is in %s", path)
    return path
