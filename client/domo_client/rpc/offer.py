"""A run as it is offered, understood here or refused."""

import json
from typing import Any, NamedTuple

import domo
from domo.errors import ConfigError, ProtocolError
from domo.names import MOST_TITLE, one_line, shown
from domo.ops.config_file import validate
from domo.run_config import RunConfig

MOST_RUN_ID = 200
"""Characters of a run's id."""


class Offer(NamedTuple):
    """A run that wants this silo."""

    run_id: str
    title: str
    task: str
    config: RunConfig


class RefusedRunError(ProtocolError):
    """A run that this silo takes no part in, whatever its data are.

    Attributes:
        run_id: The run.
    """

    code = "refused-run"

    def __init__(self, run_id: str, text: str):
        super().__init__(text)
        self.run_id = run_id


class ContradictionError(RefusedRunError):
    """The coordinator asks for something else than the run's configuration says.

    The configuration is what this silo was told, and what its operator may have looked at; a
    coordinator that asks for one step of one sample where it says 500 wants to see the sample.
    """

    code = "contradiction"


class PolicyError(RefusedRunError):
    """A run, or what its coordinator asks for in it, that this silo's policy does not allow."""

    code = "policy"

    def __init__(self, run_id: str, why: str):
        super().__init__(run_id, f"this silo's policy refuses it: {why}")


class TooManyThreadsError(RefusedRunError):
    """A run that wants more CPU threads than this silo gives."""

    code = "too-many-threads"

    def __init__(self, run_id: str, wanted: int, most: int):
        super().__init__(
            run_id,
            f"the run wants {wanted} CPU threads, and this silo gives {most} (--max-threads). "
            "Fewer would change the bytes of its updates, so none is trained: let the run have "
            f"threads = {most} or less, or start this silo with --max-threads {wanted}",
        )


class UnknownRunError(RefusedRunError):
    """A run that another version of domo may understand; this silo declines it."""

    code = "unknown-run"

    def __init__(self, run_id: str, why: str):
        text = f"domo {domo.__version__} at this silo does not understand the run: {why}"
        super().__init__(run_id, f"{text}. Use the coordinator's version of domo")


def offer_in(message: Any) -> Offer:
    """The run of a RunOffer.

    Raises:
        UnknownRunError: It has settings, or defaults, that are not known here, or its digest is
            not that of its configuration.
        ProtocolError: It has no name by which it could be declined.
    """
    run_id = message.run_id
    if not (0 < len(run_id) <= MOST_RUN_ID and run_id.isprintable()):
        told = shown(run_id[:MOST_TITLE])
        raise ProtocolError(f"the coordinator offers a run whose id is none: {told!r}")
    config = understood(run_id, message.config_json, message.config_digest)
    return Offer(run_id, config.title, config.task, config)


def understood(run_id: str, text: str, digest: str) -> RunConfig:
    """A run's configuration, if it is understood here.

    A field that is unknown here does not count where it is at the coordinator's default: the digest
    is over the others. It is computed here, so a digest that was told alone says nothing.

    Raises:
        UnknownRunError: It is not.
    """
    try:
        fields = dict(json.loads(text))
        unknown = sorted(set(fields) - set(RunConfig.model_fields))
        known = {k: v for k, v in fields.items() if k not in unknown}
        config = validate(RunConfig, known, "its settings")
    except (ConfigError, ValueError, TypeError, RecursionError) as error:
        raise UnknownRunError(run_id, one_line(str(error))) from None
    if config.digest != digest:
        why = one_line(f"it uses {', '.join(unknown)}") if unknown else "its defaults are others"
        raise UnknownRunError(run_id, why)
    return config
