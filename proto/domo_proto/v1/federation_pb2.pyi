from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Role(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ROLE_UNSPECIFIED: _ClassVar[Role]
    TRAINER: _ClassVar[Role]
    EVALUATOR: _ClassVar[Role]

class Action(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ACTION_UNSPECIFIED: _ClassVar[Action]
    ASK_AGAIN: _ClassVar[Action]
    TRAIN: _ClassVar[Action]
    EVALUATE: _ClassVar[Action]
    END: _ClassVar[Action]

class VectorId(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    VECTOR_UNSPECIFIED: _ClassVar[VectorId]
    X: _ClassVar[VectorId]
    X_PREV: _ClassVar[VectorId]
    MEAN_MOMENTUM: _ClassVar[VectorId]
    FLOAT_BUFFERS: _ClassVar[VectorId]
    INTEGER_BUFFERS: _ClassVar[VectorId]
    FROZEN: _ClassVar[VectorId]
    UPDATE: _ClassVar[VectorId]
    LOCAL_MOMENTUM: _ClassVar[VectorId]
    CONTROL: _ClassVar[VectorId]

class UploadState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    UPLOAD_UNSPECIFIED: _ClassVar[UploadState]
    ABSENT: _ClassVar[UploadState]
    PARTIAL: _ClassVar[UploadState]
    ACCEPTED: _ClassVar[UploadState]
    STALE: _ClassVar[UploadState]

class Phase(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PHASE_UNSPECIFIED: _ClassVar[Phase]
    IDLE: _ClassVar[Phase]
    WAITING: _ClassVar[Phase]
    DOWNLOADING: _ClassVar[Phase]
    EVALUATING: _ClassVar[Phase]
    TRAINING: _ClassVar[Phase]
    UPLOADING: _ClassVar[Phase]

class Directive(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DIRECTIVE_UNSPECIFIED: _ClassVar[Directive]
    CONTINUE: _ClassVar[Directive]
    ABANDON_ROUND: _ClassVar[Directive]
    STOP_RUN: _ClassVar[Directive]
ROLE_UNSPECIFIED: Role
TRAINER: Role
EVALUATOR: Role
ACTION_UNSPECIFIED: Action
ASK_AGAIN: Action
TRAIN: Action
EVALUATE: Action
END: Action
VECTOR_UNSPECIFIED: VectorId
X: VectorId
X_PREV: VectorId
MEAN_MOMENTUM: VectorId
FLOAT_BUFFERS: VectorId
INTEGER_BUFFERS: VectorId
FROZEN: VectorId
UPDATE: VectorId
LOCAL_MOMENTUM: VectorId
CONTROL: VectorId
UPLOAD_UNSPECIFIED: UploadState
ABSENT: UploadState
PARTIAL: UploadState
ACCEPTED: UploadState
STALE: UploadState
PHASE_UNSPECIFIED: Phase
IDLE: Phase
WAITING: Phase
DOWNLOADING: Phase
EVALUATING: Phase
TRAINING: Phase
UPLOADING: Phase
DIRECTIVE_UNSPECIFIED: Directive
CONTINUE: Directive
ABANDON_ROUND: Directive
STOP_RUN: Directive

class JoinRequest(_message.Message):
    __slots__ = ("protocol_version", "software_version", "capabilities", "silo_id", "instance_id", "role", "device", "host", "session_before")
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    SOFTWARE_VERSION_FIELD_NUMBER: _ClassVar[int]
    CAPABILITIES_FIELD_NUMBER: _ClassVar[int]
    SILO_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    SESSION_BEFORE_FIELD_NUMBER: _ClassVar[int]
    protocol_version: int
    software_version: str
    capabilities: _containers.RepeatedScalarFieldContainer[str]
    silo_id: str
    instance_id: str
    role: Role
    device: str
    host: str
    session_before: str
    def __init__(self, protocol_version: _Optional[int] = ..., software_version: _Optional[str] = ..., capabilities: _Optional[_Iterable[str]] = ..., silo_id: _Optional[str] = ..., instance_id: _Optional[str] = ..., role: _Optional[_Union[Role, str]] = ..., device: _Optional[str] = ..., host: _Optional[str] = ..., session_before: _Optional[str] = ...) -> None: ...

class JoinResponse(_message.Message):
    __slots__ = ("session", "report_interval_s", "long_poll_s", "max_frame_bytes", "software_version", "capabilities")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    REPORT_INTERVAL_S_FIELD_NUMBER: _ClassVar[int]
    LONG_POLL_S_FIELD_NUMBER: _ClassVar[int]
    MAX_FRAME_BYTES_FIELD_NUMBER: _ClassVar[int]
    SOFTWARE_VERSION_FIELD_NUMBER: _ClassVar[int]
    CAPABILITIES_FIELD_NUMBER: _ClassVar[int]
    session: str
    report_interval_s: float
    long_poll_s: float
    max_frame_bytes: int
    software_version: str
    capabilities: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, session: _Optional[str] = ..., report_interval_s: _Optional[float] = ..., long_poll_s: _Optional[float] = ..., max_frame_bytes: _Optional[int] = ..., software_version: _Optional[str] = ..., capabilities: _Optional[_Iterable[str]] = ...) -> None: ...

class WaitForRunRequest(_message.Message):
    __slots__ = ("session", "declined_run_ids", "told")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    DECLINED_RUN_IDS_FIELD_NUMBER: _ClassVar[int]
    TOLD_FIELD_NUMBER: _ClassVar[int]
    session: str
    declined_run_ids: _containers.RepeatedScalarFieldContainer[str]
    told: str
    def __init__(self, session: _Optional[str] = ..., declined_run_ids: _Optional[_Iterable[str]] = ..., told: _Optional[str] = ...) -> None: ...

class WaitForRunResponse(_message.Message):
    __slots__ = ("offer", "text")
    OFFER_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    offer: RunOffer
    text: str
    def __init__(self, offer: _Optional[_Union[RunOffer, _Mapping]] = ..., text: _Optional[str] = ...) -> None: ...

class RunOffer(_message.Message):
    __slots__ = ("run_id", "title", "task", "config_json", "config_digest", "layout_digest")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    CONFIG_JSON_FIELD_NUMBER: _ClassVar[int]
    CONFIG_DIGEST_FIELD_NUMBER: _ClassVar[int]
    LAYOUT_DIGEST_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    title: str
    task: str
    config_json: str
    config_digest: str
    layout_digest: bytes
    def __init__(self, run_id: _Optional[str] = ..., title: _Optional[str] = ..., task: _Optional[str] = ..., config_json: _Optional[str] = ..., config_digest: _Optional[str] = ..., layout_digest: _Optional[bytes] = ...) -> None: ...

class EnrollRequest(_message.Message):
    __slots__ = ("session", "run_id", "config_digest", "layout_digest", "num_samples", "num_eval_samples", "meaning_json")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    CONFIG_DIGEST_FIELD_NUMBER: _ClassVar[int]
    LAYOUT_DIGEST_FIELD_NUMBER: _ClassVar[int]
    NUM_SAMPLES_FIELD_NUMBER: _ClassVar[int]
    NUM_EVAL_SAMPLES_FIELD_NUMBER: _ClassVar[int]
    MEANING_JSON_FIELD_NUMBER: _ClassVar[int]
    session: str
    run_id: str
    config_digest: str
    layout_digest: bytes
    num_samples: int
    num_eval_samples: int
    meaning_json: str
    def __init__(self, session: _Optional[str] = ..., run_id: _Optional[str] = ..., config_digest: _Optional[str] = ..., layout_digest: _Optional[bytes] = ..., num_samples: _Optional[int] = ..., num_eval_samples: _Optional[int] = ..., meaning_json: _Optional[str] = ...) -> None: ...

class EnrollResponse(_message.Message):
    __slots__ = ("enrolled", "layout_json", "meaning_json")
    ENROLLED_FIELD_NUMBER: _ClassVar[int]
    LAYOUT_JSON_FIELD_NUMBER: _ClassVar[int]
    MEANING_JSON_FIELD_NUMBER: _ClassVar[int]
    enrolled: bool
    layout_json: str
    meaning_json: str
    def __init__(self, enrolled: bool = ..., layout_json: _Optional[str] = ..., meaning_json: _Optional[str] = ...) -> None: ...

class LookAtRunRequest(_message.Message):
    __slots__ = ("silo_id", "role")
    SILO_ID_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    silo_id: str
    role: Role
    def __init__(self, silo_id: _Optional[str] = ..., role: _Optional[_Union[Role, str]] = ...) -> None: ...

class LookAtRunResponse(_message.Message):
    __slots__ = ("offer", "meaning_json", "text")
    OFFER_FIELD_NUMBER: _ClassVar[int]
    MEANING_JSON_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    offer: RunOffer
    meaning_json: str
    text: str
    def __init__(self, offer: _Optional[_Union[RunOffer, _Mapping]] = ..., meaning_json: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...

class DeclineRequest(_message.Message):
    __slots__ = ("session", "run_id", "reason", "code")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    session: str
    run_id: str
    reason: str
    code: str
    def __init__(self, session: _Optional[str] = ..., run_id: _Optional[str] = ..., reason: _Optional[str] = ..., code: _Optional[str] = ...) -> None: ...

class DeclineResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class FetchRequest(_message.Message):
    __slots__ = ("session", "run_id", "have", "evaluated_index", "partial", "compression", "evaluated_digest")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    HAVE_FIELD_NUMBER: _ClassVar[int]
    EVALUATED_INDEX_FIELD_NUMBER: _ClassVar[int]
    PARTIAL_FIELD_NUMBER: _ClassVar[int]
    COMPRESSION_FIELD_NUMBER: _ClassVar[int]
    EVALUATED_DIGEST_FIELD_NUMBER: _ClassVar[int]
    session: str
    run_id: str
    have: _containers.RepeatedScalarFieldContainer[bytes]
    evaluated_index: int
    partial: _containers.RepeatedCompositeFieldContainer[PartialVector]
    compression: str
    evaluated_digest: bytes
    def __init__(self, session: _Optional[str] = ..., run_id: _Optional[str] = ..., have: _Optional[_Iterable[bytes]] = ..., evaluated_index: _Optional[int] = ..., partial: _Optional[_Iterable[_Union[PartialVector, _Mapping]]] = ..., compression: _Optional[str] = ..., evaluated_digest: _Optional[bytes] = ...) -> None: ...

class PartialVector(_message.Message):
    __slots__ = ("digest", "num_bytes")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    NUM_BYTES_FIELD_NUMBER: _ClassVar[int]
    digest: bytes
    num_bytes: int
    def __init__(self, digest: _Optional[bytes] = ..., num_bytes: _Optional[int] = ...) -> None: ...

class VectorInfo(_message.Message):
    __slots__ = ("id", "num_bytes", "digest", "sent", "offset")
    ID_FIELD_NUMBER: _ClassVar[int]
    NUM_BYTES_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    SENT_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    id: VectorId
    num_bytes: int
    digest: bytes
    sent: bool
    offset: int
    def __init__(self, id: _Optional[_Union[VectorId, str]] = ..., num_bytes: _Optional[int] = ..., digest: _Optional[bytes] = ..., sent: bool = ..., offset: _Optional[int] = ...) -> None: ...

class RoundHeader(_message.Message):
    __slots__ = ("action", "run_id", "round_index", "num_rounds", "num_steps", "local_lr", "inference_scale", "vectors", "outcome", "outcome_text", "evaluate", "counted_round", "counted_digest")
    ACTION_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    ROUND_INDEX_FIELD_NUMBER: _ClassVar[int]
    NUM_ROUNDS_FIELD_NUMBER: _ClassVar[int]
    NUM_STEPS_FIELD_NUMBER: _ClassVar[int]
    LOCAL_LR_FIELD_NUMBER: _ClassVar[int]
    INFERENCE_SCALE_FIELD_NUMBER: _ClassVar[int]
    VECTORS_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_TEXT_FIELD_NUMBER: _ClassVar[int]
    EVALUATE_FIELD_NUMBER: _ClassVar[int]
    COUNTED_ROUND_FIELD_NUMBER: _ClassVar[int]
    COUNTED_DIGEST_FIELD_NUMBER: _ClassVar[int]
    action: Action
    run_id: str
    round_index: int
    num_rounds: int
    num_steps: int
    local_lr: float
    inference_scale: float
    vectors: _containers.RepeatedCompositeFieldContainer[VectorInfo]
    outcome: str
    outcome_text: str
    evaluate: bool
    counted_round: int
    counted_digest: bytes
    def __init__(self, action: _Optional[_Union[Action, str]] = ..., run_id: _Optional[str] = ..., round_index: _Optional[int] = ..., num_rounds: _Optional[int] = ..., num_steps: _Optional[int] = ..., local_lr: _Optional[float] = ..., inference_scale: _Optional[float] = ..., vectors: _Optional[_Iterable[_Union[VectorInfo, _Mapping]]] = ..., outcome: _Optional[str] = ..., outcome_text: _Optional[str] = ..., evaluate: bool = ..., counted_round: _Optional[int] = ..., counted_digest: _Optional[bytes] = ...) -> None: ...

class UpdateHeader(_message.Message):
    __slots__ = ("session", "run_id", "round_index", "vectors", "digest", "offset", "num_steps", "metrics")
    class MetricsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    SESSION_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    ROUND_INDEX_FIELD_NUMBER: _ClassVar[int]
    VECTORS_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    NUM_STEPS_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    session: str
    run_id: str
    round_index: int
    vectors: _containers.RepeatedCompositeFieldContainer[VectorInfo]
    digest: bytes
    offset: int
    num_steps: int
    metrics: _containers.ScalarMap[str, float]
    def __init__(self, session: _Optional[str] = ..., run_id: _Optional[str] = ..., round_index: _Optional[int] = ..., vectors: _Optional[_Iterable[_Union[VectorInfo, _Mapping]]] = ..., digest: _Optional[bytes] = ..., offset: _Optional[int] = ..., num_steps: _Optional[int] = ..., metrics: _Optional[_Mapping[str, float]] = ...) -> None: ...

class SubmitResponse(_message.Message):
    __slots__ = ("state", "duplicate", "text")
    STATE_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    state: UploadState
    duplicate: bool
    text: str
    def __init__(self, state: _Optional[_Union[UploadState, str]] = ..., duplicate: bool = ..., text: _Optional[str] = ...) -> None: ...

class UploadStatusRequest(_message.Message):
    __slots__ = ("session", "run_id", "round_index", "digest")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    ROUND_INDEX_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    session: str
    run_id: str
    round_index: int
    digest: bytes
    def __init__(self, session: _Optional[str] = ..., run_id: _Optional[str] = ..., round_index: _Optional[int] = ..., digest: _Optional[bytes] = ...) -> None: ...

class UploadStatusResponse(_message.Message):
    __slots__ = ("state", "offset")
    STATE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    state: UploadState
    offset: int
    def __init__(self, state: _Optional[_Union[UploadState, str]] = ..., offset: _Optional[int] = ...) -> None: ...

class MetricSum(_message.Message):
    __slots__ = ("total", "num", "table")
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    NUM_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    total: float
    num: float
    table: MetricTable
    def __init__(self, total: _Optional[float] = ..., num: _Optional[float] = ..., table: _Optional[_Union[MetricTable, _Mapping]] = ...) -> None: ...

class MetricTable(_message.Message):
    __slots__ = ("kind", "shape", "labels", "at", "values")
    KIND_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    kind: str
    shape: _containers.RepeatedScalarFieldContainer[int]
    labels: _containers.RepeatedScalarFieldContainer[str]
    at: _containers.RepeatedScalarFieldContainer[int]
    values: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, kind: _Optional[str] = ..., shape: _Optional[_Iterable[int]] = ..., labels: _Optional[_Iterable[str]] = ..., at: _Optional[_Iterable[int]] = ..., values: _Optional[_Iterable[float]] = ...) -> None: ...

class ReportEvaluationRequest(_message.Message):
    __slots__ = ("session", "run_id", "model_index", "metrics", "model_digest")
    class MetricsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: MetricSum
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[MetricSum, _Mapping]] = ...) -> None: ...
    SESSION_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    MODEL_INDEX_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    MODEL_DIGEST_FIELD_NUMBER: _ClassVar[int]
    session: str
    run_id: str
    model_index: int
    metrics: _containers.MessageMap[str, MetricSum]
    model_digest: bytes
    def __init__(self, session: _Optional[str] = ..., run_id: _Optional[str] = ..., model_index: _Optional[int] = ..., metrics: _Optional[_Mapping[str, MetricSum]] = ..., model_digest: _Optional[bytes] = ...) -> None: ...

class ReportEvaluationResponse(_message.Message):
    __slots__ = ("text",)
    TEXT_FIELD_NUMBER: _ClassVar[int]
    text: str
    def __init__(self, text: _Optional[str] = ...) -> None: ...

class ReportRequest(_message.Message):
    __slots__ = ("session", "run_id", "round_index", "phase", "step", "num_steps", "loss", "bytes_sent", "bytes_received", "failure", "resources", "log_lines", "shares_log", "longest_step_s", "failure_code", "doing", "not_ready", "notes", "failure_times", "failure_lasts", "audit", "network")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    ROUND_INDEX_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    NUM_STEPS_FIELD_NUMBER: _ClassVar[int]
    LOSS_FIELD_NUMBER: _ClassVar[int]
    BYTES_SENT_FIELD_NUMBER: _ClassVar[int]
    BYTES_RECEIVED_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    LOG_LINES_FIELD_NUMBER: _ClassVar[int]
    SHARES_LOG_FIELD_NUMBER: _ClassVar[int]
    LONGEST_STEP_S_FIELD_NUMBER: _ClassVar[int]
    FAILURE_CODE_FIELD_NUMBER: _ClassVar[int]
    DOING_FIELD_NUMBER: _ClassVar[int]
    NOT_READY_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    FAILURE_TIMES_FIELD_NUMBER: _ClassVar[int]
    FAILURE_LASTS_FIELD_NUMBER: _ClassVar[int]
    AUDIT_FIELD_NUMBER: _ClassVar[int]
    NETWORK_FIELD_NUMBER: _ClassVar[int]
    session: str
    run_id: str
    round_index: int
    phase: Phase
    step: int
    num_steps: int
    loss: float
    bytes_sent: int
    bytes_received: int
    failure: str
    resources: Resources
    log_lines: _containers.RepeatedCompositeFieldContainer[LogLine]
    shares_log: bool
    longest_step_s: float
    failure_code: str
    doing: Doing
    not_ready: NotReady
    notes: _containers.RepeatedScalarFieldContainer[str]
    failure_times: int
    failure_lasts: bool
    audit: AuditHead
    network: str
    def __init__(self, session: _Optional[str] = ..., run_id: _Optional[str] = ..., round_index: _Optional[int] = ..., phase: _Optional[_Union[Phase, str]] = ..., step: _Optional[int] = ..., num_steps: _Optional[int] = ..., loss: _Optional[float] = ..., bytes_sent: _Optional[int] = ..., bytes_received: _Optional[int] = ..., failure: _Optional[str] = ..., resources: _Optional[_Union[Resources, _Mapping]] = ..., log_lines: _Optional[_Iterable[_Union[LogLine, _Mapping]]] = ..., shares_log: bool = ..., longest_step_s: _Optional[float] = ..., failure_code: _Optional[str] = ..., doing: _Optional[_Union[Doing, _Mapping]] = ..., not_ready: _Optional[_Union[NotReady, _Mapping]] = ..., notes: _Optional[_Iterable[str]] = ..., failure_times: _Optional[int] = ..., failure_lasts: bool = ..., audit: _Optional[_Union[AuditHead, _Mapping]] = ..., network: _Optional[str] = ...) -> None: ...

class Doing(_message.Message):
    __slots__ = ("stage", "for_s", "activity", "stuck")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    FOR_S_FIELD_NUMBER: _ClassVar[int]
    ACTIVITY_FIELD_NUMBER: _ClassVar[int]
    STUCK_FIELD_NUMBER: _ClassVar[int]
    stage: str
    for_s: float
    activity: str
    stuck: bool
    def __init__(self, stage: _Optional[str] = ..., for_s: _Optional[float] = ..., activity: _Optional[str] = ..., stuck: bool = ...) -> None: ...

class NotReady(_message.Message):
    __slots__ = ("reason", "code", "looks_again_s")
    REASON_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    LOOKS_AGAIN_S_FIELD_NUMBER: _ClassVar[int]
    reason: str
    code: str
    looks_again_s: float
    def __init__(self, reason: _Optional[str] = ..., code: _Optional[str] = ..., looks_again_s: _Optional[float] = ...) -> None: ...

class Resources(_message.Message):
    __slots__ = ("gpu_memory_used_bytes", "gpu_memory_total_bytes", "gpu_busy", "process_memory_bytes", "memory_available_bytes", "memory_total_bytes", "disk_free_bytes")
    GPU_MEMORY_USED_BYTES_FIELD_NUMBER: _ClassVar[int]
    GPU_MEMORY_TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    GPU_BUSY_FIELD_NUMBER: _ClassVar[int]
    PROCESS_MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_AVAILABLE_BYTES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    DISK_FREE_BYTES_FIELD_NUMBER: _ClassVar[int]
    gpu_memory_used_bytes: int
    gpu_memory_total_bytes: int
    gpu_busy: float
    process_memory_bytes: int
    memory_available_bytes: int
    memory_total_bytes: int
    disk_free_bytes: int
    def __init__(self, gpu_memory_used_bytes: _Optional[int] = ..., gpu_memory_total_bytes: _Optional[int] = ..., gpu_busy: _Optional[float] = ..., process_memory_bytes: _Optional[int] = ..., memory_available_bytes: _Optional[int] = ..., memory_total_bytes: _Optional[int] = ..., disk_free_bytes: _Optional[int] = ...) -> None: ...

class LogLine(_message.Message):
    __slots__ = ("number", "age_s", "level", "text")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    AGE_S_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    number: int
    age_s: float
    level: str
    text: str
    def __init__(self, number: _Optional[int] = ..., age_s: _Optional[float] = ..., level: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...

class ReportResponse(_message.Message):
    __slots__ = ("directive", "next_s", "audit")
    DIRECTIVE_FIELD_NUMBER: _ClassVar[int]
    NEXT_S_FIELD_NUMBER: _ClassVar[int]
    AUDIT_FIELD_NUMBER: _ClassVar[int]
    directive: Directive
    next_s: float
    audit: AuditHead
    def __init__(self, directive: _Optional[_Union[Directive, str]] = ..., next_s: _Optional[float] = ..., audit: _Optional[_Union[AuditHead, _Mapping]] = ...) -> None: ...

class AuditHead(_message.Message):
    __slots__ = ("n", "hash", "key", "signature")
    N_FIELD_NUMBER: _ClassVar[int]
    HASH_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    n: int
    hash: bytes
    key: bytes
    signature: bytes
    def __init__(self, n: _Optional[int] = ..., hash: _Optional[bytes] = ..., key: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class LeaveRequest(_message.Message):
    __slots__ = ("session", "reason")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    session: str
    reason: str
    def __init__(self, session: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class LeaveResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AttendRequest(_message.Message):
    __slots__ = ("session",)
    SESSION_FIELD_NUMBER: _ClassVar[int]
    session: str
    def __init__(self, session: _Optional[str] = ...) -> None: ...

class AttendResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CertifyRequest(_message.Message):
    __slots__ = ("request_pem",)
    REQUEST_PEM_FIELD_NUMBER: _ClassVar[int]
    request_pem: bytes
    def __init__(self, request_pem: _Optional[bytes] = ...) -> None: ...

class CertifyResponse(_message.Message):
    __slots__ = ("certificate_pem", "ca_pem")
    CERTIFICATE_PEM_FIELD_NUMBER: _ClassVar[int]
    CA_PEM_FIELD_NUMBER: _ClassVar[int]
    certificate_pem: bytes
    ca_pem: bytes
    def __init__(self, certificate_pem: _Optional[bytes] = ..., ca_pem: _Optional[bytes] = ...) -> None: ...
