"""The newest model of a run, as silos fetch it."""

from collections.abc import Mapping

from domo.errors import CoordinatorUnavailableError, StateError
from domo.methods import Kernel
from domo.model.layout import Layout, Section
from domo.model.tensor_file import TensorFile
from domo_proto.codec import VectorId, model_digest
from domo_server.runs.wire_vector import BUFFER_IDS, WireVector
from domo_server.store.checkpoint import Checkpoint


def of_its_files(error: OSError | StateError) -> CoordinatorUnavailableError:
    """A file of a run is missing or damaged: silos wait until it is mounted, or restored."""
    return CoordinatorUnavailableError(f"{error}; mount or restore the run's files, or stop it")


def digest_of_model(made: Checkpoint) -> str:
    """What silos that have tested it say which model it was."""
    names = {VectorId.X: "x", **{v: section.value for section, v in BUFFER_IDS.items()}}
    return model_digest({v: made.digests[n] for v, n in names.items() if made.file.num_bytes(n)})


class ServedModel:
    """x_r with what belongs to it, in open files; empty until it is loaded.

    Args:
        kernel: The method's constants: they say what silos need.

    Attributes:
        layout: Of the model.
        current: x_r, m_r and the rest.
        frozen: Its frozen parameters, if any.
        vectors: What silos fetch.
    """

    def __init__(self, kernel: Kernel):
        self._kernel = kernel
        self.layout: Layout | None = None
        self.current: Checkpoint | None = None
        self.frozen: TensorFile | None = None
        self.vectors: Mapping[VectorId, WireVector] = {}
        self._previous: Checkpoint | None = None
        self._frozen_vector: WireVector | None = None

    def load(
        self,
        layout: Layout,
        current: Checkpoint,
        previous: Checkpoint | None,
        frozen: TensorFile | None,
        frozen_digest: str,
    ) -> None:
        """Take the files that a run has.

        Args:
            layout: Of the model.
            current: That of x_r.
            previous: That of x_{r-1}, where silos need it.
            frozen: Its frozen parameters, if any.
            frozen_digest: Theirs, hex.
        """
        self.layout, self.current, self.frozen, self._previous = layout, current, frozen, previous
        if frozen is not None:
            name, digest = Section.FROZEN.value, bytes.fromhex(frozen_digest)
            self._frozen_vector = WireVector(frozen, name, VectorId.FROZEN, digest, False)

    def follow(self, following: Checkpoint) -> None:
        """Go on with x_{r+1}."""
        self._previous = self.current if self._kernel.infers else None
        self.current = following

    def let_go(self) -> None:
        """Nobody fetches it any more: its files are closed, and its memory is free."""
        self.current = self.frozen = self._previous = self._frozen_vector = None
        self.vectors = {}

    def serve(self) -> None:
        """Make x_r available."""
        assert self.current is not None
        x = self.current
        names = {VectorId.X: "x"}
        if self._kernel.average and "mbar" in x:
            names[VectorId.MEAN_MOMENTUM] = "mbar"
        if self._kernel.tells_control and "c" in x:
            names[VectorId.CONTROL] = "c"
        names |= {v: section.value for section, v in BUFFER_IDS.items()}
        vectors = {
            vector_id: WireVector(x.file, name, vector_id, bytes.fromhex(x.digests[name]), True)
            for vector_id, name in names.items()
            if x.file.num_bytes(name)
        }
        if self._kernel.infers and self._previous is not None:
            digest = bytes.fromhex(self._previous.digests["x"])
            vectors[VectorId.X_PREV] = WireVector(
                self._previous.file, "x", VectorId.X_PREV, digest, False
            )
        if self._frozen_vector is not None:
            vectors[VectorId.FROZEN] = self._frozen_vector
        self.vectors = vectors
