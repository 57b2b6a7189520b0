"""Every error that domo raises on purpose.

DomoError
  x ConfigError                   bad file, flag or argument; the CLI prints it and exits 2
    + NotFoundError               no such run, silo or model at a coordinator
    + PortError                   an address cannot be listened on: it is taken, or not ours
  x TaskError                     a task cannot be found, or its model or data is not usable
  x ProtocolError                 the peer and we disagree; never retried
    + LayoutMismatchError         the models differ
    + UnknownSiloError            no such silo, or it is not on the roster
    + SiloConflictError           two silos with one name
    + VersionError                no common protocol version
    + AccessError                 these credentials may not speak for this silo
  x TransportError                the network; retryable
    + CoordinatorUnavailableError
    + DeadlineError
    + ChecksumError
  x RoundError
    + IncompleteRoundError        fewer local steps than the run asks for
    + StrayParameterError         parameters were replaced or moved under the flat vector
    + RoundTimeoutError           too few silos in time; names who is missing
    + DivergenceError             non-finite numbers; carries round and count
  x StateError                    the state folder is locked, damaged or of another version
  x ReplayError                   a recorded run, run again, ends with other bytes
"""

from collections.abc import Sequence
from typing import Any


class DomoError(Exception):
    """Root of the tree.

    Attributes:
        retryable: Whether the same call may succeed later without anybody changing anything.
    """

    retryable = False

    def __reduce__(self) -> tuple[Any, ...]:
        """Errors pass between processes with all that they carry."""
        return _restore, (type(self), self.args, self.__dict__)


def _restore(kind: type[DomoError], args: tuple[Any, ...], state: dict[str, Any]) -> DomoError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class ConfigError(DomoError):
    """A file, flag or argument is wrong; the text says which, where, and what to do."""


class NotFoundError(ConfigError):
    """A coordinator has no run, silo or model of this name."""


class PortError(ConfigError):
    """An address cannot be listened on; it may be free later."""


class TaskError(DomoError):
    """A task cannot be imported, or what it returns cannot be trained on."""


class ProtocolError(DomoError):
    """The two ends disagree about what is being said."""


class LayoutMismatchError(ProtocolError):
    """The silo's model and the run's model have different parameters.

    Attributes:
        differences: One line for each tensor that differs.
    """

    def __init__(self, message: str, differences: Sequence[str] = ()):
        super().__init__(message)
        self.differences = tuple(differences)


class UnknownSiloError(ProtocolError):
    """A silo that the coordinator does not know, or that is not part of the run."""


class SiloConflictError(ProtocolError):
    """Another process already speaks under this silo's name."""


class VersionError(ProtocolError):
    """No protocol version is spoken by both ends."""


class AccessError(ProtocolError):
    """The peer's credentials do not allow this."""


class TransportError(DomoError):
    """The network failed; the call may be made again."""

    retryable = True


class CoordinatorUnavailableError(TransportError):
    """Nobody answers at the coordinator's address."""


class DeadlineError(TransportError):
    """A call took longer than its deadline."""


class ChecksumError(TransportError):
    """Bytes were damaged on the way."""


class RoundError(DomoError):
    """A round cannot go on."""


class IncompleteRoundError(RoundError):
    """The training loop was left with fewer steps than the run asks for.

    Attributes:
        done: Optimizer steps made.
        wanted: Optimizer steps asked for.
    """

    def __init__(self, message: str, done: int, wanted: int):
        super().__init__(message)
        self.done = done
        self.wanted = wanted


class StrayParameterError(RoundError):
    """Parameters no longer live in the flat vector.

    Attributes:
        names: The parameters that were replaced or moved.
    """

    def __init__(self, names: Sequence[str]):
        shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        super().__init__(
            f"parameters were replaced or moved after the model was handed over: {shown}. "
            "Move the model to its device before rounds(model), and change weights in place."
        )
        self.names = tuple(names)


class RoundTimeoutError(RoundError):
    """The deadline passed with too few updates.

    Attributes:
        missing: The silos that did not contribute.
    """

    def __init__(self, message: str, missing: Sequence[str] = ()):
        super().__init__(message)
        self.missing = tuple(missing)


class DivergenceError(RoundError):
    """A vector has non-finite entries.

    Attributes:
        count: How many entries are not finite.
    """

    def __init__(self, message: str, count: int = 0):
        super().__init__(message)
        self.count = count


class StateError(DomoError):
    """A state folder cannot be used; the text says why and what to do."""


class ReplayError(DomoError):
    """A recorded run, run again, ends with other bytes."""
