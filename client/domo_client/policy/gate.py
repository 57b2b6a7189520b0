"""A silo's policy at work: asked of each run, of its model, its data, and of each round."""

import hashlib
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from domo.errors import ConfigError
from domo.model.flat import byte_view
from domo.model.layout import Layout, Section
from domo.ops.words import counted, duration
from domo.run_config import RunConfig
from domo_client.policy.approval import Approvals
from domo_client.policy.day import Day
from domo_client.policy.policy import Chosen, Policy
from domo_client.policy.rules import of_data, of_round, refusal, verdicts
from domo_client.policy.secret import Secret

BEGUN = "policy-begun"
"""File of the runs whose first model this silo has seen, where the policy has a list of them."""
MB = 1e6
log = logging.getLogger(__name__)


def sha256_of(vector: Tensor) -> str:
    """Hex SHA-256 of a vector's bytes."""
    return hashlib.sha256(byte_view(vector)).hexdigest()


class Waits(NamedTuple):
    """Why a run, or a round, has to wait here.

    Attributes:
        reason: In words that may leave: the policy's and the run's.
        code: What kind of reason.
    """

    reason: str
    code: str


def local_now() -> datetime:
    """What time it is here, with its time zone."""
    return datetime.now().astimezone()


class Gate:
    """The policy of one silo, with what it counts and remembers.

    Args:
        given: A file, `default` or `open`; None: the file in the state folder, or the default.
        folder: The silo's state folder.
        silo_id: The silo.
        public_data: Whether it trains on public data only.

    Attributes:
        chosen: What applies, and where it is from; read again at each offer.

    Raises:
        ConfigError: The file will not do.
    """

    def __init__(
        self,
        given: str | Path | None,
        folder: Path,
        silo_id: str,
        public_data: bool = False,
    ):
        self._choose: Callable[[], Chosen] = lambda: Chosen.of(given, folder, public_data)
        self._folder, self._silo_id = folder, silo_id
        self.chosen = self._choose()
        self._day = Day(folder, lambda: local_now().astimezone(UTC))
        self._approvals = Approvals(folder)
        self._secret: Secret | None = None
        self._begun = ""  # the run whose x_0 was seen

    @property
    def policy(self) -> Policy:
        """What holds."""
        return self.chosen.policy

    def of_run(self, config: RunConfig) -> str:
        """Why a run is refused, before anything of this silo's is looked at; empty: it is not."""
        try:
            self.chosen = self._choose()
        except ConfigError:
            return "this silo's policy cannot be read"
        return refusal(verdicts(self.policy, config))

    def waits(self, run_id: str, config: RunConfig) -> Waits | None:
        """Why a run has to wait before this silo takes it up; None: it need not."""
        return self._closed() or self._unanswered(run_id, config)

    def answer(self, run_id: str, config: RunConfig) -> str:
        """Why a run is refused by a person here, or as none has said yes in time; empty: not so."""
        if self.policy.approve != "ask":
            return ""
        said = self._approvals.said(run_id, config.digest)
        if said is not None:
            return "" if said.answer == "yes" else "its operator has refused it"
        try:
            asked = self._approvals.ask(run_id, config, time.time())
        except OSError as error:  # a full disk: nobody can be asked yet
            log.warning("the run %s cannot be put to this silo's user: %s", run_id, error.strerror)
            return ""
        within_s = self.policy.approve_within_s
        late = time.time() - asked.at > within_s
        return f"nobody at this silo has approved it within {duration(within_s)}" if late else ""

    def approved_by(self, run_id: str, config: RunConfig) -> str:
        """Who has approved a run; empty: nobody."""
        said = self._approvals.said(run_id, config.digest)
        return said.by if said is not None and said.answer == "yes" else ""

    @property
    def said(self) -> dict[str, str]:
        """For the record: where the policy is from, and the SHA-256 of what it says."""
        digest = hashlib.sha256(self.policy.model_dump_json().encode()).hexdigest()
        return {"policy": self.chosen.source, "policy_sha256": digest}

    def _unanswered(self, run_id: str, config: RunConfig) -> Waits | None:
        if self.policy.approve != "ask" or self._approvals.said(run_id, config.digest):
            return None
        text = f"its operator has to approve it: domo-client approve {run_id}"
        return Waits(text, "waits-for-approval")

    def _closed(self) -> Waits | None:
        if self.policy.is_open_at(local_now()):
            return None
        text = f"hours: this silo's policy lets it work at {self.policy.hours} only"
        return Waits(text, "outside-hours")

    def of_model(self, layout: Layout, config: RunConfig) -> str:
        """Why a run is refused for its model; empty: it is not."""
        policy, mb = self.policy, sum(layout.num_bytes(s) for s in Section) / MB
        if policy.layouts is not None and layout.digest not in policy.layouts:
            return f"layouts: the model {layout.digest} is not on the list of this silo's policy"
        if policy.max_model_mb is not None and mb > policy.max_model_mb:
            return (
                f"max_model_mb: a model of {mb:.3g} MB, and this silo's policy says "
                f"{policy.max_model_mb:g} at most"
            )
        if policy.clip is not None and layout.num_bytes(Section.FLOAT_BUFFER):
            return (
                "clip: the model's buffers leave as they are, beside the update that is clipped "
                'here; let them stay here (private = ["*.running_*"]), or have no BatchNorm'
            )
        return ""

    def of_device(self, device: str) -> str:
        """Why a run is refused for where it would train; empty: it is not."""
        allowed = self.policy.devices
        if allowed is None or device in allowed or device.partition(":")[0] in allowed:
            return ""
        return f"devices: {device}, and this silo's policy says {', '.join(allowed) or 'none'}"

    def of_data(self, config: RunConfig, samples: int) -> str:
        """Why a run is refused, now that it is known how many samples there are; empty: not so."""
        return refusal(of_data(self.policy, config, self._silo_id, samples))

    def of_round(self, config: RunConfig, steps: int, local_lr: float, samples: int) -> str:
        """Why a round is refused, whatever the run's configuration says; empty: it is not."""
        verdict, policy = of_round(self.policy, config, steps, samples), self.policy
        if not verdict.ok:
            return str(verdict)
        if policy.max_steps is not None and steps > policy.max_steps:
            return f"max_steps: {counted(steps, 'step')}, and this silo's policy says " + str(
                policy.max_steps
            )
        if policy.max_step_size is not None and local_lr > policy.max_step_size:
            return (
                f"max_step_size: {local_lr:g}, and this silo's policy says {policy.max_step_size:g}"
            )
        return ""

    def of_first_model(self, run_id: str, config: RunConfig, r: int, x: Tensor, built: str) -> str:
        """Why a run is refused for the model that it begins with; empty: it is not.

        Args:
            run_id: The run.
            config: What it is.
            r: Index of the model.
            x: Its trainable parameters, as they came.
            built: SHA-256 of those that this silo has built from the run's seed.
        """
        allowed, run = self.policy.x0, f"{run_id}/{config.digest}"
        if allowed is None or self._begun == run:
            return ""
        if r > 0 and not self._saw(run):
            return "x0: this silo was not there when the run began, and cannot know its first model"
        if r == 0:
            digest = sha256_of(x)
            if digest not in allowed and not ("seed" in allowed and digest == built):
                return f"x0: a first model of SHA-256 {digest} is not on this silo's policy's list"
            self._note_begun(run)
        self._begun = run
        return ""

    def digest_built(self, vector: Tensor) -> str:
        """SHA-256 of the parameters that this silo has built, where the policy asks for it."""
        return sha256_of(vector.cpu()) if "seed" in (self.policy.x0 or ()) else ""

    def _saw(self, run: str) -> bool:
        try:
            return run in (self._folder / BEGUN).read_text(encoding="utf-8").splitlines()
        except OSError:
            return False

    def _note_begun(self, run: str) -> None:
        try:
            with (self._folder / BEGUN).open("a", encoding="utf-8") as file:
                file.write(f"{run}\n")
        except OSError as error:  # a full disk
            log.warning("after a restart this silo will not go on with %s: %s", run, error.strerror)

    def of_today(self, update: str, trains: bool, tests: bool) -> Waits | None:
        """Why a round has to wait; None: it need not.

        Args:
            update: Names the update that would leave: a round that is made again is the same one.
            trains: Whether one would leave.
            tests: Whether a model would be tested.
        """
        policy, day = self.policy, self._day
        if (closed := self._closed()) is not None:
            return closed
        if trains and day.updates >= policy.max_rounds_a_day and not day.has(update):
            most = policy.max_rounds_a_day
            text = f"max_rounds_a_day: {most} have left today, which is what the policy allows"
            return Waits(text, "daily-limit")
        if tests and day.tests >= policy.max_tests_a_day:
            most = policy.max_tests_a_day
            text = f"max_tests_a_day: {most} were tested today, which is what the policy allows"
            return Waits(text, "daily-limit")
        return None

    def note_update(self, update: str) -> None:
        """Count an update, before it leaves."""
        if not self.chosen.is_open:
            self._day.note_update(update)

    def note_test(self, trains: bool = False) -> None:
        """Count a tested model, before its numbers leave; `trains`: an update follows."""
        if not self.chosen.is_open:
            self._day.note_test(trains)

    def seed(self, run_id: str, config: RunConfig) -> int:
        """The seed of all that is drawn here in a run."""
        if not self.policy.own_order:
            return config.seed
        return self._own().order_seed(run_id, config.digest)

    def protect(self, update: Tensor) -> None:
        """Clip an update, and add noise, as the policy says; in its memory."""
        if self.policy.clip is not None:
            self._own().protect(update, self.policy.clip, self.policy.noise)

    def _own(self) -> Secret:
        self._secret = self._secret or Secret(self._folder)
        return self._secret
