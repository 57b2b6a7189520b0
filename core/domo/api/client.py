"""A coordinator's REST, typed: what it answers are the frozen objects of `domo.api.schema`.

    with Coordinator("http://127.0.0.1:8080", token) as coordinator:
        run = coordinator.submit({"task": "digits", "method": "DOMO", "num_rounds": 15})
        done = coordinator.wait(run.run_id)
        print(done.state, done.accuracy)

Fields that this version does not know are left out in silence, so a newer coordinator can be asked.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import httpx

from domo.api.live_run import LiveRun
from domo.api.measured import ModelTables, ModelTest
from domo.api.schema import (
    ENDED,
    NUM_EVENTS,
    Event,
    RoundRecord,
    RunSummary,
    SiloDetail,
    SiloStatus,
    Status,
    StreamMessage,
)
from domo.api.transport import (
    TIMEOUT_S,
    Rest,
    quoted,
    server_sent_events,
    understood,
)
from domo.errors import CoordinatorUnavailableError, DeadlineError, DomoError
from domo.names import plain
from domo.run_config import RunConfig

DASHBOARD = "http://127.0.0.1:8080"
"""Where a coordinator on this machine shows itself by default."""
SILENCE_S = 6.0
"""Longest silence of a stream, in which a sign of life comes every 2 s."""
PATIENCE_S = 120.0
"""How long a stream, or `wait`, tries to reach a coordinator that it has lost."""
RETRY_S = 2.0
"""Between two tries."""
POLL_S = 1.0
"""How often `wait` asks."""


class Coordinator(Rest):
    """A coordinator's REST; a context manager that hangs up. Safe to use from several threads.

    Every call may raise

    - `CoordinatorUnavailableError`: nobody answers, or the coordinator cannot for the moment;
    - `NotFoundError`: no such run, silo or model;
    - `AccessError`: the token is missing or wrong, or its role is not enough;
    - `ConfigError`: the coordinator refuses, in its own words;
    - `ProtocolError`: what answers is no coordinator that this version understands.

    Args:
        url: The dashboard's address.
        token: Shown with each call; reading needs none where the page is on loopback.
        timeout_s: Of one call.
        spare: A token that is shown once the coordinator has asked for one; not with `token`.
    """

    def again(self) -> Self:
        """Another connection to the same coordinator, with the same credentials."""
        return type(self)(self.url, self.credentials.token, spare=self.credentials.spare)

    # reading

    def status(self) -> Status:
        """The coordinator at a glance."""
        return self.get(Status, "/status")

    def runs(self) -> list[RunSummary]:
        """All runs, newest first."""
        return self.get(list[RunSummary], "/runs")

    def run(self, run_id: str) -> LiveRun:
        """One run, as it is now; its `history()` has its numbers per round and silo."""
        return self.get(LiveRun, f"/runs/{quoted(run_id)}").at(self)

    def rounds(self, run_id: str, after: int = -1) -> list[RoundRecord]:
        """Its rounds with an index above `after`, oldest first."""
        return self.pieces(
            list[RoundRecord], f"/runs/{quoted(run_id)}/rounds", after, "round_index"
        )

    def tests(self, run_id: str, after: int = -1) -> list[ModelTest]:
        """Tests of its models with an index above `after`, with each silo's own numbers."""
        return self.pieces(list[ModelTest], f"/runs/{quoted(run_id)}/tests", after, "model_index")

    def tables(self, run_id: str, best: bool = False) -> ModelTables:
        """Confusion matrix and curves of the newest model that was tested, or of the best."""
        which = "best" if best else "newest"
        return self.get(ModelTables, f"/runs/{quoted(run_id)}/tables", {"which": which})

    def silos(self) -> list[SiloStatus]:
        """All silos that have ever joined, by id."""
        return self.get(list[SiloStatus], "/silos")

    def silo(self, silo_id: str) -> SiloDetail:
        """One silo with its part in the current run, and its last events."""
        return self.get(SiloDetail, f"/silos/{quoted(silo_id)}")

    def events(
        self,
        after: int = 0,
        limit: int = NUM_EVENTS,
        run_id: str | None = None,
        silo_id: str | None = None,
        kinds: Sequence[str] = (),
    ) -> list[Event]:
        """The newest events with an id above `after` that concern all that is given."""
        wanted = {"run_id": run_id, "silo_id": silo_id, "kind": list(kinds)}
        query = {name: value for name, value in wanted.items() if value}
        return self.get(list[Event], "/events", query | {"after": after, "limit": limit})

    # changing

    def submit(self, config: RunConfig | Mapping[str, Any]) -> RunSummary:
        """Queue a run; keys as in `[[runs]]` of a configuration file."""
        given = config.model_dump(mode="json") if isinstance(config, RunConfig) else dict(config)
        return self.post(RunSummary, "/runs", given)

    def pause(self, run_id: str) -> RunSummary:
        """Hold a run until `resume`."""
        return self.post(RunSummary, f"/runs/{quoted(run_id)}/pause")

    def resume(self, run_id: str) -> RunSummary:
        """Go on with a paused run."""
        return self.post(RunSummary, f"/runs/{quoted(run_id)}/resume")

    def stop(self, run_id: str) -> RunSummary:
        """Stop a run for good."""
        return self.post(RunSummary, f"/runs/{quoted(run_id)}/stop")

    def edit(
        self,
        run_id: str,
        tags: Sequence[str] | None = None,
        notes: str | None = None,
        archived: bool | None = None,
    ) -> RunSummary:
        """Change what is said of a run; what is None stays."""
        wanted = {"tags": tags, "notes": notes, "archived": archived}
        body = {name: value for name, value in wanted.items() if value is not None}
        return self.patch(RunSummary, f"/runs/{quoted(run_id)}", body)

    def drop(self, silo_id: str, reason: str = "") -> SiloStatus:
        """Leave a silo out until `undrop`."""
        return self.post(SiloStatus, f"/silos/{quoted(silo_id)}/drop", {"reason": reason})

    def undrop(self, silo_id: str) -> SiloStatus:
        """Take a dropped silo back."""
        return self.post(SiloStatus, f"/silos/{quoted(silo_id)}/undrop")

    def rebind(self, silo_id: str) -> SiloStatus:
        """Let the next process that joins under a silo's name have it: its state folder is lost."""
        return self.post(SiloStatus, f"/silos/{quoted(silo_id)}/rebind")

    def revoke(self, silo_id: str) -> SiloStatus:
        """Let a silo in no more, and end its calls."""
        return self.post(SiloStatus, f"/silos/{quoted(silo_id)}/revoke")

    # files and time

    def download_model(
        self,
        run_id: str,
        path: Path | str,
        on_bytes: Callable[[int, int | None], None] = lambda done, total: None,
        best: bool = False,
    ) -> Path:
        """The newest committed model of a run, or the best, as a safetensors file.

        Args:
            run_id: The run.
            path: Where to put it; in a folder it gets the name `RUN-xR.safetensors`, or
                `RUN-best-xR.safetensors`.
            on_bytes: Told how many bytes are here, and of how many, where that is known.
            best: The best that was tested, by the run's primary metric.

        Returns:
            The file, which is whole.

        Raises:
            OSError: It cannot be written; names the file.
        """
        path, route = Path(path), self.api(f"/runs/{quoted(run_id)}/model")
        query = {"which": "best"} if best else {}
        with self.faults(), self.http.stream("GET", route, params=query) as answer:
            self.check(answer)
            if path.is_dir():
                name = answer.headers.get("content-disposition", "")
                told = re.search(r"-x(\d+)\.safetensors", name)
                which = f"{'best-' if best else ''}x{told[1] if told else 'latest'}"
                path /= f"{plain(run_id)}-{which}.safetensors"
            length = answer.headers.get("content-length", "")
            total, done = int(length) if length.isdecimal() else None, 0
            part = path.with_name(path.name + ".part")
            try:
                with part.open("wb") as f:
                    for block in answer.iter_bytes(1 << 20):
                        f.write(block)
                        done += len(block)
                        on_bytes(done, total)
                part.replace(path)
            except OSError as error:  # a full disk names no file
                raise OSError(error.errno, error.strerror, str(path)) from None
            finally:
                part.unlink(missing_ok=True)
        return path

    def wait(self, run_id: str, timeout_s: float | None = None) -> LiveRun:
        """Wait until a run has ended; how is its `state`.

        A coordinator that is away is waited for, PATIENCE_S at most once it has answered.

        Raises:
            DeadlineError: It has not ended in `timeout_s` seconds.
        """
        end = None if timeout_s is None else time.monotonic() + timeout_s
        heard = None
        while True:
            try:
                run = self.run(run_id)
                heard = time.monotonic()
                if run.state in ENDED:
                    return run
            except CoordinatorUnavailableError:
                if heard is None or time.monotonic() - heard > PATIENCE_S:
                    raise
            left = POLL_S if end is None else min(POLL_S, end - time.monotonic())
            if left <= 0:
                raise DeadlineError(f"run {run_id} has not ended after {timeout_s:g} s")
            time.sleep(left)

    def stream(
        self,
        after: int = 0,
        patience_s: float = PATIENCE_S,
        on_away: Callable[[DomoError], None] = lambda error: None,
    ) -> Iterator[StreamMessage]:
        """What the coordinator is doing, now and after every change; goes on until `close`.

        A connection that is lost is made again, and no event among the last 100 is missed.

        Args:
            after: Events up to this id are known already.
            patience_s: How long to try when the coordinator is away.
            on_away: Told why, before each new try.

        Raises:
            CoordinatorUnavailableError: It did not answer at first, or was away for too long.
        """
        heard = None
        while True:
            try:
                for event_id, data in self._listen(after):
                    if self.closed:
                        return
                    after = event_id or after
                    yield understood(StreamMessage, data)
                    heard = time.monotonic()
                raise CoordinatorUnavailableError(f"the coordinator at {self.url} has hung up")
            except CoordinatorUnavailableError as error:
                if self.closed:
                    return
                if heard is None or time.monotonic() - heard > patience_s:
                    raise
                on_away(error)
            time.sleep(RETRY_S)
            if self.closed:
                return

    def _listen(self, after: int) -> Iterator[tuple[int, str]]:
        """One connection's events: id and data."""
        headers = {"Last-Event-ID": str(after)} if after else {}
        timeout = httpx.Timeout(TIMEOUT_S, read=SILENCE_S)
        with (
            self.faults(),
            self.http.stream(
                "GET", self.api("/stream"), headers=headers, timeout=timeout
            ) as answer,
        ):
            self.check(answer)
            for event in server_sent_events(answer.iter_lines()):
                if event.kind == "status":
                    yield event.number, event.data
