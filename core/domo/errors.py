"""Every error that domo raises on purpose.

DomoError
  x ConfigError                   bad file, flag or argument; the CLI prints it and exits 2
    + NotFoundError               no such run, silo or model at a coordinator
    + PortError                   an address cannot be listened on: it is taken, or not ours
  x TaskError                     a task cannot be found, or its model or data is not usable
    + DataError                   its data are missing, or are not what it reads
  x ProtocolError                 the peer and we disagree; never retried
    + LayoutMismatchError         the models differ
    + MeaningMismatchError        the data mean something else
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
    + DivergenceError             numbers not finite, or beyond all training; carries the count
  x StateError                    the state folder is locked, damaged or of another version
  x ReplayError                   a recorded run, run again, ends with other bytes

Each class has a code of its own, which crosses the wire and is what advice goes by: they are listed
in docs/error-texts.md. `code_of` knows the exceptions of others too.
"""

import errno
from collections.abc import Sequence
from typing import Any, NamedTuple


class DomoError(Exception):
    """Root of the tree.

    Attributes:
        code: What kind of trouble it is, for programs: short, and the same in every version.
        retryable: Whether the same call may succeed later without anybody changing anything.
        elsewhere: What is said of it at the other end of the wire; empty: its text.
    """

    code = "error"
    retryable = False
    elsewhere = ""

    def __reduce__(self) -> tuple[Any, ...]:
        """Errors pass between processes with all that they carry."""
        return _restore, (type(self), self.args, self.__dict__)


def _restore(kind: type[DomoError], args: tuple[Any, ...], state: dict[str, Any]) -> DomoError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class Fault(NamedTuple):
    """One thing that is wrong with a configuration.

    Attributes:
        where: The key that it is about, such as `num_rounds` or `runs[0].roster[1]`; empty: none.
        what: What is wrong there, in words that name the key and what is allowed.
        advice: A guess at what was meant; may be empty.
    """

    where: str
    what: str
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.what}; {self.advice}" if self.advice else self.what


class ConfigError(DomoError):
    """A file, flag or argument is wrong; the text says which, where, and what to do.

    Attributes:
        faults: Each thing that is wrong, where a text is about keys of a configuration.
    """

    code = "config"

    def __init__(self, message: str, faults: Sequence[Fault] = ()):
        super().__init__(message)
        self.faults = tuple(faults)

    @classmethod
    def at(cls, where: str, what: str) -> "ConfigError":
        """One that is about a single key."""
        return cls(what, [Fault(where, what)])


class NotFoundError(ConfigError):
    """A coordinator has no run, silo or model of this name."""

    code = "not-found"


class PortError(ConfigError):
    """An address cannot be listened on; it may be free later."""

    code = "port"


class TaskError(DomoError):
    """A task cannot be imported, or what it returns cannot be trained on."""

    code = "task"


class DataError(TaskError):
    """The data of a task are not there, or are not what it reads."""

    code = "data"


class ProtocolError(DomoError):
    """The two ends disagree about what is being said."""

    code = "protocol"


class LayoutMismatchError(ProtocolError):
    """The silo's model and the run's model have different parameters.

    Attributes:
        differences: One line for each tensor that differs.
    """

    code = "layout-mismatch"

    def __init__(self, message: str, differences: Sequence[str] = ()):
        super().__init__(message)
        self.differences = tuple(differences)


class MeaningMismatchError(ProtocolError):
    """The silo's data mean something else than the run's: other classes, inputs, labels, version.

    Attributes:
        differences: One line for each thing that differs.
    """

    code = "meaning-mismatch"

    def __init__(self, message: str, differences: Sequence[str] = ()):
        super().__init__(message)
        self.differences = tuple(differences)


class UnknownSiloError(ProtocolError):
    """A silo that the coordinator does not know, or that is not part of the run."""

    code = "unknown-silo"


class SiloConflictError(ProtocolError):
    """Another process already speaks under this silo's name."""

    code = "silo-conflict"


class VersionError(ProtocolError):
    """No protocol version is spoken by both ends."""

    code = "version"


class AccessError(ProtocolError):
    """The peer's credentials do not allow this."""

    code = "access"


class TransportError(DomoError):
    """The network failed; the call may be made again."""

    code = "transport"
    retryable = True


class CoordinatorUnavailableError(TransportError):
    """Nobody answers at the coordinator's address."""

    code = "coordinator-unavailable"


class DeadlineError(TransportError):
    """A call took longer than its deadline."""

    code = "deadline"


class ChecksumError(TransportError):
    """Bytes were damaged on the way."""

    code = "checksum"


class RoundError(DomoError):
    """A round cannot go on."""

    code = "round"


class IncompleteRoundError(RoundError):
    """The training loop was left with fewer steps than the run asks for.

    Attributes:
        done: Optimizer steps made.
        wanted: Optimizer steps asked for.
    """

    code = "incomplete-round"

    def __init__(self, message: str, done: int, wanted: int):
        super().__init__(message)
        self.done = done
        self.wanted = wanted


class StrayParameterError(RoundError):
    """Parameters no longer live in the flat vector.

    Attributes:
        names: The parameters that were replaced or moved.
    """

    code = "stray-parameters"

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

    code = "round-timeout"

    def __init__(self, message: str, missing: Sequence[str] = ()):
        super().__init__(message)
        self.missing = tuple(missing)


class DivergenceError(RoundError):
    """A vector has entries that are not finite, or are beyond what training gives.

    Attributes:
        count: How many entries are not finite.
    """

    code = "divergence"

    def __init__(self, message: str, count: int = 0):
        super().__init__(message)
        self.count = count


class StateError(DomoError):
    """A state folder cannot be used; the text says why and what to do."""

    code = "state"


class ReplayError(DomoError):
    """A recorded run, run again, ends with other bytes."""

    code = "replay"


OUT_OF_MEMORY, DISK_FULL = "out-of-memory", "disk-full"
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Of the system: a disk, a quota or the longest file is full."""
OUTLIER = "outlier"
"""An update whose norm is far above the others'."""
CODES_BESIDE = (OUT_OF_MEMORY, DISK_FULL, OUTLIER)
"""Codes that belong to no class here: a machine's limits, and a verdict that is no exception."""


def code_of(error: BaseException) -> str:
    """The code of an exception, or of what it was made of; empty: it is nothing that is known."""
    for e in (error, error.__cause__):
        if isinstance(e, MemoryError) or type(e).__name__ == "OutOfMemoryError":  # torch's
            return OUT_OF_MEMORY
        if isinstance(e, OSError) and e.errno in FULL:
            return DISK_FULL
    return error.code if isinstance(error, DomoError) else ""
