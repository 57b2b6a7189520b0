"""One small federation, as the examples of the OpenAPI document."""

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from domo.api.measured import MetricPoint, MetricTable, ModelTables, ModelTest, SiloTest, Spread
from domo.api.round_times import RoundTimes, SiloTimes
from domo.api.schema import (
    Event,
    History,
    Participant,
    Resources,
    RoundRecord,
    RunDetail,
    RunSummary,
    SiloDetail,
    SiloRound,
    SiloStatus,
    Status,
    StreamMessage,
)
from domo.api.silo_log import LogLine, SiloLog
from domo.model.card import (
    CardPoint,
    CardSilo,
    ModelCard,
    of_config,
)
from domo.run_config import RunConfig
from domo_server.dashboard.models import (
    ErrorBody,
    ErrorDetail,
    MethodOption,
    RunOptions,
    Session,
    TaskOption,
)

Responses = dict[int | str, dict[str, Any]]

CONFIG = {
    "name": "domo-digits",
    "task": "digits",
    "method": "DOMO",
    "num_rounds": 15,
    "num_silos": 2,
}
SUMMARY = RunSummary(
    run_id="2-domo-digits",
    name="domo-digits",
    method="DOMO",
    task="digits",
    state="OPEN",
    num_rounds=15,
    rounds_done=1,
    detail="round 2 of 15: waiting for site-b",
    accuracy=0.42,
    loss=1.91,
    latest={"accuracy": 0.42, "loss": 1.91},
    primary_metric="accuracy",
    best_index=1,
    created_at="2026-01-05T09:00:00Z",
    started_at="2026-01-05T09:00:02Z",
    waiting_s=1.0,
    training_s=2.9,
    remaining_s=31.5,
    complete=True,
)
RUN = RunDetail(
    **SUMMARY.model_dump(),
    config=CONFIG,
    roster=["site-a", "site-b"],
    num_params=7626,
    checkpoint_digest="51f3b5d8d9b0c2f0e4a7c1d2b3a49586",
    best_digest="51f3b5d8d9b0c2f0e4a7c1d2b3a49586",
    metrics=[
        MetricPoint(
            model_index=1, metrics={"accuracy": 0.42, "loss": 1.91}, num_silos=2, num_samples=360
        )
    ],
    meaning=["10 classes: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9", "inputs: 1 x 8 x 8, float32"],
    waiting_for=["site-b"],
)
TIMES = RoundTimes(
    span_s=2.1,
    collect_s=2.03,
    fold_s=0.04,
    silos={
        s: SiloTimes(fetch_at_s=0.01, fetch_s=0.02, test_s=0.1, train_s=t, upload_s=0.05, wait_s=w)
        for s, t, w in (("site-a", 1.0, 0.93), ("site-b", 1.85, 0.08))
    },
)
_OWN = {"site-a": {"accuracy": 0.4, "loss": 2.0}, "site-b": {"accuracy": 0.44, "loss": 1.82}}
TEST = ModelTest(
    **RUN.metrics[0].model_dump(),
    silos=[SiloTest(silo_id=s, metrics=own, num_samples=180) for s, own in _OWN.items()],
    spread={"loss": Spread(lowest=1.82, highest=2.0, std=0.09, worst="site-a")},
)
TABLES = ModelTables(model_index=1, tables=[MetricTable(name="r2", kind="regression", numbers={})])
ROUND = RoundRecord(
    round_index=0,
    state="COMMITTED",
    opened_at="2026-01-05T09:00:02Z",
    closed_at="2026-01-05T09:00:04Z",
    duration_s=2.1,
    local_lr=0.05,
    reference_steps=12,
    participants=[
        Participant(silo_id="site-a", weight=1, num_steps=12, update_norm=3.2, train_loss=2.05),
        Participant(silo_id="site-b", weight=1, num_steps=12, update_norm=3.4, train_loss=2.11),
    ],
    train_loss=2.08,
    drift=0.8,
    closed_by="silo",
    closed_by_silo="site-b",
    times=TIMES,
)
RESOURCES = Resources(
    gpu_memory_used_bytes=12_400_000_000,
    gpu_memory_total_bytes=85_000_000_000,
    gpu_busy=0.93,
    process_memory_bytes=2_100_000_000,
    memory_available_bytes=98_000_000_000,
    memory_total_bytes=135_000_000_000,
    disk_free_bytes=310_000_000_000,
)
SILO = SiloStatus(
    silo_id="site-b",
    phase="training",
    run_id="2-domo-digits",
    round_index=1,
    step=5,
    num_steps=12,
    loss=1.7,
    bytes_sent=30504,
    bytes_received=61008,
    num_samples=360,
    num_eval_samples=90,
    device="cuda:0",
    software_version="0.1.0",
    last_seen_s=0.4,
    phase_s=1.6,
    sent_per_s=3050.4,
    received_per_s=6100.8,
    resources=RESOURCES,
    certificate_end="2026-06-05T09:00:00.000+00:00",
)
SILO_LOG = SiloLog(
    shared=True,
    began_at="2026-01-05T08:59:00.000+00:00",
    lines=[
        LogLine(
            number=41,
            at="2026-01-05T09:00:05.120+00:00",
            level="INFO",
            text="round 2 of 15: 12 steps",
        )
    ],
)
EVENT = Event(
    event_id=17,
    at="2026-01-05T09:00:04Z",
    kind="round-committed",
    text="round 1 of 15 is committed: 2 of 2 silos",
    run_id="2-domo-digits",
)
REFUSED = Event(
    event_id=21,
    at="2026-01-05T09:00:09Z",
    kind="refused",
    text="refused an update of site-b: 12 of its values are not finite",
    run_id="2-domo-digits",
    silo_id="site-b",
    level="problem",
    colour="red",
)
DROPPED = SILO.model_copy(update={"dropped": "its GPU is being repaired"})
SILO_DETAIL = SiloDetail(
    **SILO.model_dump(),
    rounds_run_id="2-domo-digits",
    rounds=[
        SiloRound(
            round_index=0,
            state="COMMITTED",
            took_part=True,
            left_out=None,
            num_steps=12,
            update_norm=3.4,
            train_loss=2.11,
            times=TIMES.silos["site-b"],
            span_s=TIMES.span_s,
        )
    ],
    events=[REFUSED],
)
STATUS = Status(
    version="0.1.0",
    uptime_s=64.2,
    grpc_address="0.0.0.0:50051",
    tls=True,
    current_run=SUMMARY,
    num_queued=0,
    num_silos_online=2,
    silos=[SILO],
    certificate_end="2026-12-01T00:00:00.000+00:00",
)
HISTORY = History(run=RUN, rounds=[ROUND], tests=[TEST])
CARD = ModelCard(
    **of_config(RunConfig.model_validate(CONFIG)),
    run_id=RUN.run_id,
    round_index=RUN.rounds_done,
    num_params=RUN.num_params,
    silos=[
        CardSilo(silo_id="site-a", num_samples=361, rounds=1),
        CardSilo(silo_id="site-b", num_samples=360, rounds=1),
    ],
    points=[CardPoint(**point.model_dump()) for point in RUN.metrics],
    layout_digest="0d7ce9e7c6ad1c5e7f4f3b1c55d1a3b2",
    checkpoint_digest=RUN.checkpoint_digest,
    software_version="0.1.0",
    created_at=RUN.created_at,
    started_at=RUN.started_at,
)
SESSION = Session(admin=True, role="admin", name="anna")
OPTIONS = RunOptions(
    config_schema={"type": "object", "properties": {"num_rounds": {"type": "integer"}}},
    methods=[
        MethodOption(
            name="FedAvgSM",
            kind="paper",
            row="FedAvgSM",
            source=None,
            unused=["local_momentum", "fusion_coef"],
        )
    ],
    tasks=[TaskOption(name="digits", description="8x8 digits (embedded), small CNN: the demo")],
)
STREAM = (
    f"event: status\nid: {EVENT.event_id}\n"
    f"data: {StreamMessage(status=STATUS, run=RUN, events=[EVENT]).model_dump_json()}\n\n"
)

_ERRORS = {
    400: ("bad_host", "this dashboard does not answer to the name 'example.org'. Use ..."),
    401: ("unauthorized", "this needs a person with the role admin. Send 'Authorization: ..."),
    403: ("cross_origin", "this request came with the log-in cookie from another site. ..."),
    404: ("not_found", "no run '9-x'. GET /api/v1/runs lists all runs."),
    409: ("run_ended", "run '1-fedavg-digits' has ended already (FINISHED). ..."),
    413: ("too_large", "a run config is at most 1048576 bytes."),
    422: ("invalid_request", "limit: Input should be less than or equal to 1000. ..."),
    429: ("too_many_tries", "too many wrong tokens and log-ins came from 10.1.2.3 in the ..."),
    501: ("not_installed", "Parquet is not installed at the coordinator: pip install ..."),
    503: ("unavailable", "the model changed while it was being opened. Try again in a moment."),
}


def answer(
    example: BaseModel | Sequence[BaseModel], status: int = 200, description: str = "As asked."
) -> Responses:
    """The `responses` entry of a JSON answer with its example."""
    shown = (
        example.model_dump(mode="json")
        if isinstance(example, BaseModel)
        else [item.model_dump(mode="json") for item in example]
    )
    content = {"application/json": {"example": shown}}
    return {status: {"description": description, "content": content}}


def other(media_type: str, example: str, description: str) -> Responses:
    """The `responses` entry of an answer that is not JSON."""
    return {200: {"description": description, "content": {media_type: {"example": example}}}}


def errors(*statuses: int) -> Responses:
    """The `responses` entries of errors in the one shape."""
    return {status: _entry(status, *_ERRORS[status]) for status in statuses}


def silo_errors(*statuses: int) -> Responses:
    """As `errors`, of routes under /silos/{silo_id}."""
    own = {
        404: ("not_found", "no silo 'site-x'. GET /api/v1/silos lists all silos."),
        409: ("conflict", "site-b is out already: its GPU is being repaired"),
        413: ("too_large", "a reason is at most 4096 bytes, as JSON."),
        422: ("invalid_request", "reason: a text of at most 500 characters. ..."),
    }
    return {status: _entry(status, *(_ERRORS | own)[status]) for status in statuses}


def _entry(status: int, code: str, message: str) -> dict[str, Any]:
    body = ErrorBody(error=ErrorDetail(code=code, message=message, status=status))
    shown = body.model_dump(exclude_none=True)
    return {
        "model": ErrorBody,
        "description": f"`{code}`",
        "content": {"application/json": {"example": shown}},
    }
