"""The routes that only read."""

from collections.abc import Sequence
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from domo.api.measured import ModelTables, ModelTest
from domo.api.schema import (
    MAX_EVENTS,
    NUM_EVENTS,
    Event,
    History,
    Resources,
    RoundRecord,
    RunDetail,
    RunSummary,
    SiloDetail,
    SiloStatus,
    Status,
)
from domo.api.silo_log import SiloLog
from domo.model.card_text import markdown
from domo.names import plain
from domo_server.dashboard import openapi_examples as examples
from domo_server.dashboard.access.gate import Gate, requires
from domo_server.dashboard.downloads import download, model_route
from domo_server.dashboard.errors import no_model, no_silo, not_found
from domo_server.dashboard.history import history_csv, history_parquet
from domo_server.dashboard.models import RunOptions, run_options
from domo_server.dashboard.openapi_examples import answer, errors, other, silo_errors
from domo_server.dashboard.silo_page import silo_detail
from domo_server.dashboard.stream import EventStream, StreamHub, parse_event_id, while_allowed
from domo_server.dashboard.strict import (
    EventId,
    Limit,
    LineNumber,
    RoundIndex,
    WhichModel,
    hidden_from,
    known_kinds,
    known_query,
)
from domo_server.people.person import Person
from domo_server.view.interfaces import ReadModel

PARQUET = "application/vnd.apache.parquet"


def read_routes(read: ReadModel, streams: StreamHub) -> APIRouter:
    """Everything under /api/v1 that only reads."""
    router = APIRouter(
        responses=errors(400, 401, 429),
        dependencies=[requires("viewer"), Depends(known_query)],
    )

    async def detail(run_id: str) -> RunDetail:
        run = await read.run(run_id)
        if run is None:
            raise not_found(run_id)
        return run

    async def committed_rounds(
        run_id: str, after: int = -1, limit: int | None = None
    ) -> Sequence[RoundRecord]:
        records = await read.rounds(run_id, after, limit)
        if records is None:
            raise not_found(run_id)
        return records

    @router.get("/status", responses=answer(examples.STATUS), tags=["coordinator"])
    async def status() -> Status:
        """The coordinator at a glance: the current run and all silos."""
        return await read.status()

    @router.get("/silos", responses=answer([examples.SILO]), tags=["silos"])
    async def silos() -> Sequence[SiloStatus]:
        """All silos that have ever joined, by id."""
        return await read.silos()

    async def known(silo_id: str) -> SiloStatus:
        found = next((s for s in await read.silos() if s.silo_id == silo_id), None)
        if found is None:
            raise no_silo(silo_id)
        return found

    @router.get(
        "/silos/{silo_id}",
        responses=answer(examples.SILO_DETAIL) | silo_errors(404, 422),
        tags=["silos"],
    )
    async def silo(silo_id: str) -> SiloDetail:
        """One silo: its status, the rounds it was in or left out of and why, its last events."""
        return await silo_detail(read, await known(silo_id))

    @router.get(
        "/silos/{silo_id}/resources",
        responses=answer(examples.RESOURCES) | silo_errors(404, 422),
        tags=["silos"],
    )
    async def silo_resources(silo_id: str) -> Resources:
        """Memory, GPU and disk, as it said last; what is not known is null."""
        return (await known(silo_id)).resources or Resources()

    @router.get(
        "/silos/{silo_id}/log",
        responses=answer(examples.SILO_LOG) | silo_errors(404, 422),
        tags=["silos"],
    )
    async def silo_log(
        silo_id: str,
        after: LineNumber = 0,
    ) -> SiloLog:
        """The last lines of its log, if its operator shares them (`--share-log`); not kept."""
        log = await read.silo_log(silo_id)
        if log is None:
            raise no_silo(silo_id)
        return log.model_copy(update={"lines": [x for x in log.lines if x.number > after]})

    @router.get(
        "/events",
        responses=answer([examples.EVENT, examples.REFUSED]) | errors(403, 422),
        tags=["coordinator"],
    )
    async def events(
        who: Annotated[Person, requires("viewer")],
        kinds: Annotated[Sequence[str], Depends(known_kinds)],
        after: EventId = 0,
        limit: Annotated[
            int, Query(ge=1, le=MAX_EVENTS, description="At most so many.")
        ] = NUM_EVENTS,
        run_id: Annotated[str | None, Query(description="Only of this run.")] = None,
        silo_id: Annotated[str | None, Query(description="Only of this silo.")] = None,
        level: Annotated[
            Literal["info", "problem"] | None, Query(description="Only of this level.")
        ] = None,
    ) -> Sequence[Event]:
        """The newest events, oldest of them first. Ask again with `after` = the last id.

        Log-ins, with names and addresses of people, are there for auditors and admins only.
        """
        but = hidden_from(who, kinds)
        return await read.events(after, limit, run_id, silo_id, kinds, level, but)

    @router.get(
        "/stream",
        status_code=200,
        response_class=EventStream,
        responses=other(
            "text/event-stream",
            examples.STREAM,
            "Server-sent events, until either end closes.",
        )
        | errors(422, 503),
        tags=["coordinator"],
    )
    async def stream(
        request: Request, last_event_id: Annotated[str | None, Header()] = None
    ) -> EventStream:
        """A `status` event at once and after every change, at most about ten in a second.

        The data of each is a StreamMessage: the status, the current (or newest) run, and the
        events since the message before. After 2 s of silence comes an `alive` event.
        """
        messages = streams.open(request, parse_event_id(last_event_id))
        gate: Gate = request.app.state.gate
        return EventStream(while_allowed(messages, lambda: gate.still(request)))

    @router.get("/run-options", responses=answer(examples.OPTIONS), tags=["runs"])
    async def options() -> RunOptions:
        """What a run can be made of: the schema of its config, methods and tasks."""
        return run_options()

    @router.get("/runs", responses=answer([examples.SUMMARY]), tags=["runs"])
    async def runs() -> Sequence[RunSummary]:
        """All runs, newest first."""
        return await read.runs()

    @router.get(
        "/runs/{run_id:path}/rounds",
        responses=answer([examples.ROUND]) | errors(404, 422),
        tags=["runs"],
    )
    async def rounds(
        run_id: str,
        after: RoundIndex = -1,
        limit: Limit = None,
    ) -> Sequence[RoundRecord]:
        """Its rounds, oldest first: who took part, who was left out and why, training loss."""
        return await committed_rounds(run_id, after, limit)

    async def all_tests(run_id: str, after: int = -1, limit: Limit = None) -> Sequence[ModelTest]:
        found = await read.tests(run_id, after, limit)
        if found is None:
            raise not_found(run_id)
        return found

    @router.get(
        "/runs/{run_id:path}/tests",
        responses=answer([examples.TEST]) | errors(404, 422),
        tags=["runs"],
    )
    async def tests(
        run_id: str,
        after: RoundIndex = -1,
        limit: Limit = None,
    ) -> Sequence[ModelTest]:
        """Tests of its models, oldest first: over the federation, at each silo, the spread."""
        return await all_tests(run_id, after, limit)

    @router.get(
        "/runs/{run_id:path}/tables",
        responses=answer(examples.TABLES) | errors(404, 422),
        tags=["runs"],
    )
    async def tables(run_id: str, which: WhichModel = "newest") -> ModelTables:
        """Confusion matrix, ROC and reliability curves of a model, over all silos' test data."""
        await detail(run_id)
        found = await read.tables(run_id, which)
        if found is None:
            raise no_model(run_id, which)
        return found

    @router.get(
        "/runs/{run_id:path}/history.json",
        response_model=History,
        responses=answer(examples.HISTORY) | errors(404, 422),
        tags=["runs"],
    )
    async def history(run_id: str, response: Response) -> History:
        """The run with its metrics and rounds, as one file to keep."""
        name = f"{plain(run_id)}-history.json"
        response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
        run, rounds = await detail(run_id), await committed_rounds(run_id)
        return History(run=run, rounds=rounds, tests=await all_tests(run_id))

    @router.get(
        "/runs/{run_id:path}/history.csv",
        response_class=Response,
        responses=other("text/csv", history_csv(examples.RUN, [examples.ROUND]), "As a table.")
        | errors(404, 422),
        tags=["runs"],
    )
    async def history_table(run_id: str) -> Response:
        """The rounds as a table to keep: a row for each silo in each round."""
        told = await detail(run_id), await committed_rounds(run_id), await all_tests(run_id)
        text = await run_in_threadpool(history_csv, *told)
        return download(text, "text/csv", f"{plain(run_id)}-history.csv")

    @router.get(
        "/runs/{run_id:path}/history.parquet",
        response_class=Response,
        responses=other(PARQUET, "(binary)", "The same table with types; settings are in it.")
        | errors(404, 422, 501),
        tags=["runs"],
    )
    async def history_columns(run_id: str) -> Response:
        """The same table as a Parquet file: types, null for what is not known, the run's config."""
        told = await detail(run_id), await committed_rounds(run_id), await all_tests(run_id)
        content = await run_in_threadpool(history_parquet, *told)
        return download(content, PARQUET, f"{plain(run_id)}-history.parquet")

    @router.get(
        "/runs/{run_id:path}/card",
        response_class=Response,
        responses=other("text/markdown", markdown(examples.CARD), "README.md of a model folder.")
        | errors(404, 422),
        tags=["runs"],
    )
    async def card(run_id: str, which: WhichModel = "newest") -> Response:
        """The card of the newest committed model, as Markdown; a model has it as JSON inside."""
        await detail(run_id)
        found = await read.card(run_id, which)
        if found is None:
            raise no_model(run_id, which)
        return download(await run_in_threadpool(markdown, found), "text/markdown", "README.md")

    model_route(router, read, detail)

    # the last: an id of older versions may have "/" in it
    @router.get(
        "/runs/{run_id:path}",
        responses=answer(examples.RUN) | errors(404, 422),
        tags=["runs"],
    )
    async def run(run_id: str) -> RunDetail:
        """One run: its config, its roster and the test metrics of every model so far."""
        return await detail(run_id)

    return router
