from roofline.v1 import machine_pb2 as _machine_pb2
from roofline.v1 import models_pb2 as _models_pb2
from roofline.v1 import values_pb2 as _values_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ListJobsRequest(_message.Message):
    __slots__ = ("newest",)
    NEWEST_FIELD_NUMBER: _ClassVar[int]
    newest: int
    def __init__(self, newest: _Optional[int] = ...) -> None: ...

class ListJobsResponse(_message.Message):
    __slots__ = ("jobs", "left_out")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[Job]
    left_out: int
    def __init__(self, jobs: _Optional[_Iterable[_Union[Job, _Mapping]]] = ..., left_out: _Optional[int] = ...) -> None: ...

class Job(_message.Message):
    __slots__ = ("job", "begin_ns", "end_ns", "ranks", "roles", "hosts", "running", "tags", "state", "removed", "users")
    class TagsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    JOB_FIELD_NUMBER: _ClassVar[int]
    BEGIN_NS_FIELD_NUMBER: _ClassVar[int]
    END_NS_FIELD_NUMBER: _ClassVar[int]
    RANKS_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    HOSTS_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    USERS_FIELD_NUMBER: _ClassVar[int]
    job: str
    begin_ns: int
    end_ns: int
    ranks: int
    roles: _containers.RepeatedCompositeFieldContainer[RoleCount]
    hosts: _containers.RepeatedScalarFieldContainer[str]
    running: bool
    tags: _containers.ScalarMap[str, str]
    state: str
    removed: str
    users: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, job: _Optional[str] = ..., begin_ns: _Optional[int] = ..., end_ns: _Optional[int] = ..., ranks: _Optional[int] = ..., roles: _Optional[_Iterable[_Union[RoleCount, _Mapping]]] = ..., hosts: _Optional[_Iterable[str]] = ..., running: bool = ..., tags: _Optional[_Mapping[str, str]] = ..., state: _Optional[str] = ..., removed: _Optional[str] = ..., users: _Optional[_Iterable[str]] = ...) -> None: ...

class RoleCount(_message.Message):
    __slots__ = ("role", "ranks")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    RANKS_FIELD_NUMBER: _ClassVar[int]
    role: str
    ranks: int
    def __init__(self, role: _Optional[str] = ..., ranks: _Optional[int] = ...) -> None: ...

class GetReportRequest(_message.Message):
    __slots__ = ("job", "first_step", "last_step", "first_screen", "newest")
    JOB_FIELD_NUMBER: _ClassVar[int]
    FIRST_STEP_FIELD_NUMBER: _ClassVar[int]
    LAST_STEP_FIELD_NUMBER: _ClassVar[int]
    FIRST_SCREEN_FIELD_NUMBER: _ClassVar[int]
    NEWEST_FIELD_NUMBER: _ClassVar[int]
    job: str
    first_step: int
    last_step: int
    first_screen: bool
    newest: bool
    def __init__(self, job: _Optional[str] = ..., first_step: _Optional[int] = ..., last_step: _Optional[int] = ..., first_screen: bool = ..., newest: bool = ...) -> None: ...

class GetStepsRequest(_message.Message):
    __slots__ = ("job", "ranks", "first_step", "last_step", "kernels")
    JOB_FIELD_NUMBER: _ClassVar[int]
    RANKS_FIELD_NUMBER: _ClassVar[int]
    FIRST_STEP_FIELD_NUMBER: _ClassVar[int]
    LAST_STEP_FIELD_NUMBER: _ClassVar[int]
    KERNELS_FIELD_NUMBER: _ClassVar[int]
    job: str
    ranks: _containers.RepeatedScalarFieldContainer[str]
    first_step: int
    last_step: int
    kernels: bool
    def __init__(self, job: _Optional[str] = ..., ranks: _Optional[_Iterable[str]] = ..., first_step: _Optional[int] = ..., last_step: _Optional[int] = ..., kernels: bool = ...) -> None: ...

class GetStepOverviewRequest(_message.Message):
    __slots__ = ("job", "first_step", "last_step", "stretches", "first_rank", "last_rank")
    JOB_FIELD_NUMBER: _ClassVar[int]
    FIRST_STEP_FIELD_NUMBER: _ClassVar[int]
    LAST_STEP_FIELD_NUMBER: _ClassVar[int]
    STRETCHES_FIELD_NUMBER: _ClassVar[int]
    FIRST_RANK_FIELD_NUMBER: _ClassVar[int]
    LAST_RANK_FIELD_NUMBER: _ClassVar[int]
    job: str
    first_step: int
    last_step: int
    stretches: int
    first_rank: int
    last_rank: int
    def __init__(self, job: _Optional[str] = ..., first_step: _Optional[int] = ..., last_step: _Optional[int] = ..., stretches: _Optional[int] = ..., first_rank: _Optional[int] = ..., last_rank: _Optional[int] = ...) -> None: ...

class GetNewestRequest(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: str
    def __init__(self, job: _Optional[str] = ...) -> None: ...

class Newest(_message.Message):
    __slots__ = ("batch",)
    BATCH_FIELD_NUMBER: _ClassVar[int]
    batch: int
    def __init__(self, batch: _Optional[int] = ...) -> None: ...

class StepOverview(_message.Message):
    __slots__ = ("job", "mode", "ranks", "firsts", "lasts", "left_out", "lines", "lateness", "recent", "running", "notes", "newest_ns")
    JOB_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    RANKS_FIELD_NUMBER: _ClassVar[int]
    FIRSTS_FIELD_NUMBER: _ClassVar[int]
    LASTS_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    LINES_FIELD_NUMBER: _ClassVar[int]
    LATENESS_FIELD_NUMBER: _ClassVar[int]
    RECENT_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    NEWEST_NS_FIELD_NUMBER: _ClassVar[int]
    job: str
    mode: str
    ranks: int
    firsts: _containers.RepeatedScalarFieldContainer[int]
    lasts: _containers.RepeatedScalarFieldContainer[int]
    left_out: _containers.RepeatedScalarFieldContainer[bool]
    lines: _containers.RepeatedCompositeFieldContainer[StepLine]
    lateness: _containers.RepeatedCompositeFieldContainer[LatenessRow]
    recent: _containers.RepeatedCompositeFieldContainer[RecentSteps]
    running: bool
    notes: _containers.RepeatedScalarFieldContainer[str]
    newest_ns: int
    def __init__(self, job: _Optional[str] = ..., mode: _Optional[str] = ..., ranks: _Optional[int] = ..., firsts: _Optional[_Iterable[int]] = ..., lasts: _Optional[_Iterable[int]] = ..., left_out: _Optional[_Iterable[bool]] = ..., lines: _Optional[_Iterable[_Union[StepLine, _Mapping]]] = ..., lateness: _Optional[_Iterable[_Union[LatenessRow, _Mapping]]] = ..., recent: _Optional[_Iterable[_Union[RecentSteps, _Mapping]]] = ..., running: bool = ..., notes: _Optional[_Iterable[str]] = ..., newest_ns: _Optional[int] = ...) -> None: ...

class StepLine(_message.Message):
    __slots__ = ("name", "role", "ranks", "shortest", "middle", "longest")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    RANKS_FIELD_NUMBER: _ClassVar[int]
    SHORTEST_FIELD_NUMBER: _ClassVar[int]
    MIDDLE_FIELD_NUMBER: _ClassVar[int]
    LONGEST_FIELD_NUMBER: _ClassVar[int]
    name: str
    role: str
    ranks: int
    shortest: _containers.RepeatedScalarFieldContainer[float]
    middle: _containers.RepeatedScalarFieldContainer[float]
    longest: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, name: _Optional[str] = ..., role: _Optional[str] = ..., ranks: _Optional[int] = ..., shortest: _Optional[_Iterable[float]] = ..., middle: _Optional[_Iterable[float]] = ..., longest: _Optional[_Iterable[float]] = ...) -> None: ...

class LatenessRow(_message.Message):
    __slots__ = ("name", "role", "first_rank", "last_rank", "mean", "latest", "late")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    FIRST_RANK_FIELD_NUMBER: _ClassVar[int]
    LAST_RANK_FIELD_NUMBER: _ClassVar[int]
    MEAN_FIELD_NUMBER: _ClassVar[int]
    LATEST_FIELD_NUMBER: _ClassVar[int]
    LATE_FIELD_NUMBER: _ClassVar[int]
    name: str
    role: str
    first_rank: int
    last_rank: int
    mean: float
    latest: str
    late: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, name: _Optional[str] = ..., role: _Optional[str] = ..., first_rank: _Optional[int] = ..., last_rank: _Optional[int] = ..., mean: _Optional[float] = ..., latest: _Optional[str] = ..., late: _Optional[_Iterable[float]] = ...) -> None: ...

class RecentSteps(_message.Message):
    __slots__ = ("ago", "first_step", "last_step")
    AGO_FIELD_NUMBER: _ClassVar[int]
    FIRST_STEP_FIELD_NUMBER: _ClassVar[int]
    LAST_STEP_FIELD_NUMBER: _ClassVar[int]
    ago: float
    first_step: int
    last_step: int
    def __init__(self, ago: _Optional[float] = ..., first_step: _Optional[int] = ..., last_step: _Optional[int] = ...) -> None: ...

class ListAgentsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListAgentsResponse(_message.Message):
    __slots__ = ("agents",)
    AGENTS_FIELD_NUMBER: _ClassVar[int]
    agents: _containers.RepeatedCompositeFieldContainer[Agent]
    def __init__(self, agents: _Optional[_Iterable[_Union[Agent, _Mapping]]] = ...) -> None: ...

class Agent(_message.Message):
    __slots__ = ("host", "connected", "version", "lag", "clock_error", "interval", "batches", "lost", "refused", "behind", "busy_with", "sources")
    HOST_FIELD_NUMBER: _ClassVar[int]
    CONNECTED_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    LAG_FIELD_NUMBER: _ClassVar[int]
    CLOCK_ERROR_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    BEHIND_FIELD_NUMBER: _ClassVar[int]
    BUSY_WITH_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    host: str
    connected: bool
    version: str
    lag: _values_pb2.Value
    clock_error: _values_pb2.Value
    interval: _values_pb2.Value
    batches: int
    lost: int
    refused: int
    behind: bool
    busy_with: str
    sources: _containers.RepeatedCompositeFieldContainer[_machine_pb2.SourceStatus]
    def __init__(self, host: _Optional[str] = ..., connected: bool = ..., version: _Optional[str] = ..., lag: _Optional[_Union[_values_pb2.Value, _Mapping]] = ..., clock_error: _Optional[_Union[_values_pb2.Value, _Mapping]] = ..., interval: _Optional[_Union[_values_pb2.Value, _Mapping]] = ..., batches: _Optional[int] = ..., lost: _Optional[int] = ..., refused: _Optional[int] = ..., behind: bool = ..., busy_with: _Optional[str] = ..., sources: _Optional[_Iterable[_Union[_machine_pb2.SourceStatus, _Mapping]]] = ...) -> None: ...

class ExportRequest(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: str
    def __init__(self, job: _Optional[str] = ...) -> None: ...

class TableChunk(_message.Message):
    __slots__ = ("dataset", "rows", "columns", "notes")
    DATASET_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    dataset: str
    rows: int
    columns: _containers.RepeatedCompositeFieldContainer[Column]
    notes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, dataset: _Optional[str] = ..., rows: _Optional[int] = ..., columns: _Optional[_Iterable[_Union[Column, _Mapping]]] = ..., notes: _Optional[_Iterable[str]] = ...) -> None: ...

class Column(_message.Message):
    __slots__ = ("name", "unit", "provenance", "reason", "ints", "doubles", "texts")
    NAME_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    PROVENANCE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    INTS_FIELD_NUMBER: _ClassVar[int]
    DOUBLES_FIELD_NUMBER: _ClassVar[int]
    TEXTS_FIELD_NUMBER: _ClassVar[int]
    name: str
    unit: str
    provenance: _machine_pb2.Provenance
    reason: str
    ints: bytes
    doubles: bytes
    texts: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., unit: _Optional[str] = ..., provenance: _Optional[_Union[_machine_pb2.Provenance, str]] = ..., reason: _Optional[str] = ..., ints: _Optional[bytes] = ..., doubles: _Optional[bytes] = ..., texts: _Optional[_Iterable[str]] = ...) -> None: ...

class GetStragglersRequest(_message.Message):
    __slots__ = ("job", "first_step", "last_step")
    JOB_FIELD_NUMBER: _ClassVar[int]
    FIRST_STEP_FIELD_NUMBER: _ClassVar[int]
    LAST_STEP_FIELD_NUMBER: _ClassVar[int]
    job: str
    first_step: int
    last_step: int
    def __init__(self, job: _Optional[str] = ..., first_step: _Optional[int] = ..., last_step: _Optional[int] = ...) -> None: ...

class GetWhatIfRequest(_message.Message):
    __slots__ = ("job", "ranks", "servers", "batch", "bandwidth", "bandwidth_times", "fix")
    JOB_FIELD_NUMBER: _ClassVar[int]
    RANKS_FIELD_NUMBER: _ClassVar[int]
    SERVERS_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    BANDWIDTH_FIELD_NUMBER: _ClassVar[int]
    BANDWIDTH_TIMES_FIELD_NUMBER: _ClassVar[int]
    FIX_FIELD_NUMBER: _ClassVar[int]
    job: str
    ranks: int
    servers: int
    batch: float
    bandwidth: float
    bandwidth_times: float
    fix: str
    def __init__(self, job: _Optional[str] = ..., ranks: _Optional[int] = ..., servers: _Optional[int] = ..., batch: _Optional[float] = ..., bandwidth: _Optional[float] = ..., bandwidth_times: _Optional[float] = ..., fix: _Optional[str] = ...) -> None: ...

class WhatIf(_message.Message):
    __slots__ = ("job", "change", "mode", "sentence", "step", "rate", "basis", "notes")
    JOB_FIELD_NUMBER: _ClassVar[int]
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    SENTENCE_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    RATE_FIELD_NUMBER: _ClassVar[int]
    BASIS_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    job: str
    change: str
    mode: str
    sentence: str
    step: Predicted
    rate: Predicted
    basis: _containers.RepeatedScalarFieldContainer[str]
    notes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, job: _Optional[str] = ..., change: _Optional[str] = ..., mode: _Optional[str] = ..., sentence: _Optional[str] = ..., step: _Optional[_Union[Predicted, _Mapping]] = ..., rate: _Optional[_Union[Predicted, _Mapping]] = ..., basis: _Optional[_Iterable[str]] = ..., notes: _Optional[_Iterable[str]] = ...) -> None: ...

class Predicted(_message.Message):
    __slots__ = ("now", "then", "low", "high")
    NOW_FIELD_NUMBER: _ClassVar[int]
    THEN_FIELD_NUMBER: _ClassVar[int]
    LOW_FIELD_NUMBER: _ClassVar[int]
    HIGH_FIELD_NUMBER: _ClassVar[int]
    now: _values_pb2.Value
    then: _values_pb2.Value
    low: float
    high: float
    def __init__(self, now: _Optional[_Union[_values_pb2.Value, _Mapping]] = ..., then: _Optional[_Union[_values_pb2.Value, _Mapping]] = ..., low: _Optional[float] = ..., high: _Optional[float] = ...) -> None: ...

class Stragglers(_message.Message):
    __slots__ = ("job", "mode", "verdict", "barrier", "causes", "ranks", "imbalance", "servers", "notes")
    JOB_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    BARRIER_FIELD_NUMBER: _ClassVar[int]
    CAUSES_FIELD_NUMBER: _ClassVar[int]
    RANKS_FIELD_NUMBER: _ClassVar[int]
    IMBALANCE_FIELD_NUMBER: _ClassVar[int]
    SERVERS_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    job: str
    mode: str
    verdict: str
    barrier: str
    causes: _containers.RepeatedCompositeFieldContainer[Cause]
    ranks: _containers.RepeatedCompositeFieldContainer[RankWaits]
    imbalance: _containers.RepeatedCompositeFieldContainer[Imbalance]
    servers: _containers.RepeatedCompositeFieldContainer[ServerLoad]
    notes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, job: _Optional[str] = ..., mode: _Optional[str] = ..., verdict: _Optional[str] = ..., barrier: _Optional[str] = ..., causes: _Optional[_Iterable[_Union[Cause, _Mapping]]] = ..., ranks: _Optional[_Iterable[_Union[RankWaits, _Mapping]]] = ..., imbalance: _Optional[_Iterable[_Union[Imbalance, _Mapping]]] = ..., servers: _Optional[_Iterable[_Union[ServerLoad, _Mapping]]] = ..., notes: _Optional[_Iterable[str]] = ...) -> None: ...

class Cause(_message.Message):
    __slots__ = ("rank", "host", "kind", "cost", "share", "steps", "of_steps", "evidence")
    RANK_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    OF_STEPS_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    rank: str
    host: str
    kind: str
    cost: _values_pb2.Value
    share: _values_pb2.Value
    steps: int
    of_steps: int
    evidence: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, rank: _Optional[str] = ..., host: _Optional[str] = ..., kind: _Optional[str] = ..., cost: _Optional[_Union[_values_pb2.Value, _Mapping]] = ..., share: _Optional[_Union[_values_pb2.Value, _Mapping]] = ..., steps: _Optional[int] = ..., of_steps: _Optional[int] = ..., evidence: _Optional[_Iterable[str]] = ...) -> None: ...

class RankWaits(_message.Message):
    __slots__ = ("rank", "role", "host", "values")
    class ValuesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _values_pb2.Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_values_pb2.Value, _Mapping]] = ...) -> None: ...
    RANK_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    rank: str
    role: str
    host: str
    values: _containers.MessageMap[str, _values_pb2.Value]
    def __init__(self, rank: _Optional[str] = ..., role: _Optional[str] = ..., host: _Optional[str] = ..., values: _Optional[_Mapping[str, _values_pb2.Value]] = ...) -> None: ...

class Imbalance(_message.Message):
    __slots__ = ("first_step", "last_step", "begin_ns", "end_ns", "wait", "last", "share")
    FIRST_STEP_FIELD_NUMBER: _ClassVar[int]
    LAST_STEP_FIELD_NUMBER: _ClassVar[int]
    BEGIN_NS_FIELD_NUMBER: _ClassVar[int]
    END_NS_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    first_step: int
    last_step: int
    begin_ns: int
    end_ns: int
    wait: _values_pb2.Value
    last: str
    share: _values_pb2.Value
    def __init__(self, first_step: _Optional[int] = ..., last_step: _Optional[int] = ..., begin_ns: _Optional[int] = ..., end_ns: _Optional[int] = ..., wait: _Optional[_Union[_values_pb2.Value, _Mapping]] = ..., last: _Optional[str] = ..., share: _Optional[_Union[_values_pb2.Value, _Mapping]] = ...) -> None: ...

class ServerLoad(_message.Message):
    __slots__ = ("rank", "host", "values")
    class ValuesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _values_pb2.Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_values_pb2.Value, _Mapping]] = ...) -> None: ...
    RANK_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    rank: str
    host: str
    values: _containers.MessageMap[str, _values_pb2.Value]
    def __init__(self, rank: _Optional[str] = ..., host: _Optional[str] = ..., values: _Optional[_Mapping[str, _values_pb2.Value]] = ...) -> None: ...

class Summary(_message.Message):
    __slots__ = ("values", "bound", "bound_reason")
    class ValuesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _values_pb2.Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_values_pb2.Value, _Mapping]] = ...) -> None: ...
    VALUES_FIELD_NUMBER: _ClassVar[int]
    BOUND_FIELD_NUMBER: _ClassVar[int]
    BOUND_REASON_FIELD_NUMBER: _ClassVar[int]
    values: _containers.MessageMap[str, _values_pb2.Value]
    bound: str
    bound_reason: str
    def __init__(self, values: _Optional[_Mapping[str, _values_pb2.Value]] = ..., bound: _Optional[str] = ..., bound_reason: _Optional[str] = ...) -> None: ...

class RankReport(_message.Message):
    __slots__ = ("rank", "role", "index", "host", "pid", "name", "windows", "summary")
    RANK_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    WINDOWS_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    rank: str
    role: str
    index: int
    host: str
    pid: int
    name: str
    windows: str
    summary: Summary
    def __init__(self, rank: _Optional[str] = ..., role: _Optional[str] = ..., index: _Optional[int] = ..., host: _Optional[str] = ..., pid: _Optional[int] = ..., name: _Optional[str] = ..., windows: _Optional[str] = ..., summary: _Optional[_Union[Summary, _Mapping]] = ...) -> None: ...

class RoleReport(_message.Message):
    __slots__ = ("role", "ranks", "hosts", "summary")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    RANKS_FIELD_NUMBER: _ClassVar[int]
    HOSTS_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    role: str
    ranks: int
    hosts: _containers.RepeatedScalarFieldContainer[str]
    summary: Summary
    def __init__(self, role: _Optional[str] = ..., ranks: _Optional[int] = ..., hosts: _Optional[_Iterable[str]] = ..., summary: _Optional[_Union[Summary, _Mapping]] = ...) -> None: ...

class Point(_message.Message):
    __slots__ = ("label", "role", "host", "intensity", "flops", "provenance", "level")
    LABEL_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    INTENSITY_FIELD_NUMBER: _ClassVar[int]
    FLOPS_FIELD_NUMBER: _ClassVar[int]
    PROVENANCE_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    label: str
    role: str
    host: str
    intensity: float
    flops: float
    provenance: _machine_pb2.Provenance
    level: str
    def __init__(self, label: _Optional[str] = ..., role: _Optional[str] = ..., host: _Optional[str] = ..., intensity: _Optional[float] = ..., flops: _Optional[float] = ..., provenance: _Optional[_Union[_machine_pb2.Provenance, str]] = ..., level: _Optional[str] = ...) -> None: ...

class Gap(_message.Message):
    __slots__ = ("host", "rank", "begin_ns", "end_ns", "reason")
    HOST_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    BEGIN_NS_FIELD_NUMBER: _ClassVar[int]
    END_NS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    host: str
    rank: str
    begin_ns: int
    end_ns: int
    reason: str
    def __init__(self, host: _Optional[str] = ..., rank: _Optional[str] = ..., begin_ns: _Optional[int] = ..., end_ns: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class Alignment(_message.Message):
    __slots__ = ("host", "error")
    HOST_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    host: str
    error: _values_pb2.Value
    def __init__(self, host: _Optional[str] = ..., error: _Optional[_Union[_values_pb2.Value, _Mapping]] = ...) -> None: ...

class Report(_message.Message):
    __slots__ = ("job", "begin_ns", "end_ns", "mode", "running", "first_step", "last_step", "roles", "ranks", "roofs", "points", "alignment", "gaps", "notes", "sources", "parts", "facts", "tags", "verdicts", "cost", "verdict", "state", "exits")
    class TagsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    JOB_FIELD_NUMBER: _ClassVar[int]
    BEGIN_NS_FIELD_NUMBER: _ClassVar[int]
    END_NS_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    FIRST_STEP_FIELD_NUMBER: _ClassVar[int]
    LAST_STEP_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    RANKS_FIELD_NUMBER: _ClassVar[int]
    ROOFS_FIELD_NUMBER: _ClassVar[int]
    POINTS_FIELD_NUMBER: _ClassVar[int]
    ALIGNMENT_FIELD_NUMBER: _ClassVar[int]
    GAPS_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    FACTS_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    VERDICTS_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    EXITS_FIELD_NUMBER: _ClassVar[int]
    job: str
    begin_ns: int
    end_ns: int
    mode: str
    running: bool
    first_step: int
    last_step: int
    roles: _containers.RepeatedCompositeFieldContainer[RoleReport]
    ranks: _containers.RepeatedCompositeFieldContainer[RankReport]
    roofs: _containers.RepeatedCompositeFieldContainer[_values_pb2.Roof]
    points: _containers.RepeatedCompositeFieldContainer[Point]
    alignment: _containers.RepeatedCompositeFieldContainer[Alignment]
    gaps: _containers.RepeatedCompositeFieldContainer[Gap]
    notes: _containers.RepeatedScalarFieldContainer[str]
    sources: _containers.RepeatedCompositeFieldContainer[SourceReport]
    parts: _containers.RepeatedCompositeFieldContainer[PartReport]
    facts: _containers.RepeatedCompositeFieldContainer[Fact]
    tags: _containers.ScalarMap[str, str]
    verdicts: _containers.RepeatedScalarFieldContainer[str]
    cost: ProfilerCost
    verdict: Verdict
    state: str
    exits: _containers.RepeatedCompositeFieldContainer[RankExit]
    def __init__(self, job: _Optional[str] = ..., begin_ns: _Optional[int] = ..., end_ns: _Optional[int] = ..., mode: _Optional[str] = ..., running: bool = ..., first_step: _Optional[int] = ..., last_step: _Optional[int] = ..., roles: _Optional[_Iterable[_Union[RoleReport, _Mapping]]] = ..., ranks: _Optional[_Iterable[_Union[RankReport, _Mapping]]] = ..., roofs: _Optional[_Iterable[_Union[_values_pb2.Roof, _Mapping]]] = ..., points: _Optional[_Iterable[_Union[Point, _Mapping]]] = ..., alignment: _Optional[_Iterable[_Union[Alignment, _Mapping]]] = ..., gaps: _Optional[_Iterable[_Union[Gap, _Mapping]]] = ..., notes: _Optional[_Iterable[str]] = ..., sources: _Optional[_Iterable[_Union[SourceReport, _Mapping]]] = ..., parts: _Optional[_Iterable[_Union[PartReport, _Mapping]]] = ..., facts: _Optional[_Iterable[_Union[Fact, _Mapping]]] = ..., tags: _Optional[_Mapping[str, str]] = ..., verdicts: _Optional[_Iterable[str]] = ..., cost: _Optional[_Union[ProfilerCost, _Mapping]] = ..., verdict: _Optional[_Union[Verdict, _Mapping]] = ..., state: _Optional[str] = ..., exits: _Optional[_Iterable[_Union[RankExit, _Mapping]]] = ...) -> None: ...

class RankExit(_message.Message):
    __slots__ = ("rank", "state", "status", "last_step", "time_ns", "words")
    RANK_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    LAST_STEP_FIELD_NUMBER: _ClassVar[int]
    TIME_NS_FIELD_NUMBER: _ClassVar[int]
    WORDS_FIELD_NUMBER: _ClassVar[int]
    rank: str
    state: str
    status: int
    last_step: int
    time_ns: int
    words: str
    def __init__(self, rank: _Optional[str] = ..., state: _Optional[str] = ..., status: _Optional[int] = ..., last_step: _Optional[int] = ..., time_ns: _Optional[int] = ..., words: _Optional[str] = ...) -> None: ...

class Verdict(_message.Message):
    __slots__ = ("state", "headline", "kind", "bottleneck", "also", "examples_per_second", "step_median", "step_mean", "step_p95", "left_out", "accounts", "roofline", "quality", "examples_per_second_of_run")
    STATE_FIELD_NUMBER: _ClassVar[int]
    HEADLINE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    BOTTLENECK_FIELD_NUMBER: _ClassVar[int]
    ALSO_FIELD_NUMBER: _ClassVar[int]
    EXAMPLES_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    STEP_MEDIAN_FIELD_NUMBER: _ClassVar[int]
    STEP_MEAN_FIELD_NUMBER: _ClassVar[int]
    STEP_P95_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    ACCOUNTS_FIELD_NUMBER: _ClassVar[int]
    ROOFLINE_FIELD_NUMBER: _ClassVar[int]
    QUALITY_FIELD_NUMBER: _ClassVar[int]
    EXAMPLES_PER_SECOND_OF_RUN_FIELD_NUMBER: _ClassVar[int]
    state: str
    headline: str
    kind: str
    bottleneck: Finding
    also: _containers.RepeatedCompositeFieldContainer[Finding]
    examples_per_second: _values_pb2.Value
    step_median: _values_pb2.Value
    step_mean: _values_pb2.Value
    step_p95: _values_pb2.Value
    left_out: _containers.RepeatedCompositeFieldContainer[LeftOut]
    accounts: _containers.RepeatedCompositeFieldContainer[RankAccount]
    roofline: _containers.RepeatedScalarFieldContainer[str]
    quality: _containers.RepeatedScalarFieldContainer[str]
    examples_per_second_of_run: _values_pb2.Value
    def __init__(self, state: _Optional[str] = ..., headline: _Optional[str] = ..., kind: _Optional[str] = ..., bottleneck: _Optional[_Union[Finding, _Mapping]] = ..., also: _Optional[_Iterable[_Union[Finding, _Mapping]]] = ..., examples_per_second: _Optional[_Union[_values_pb2.Value, _Mapping]] = ..., step_median: _Optional[_Union[_values_pb2.Value, _Mapping]] = ..., step_mean: _Optional[_Union[_values_pb2.Value, _Mapping]] = ..., step_p95: _Optional[_Union[_values_pb2.Value, _Mapping]] = ..., left_out: _Optional[_Iterable[_Union[LeftOut, _Mapping]]] = ..., accounts: _Optional[_Iterable[_Union[RankAccount, _Mapping]]] = ..., roofline: _Optional[_Iterable[str]] = ..., quality: _Optional[_Iterable[str]] = ..., examples_per_second_of_run: _Optional[_Union[_values_pb2.Value, _Mapping]] = ...) -> None: ...

class Finding(_message.Message):
    __slots__ = ("kind", "rank", "host", "sentence", "cost", "share", "gain", "rate", "confidence", "why", "evidence", "tries")
    KIND_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    SENTENCE_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    GAIN_FIELD_NUMBER: _ClassVar[int]
    RATE_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    TRIES_FIELD_NUMBER: _ClassVar[int]
    kind: str
    rank: str
    host: str
    sentence: str
    cost: _values_pb2.Value
    share: _values_pb2.Value
    gain: Gain
    rate: _values_pb2.Value
    confidence: str
    why: str
    evidence: _containers.RepeatedScalarFieldContainer[str]
    tries: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, kind: _Optional[str] = ..., rank: _Optional[str] = ..., host: _Optional[str] = ..., sentence: _Optional[str] = ..., cost: _Optional[_Union[_values_pb2.Value, _Mapping]] = ..., share: _Optional[_Union[_values_pb2.Value, _Mapping]] = ..., gain: _Optional[_Union[Gain, _Mapping]] = ..., rate: _Optional[_Union[_values_pb2.Value, _Mapping]] = ..., confidence: _Optional[str] = ..., why: _Optional[str] = ..., evidence: _Optional[_Iterable[str]] = ..., tries: _Optional[_Iterable[str]] = ...) -> None: ...

class Gain(_message.Message):
    __slots__ = ("step", "without", "low", "high")
    STEP_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_FIELD_NUMBER: _ClassVar[int]
    LOW_FIELD_NUMBER: _ClassVar[int]
    HIGH_FIELD_NUMBER: _ClassVar[int]
    step: float
    without: float
    low: float
    high: float
    def __init__(self, step: _Optional[float] = ..., without: _Optional[float] = ..., low: _Optional[float] = ..., high: _Optional[float] = ...) -> None: ...

class RankAccount(_message.Message):
    __slots__ = ("rank", "role", "host", "steps", "step", "parts", "roof", "cores", "received", "sent", "exit")
    RANK_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    ROOF_FIELD_NUMBER: _ClassVar[int]
    CORES_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    SENT_FIELD_NUMBER: _ClassVar[int]
    EXIT_FIELD_NUMBER: _ClassVar[int]
    rank: str
    role: str
    host: str
    steps: int
    step: _values_pb2.Value
    parts: _containers.RepeatedCompositeFieldContainer[AccountPart]
    roof: _values_pb2.Value
    cores: _values_pb2.Value
    received: _values_pb2.Value
    sent: _values_pb2.Value
    exit: str
    def __init__(self, rank: _Optional[str] = ..., role: _Optional[str] = ..., host: _Optional[str] = ..., steps: _Optional[int] = ..., step: _Optional[_Union[_values_pb2.Value, _Mapping]] = ..., parts: _Optional[_Iterable[_Union[AccountPart, _Mapping]]] = ..., roof: _Optional[_Union[_values_pb2.Value, _Mapping]] = ..., cores: _Optional[_Union[_values_pb2.Value, _Mapping]] = ..., received: _Optional[_Union[_values_pb2.Value, _Mapping]] = ..., sent: _Optional[_Union[_values_pb2.Value, _Mapping]] = ..., exit: _Optional[str] = ...) -> None: ...

class AccountPart(_message.Message):
    __slots__ = ("part", "time", "share")
    PART_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    part: str
    time: _values_pb2.Value
    share: _values_pb2.Value
    def __init__(self, part: _Optional[str] = ..., time: _Optional[_Union[_values_pb2.Value, _Mapping]] = ..., share: _Optional[_Union[_values_pb2.Value, _Mapping]] = ...) -> None: ...

class LeftOut(_message.Message):
    __slots__ = ("reason", "steps", "cost")
    REASON_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    reason: str
    steps: int
    cost: _values_pb2.Value
    def __init__(self, reason: _Optional[str] = ..., steps: _Optional[int] = ..., cost: _Optional[_Union[_values_pb2.Value, _Mapping]] = ...) -> None: ...

class ProfilerCost(_message.Message):
    __slots__ = ("words", "values")
    class ValuesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _values_pb2.Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_values_pb2.Value, _Mapping]] = ...) -> None: ...
    WORDS_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    words: str
    values: _containers.MessageMap[str, _values_pb2.Value]
    def __init__(self, words: _Optional[str] = ..., values: _Optional[_Mapping[str, _values_pb2.Value]] = ...) -> None: ...

class Fact(_message.Message):
    __slots__ = ("name", "value", "ranks")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    RANKS_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: str
    ranks: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., value: _Optional[str] = ..., ranks: _Optional[_Iterable[str]] = ...) -> None: ...

class PartReport(_message.Message):
    __slots__ = ("host", "rank", "instance", "source", "values")
    class ValuesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _values_pb2.Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_values_pb2.Value, _Mapping]] = ...) -> None: ...
    HOST_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    host: str
    rank: str
    instance: str
    source: str
    values: _containers.MessageMap[str, _values_pb2.Value]
    def __init__(self, host: _Optional[str] = ..., rank: _Optional[str] = ..., instance: _Optional[str] = ..., source: _Optional[str] = ..., values: _Optional[_Mapping[str, _values_pb2.Value]] = ...) -> None: ...

class SourceReport(_message.Message):
    __slots__ = ("host", "sources")
    HOST_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    host: str
    sources: _containers.RepeatedCompositeFieldContainer[_machine_pb2.SourceStatus]
    def __init__(self, host: _Optional[str] = ..., sources: _Optional[_Iterable[_Union[_machine_pb2.SourceStatus, _Mapping]]] = ...) -> None: ...

class GetComparisonRequest(_message.Message):
    __slots__ = ("first", "second", "first_step", "last_step")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    SECOND_FIELD_NUMBER: _ClassVar[int]
    FIRST_STEP_FIELD_NUMBER: _ClassVar[int]
    LAST_STEP_FIELD_NUMBER: _ClassVar[int]
    first: str
    second: str
    first_step: int
    last_step: int
    def __init__(self, first: _Optional[str] = ..., second: _Optional[str] = ..., first_step: _Optional[int] = ..., last_step: _Optional[int] = ...) -> None: ...

class Comparison(_message.Message):
    __slots__ = ("first", "second", "headline", "settings", "changes", "notes")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    SECOND_FIELD_NUMBER: _ClassVar[int]
    HEADLINE_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    first: str
    second: str
    headline: str
    settings: _containers.RepeatedCompositeFieldContainer[SettingChange]
    changes: _containers.RepeatedCompositeFieldContainer[Change]
    notes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, first: _Optional[str] = ..., second: _Optional[str] = ..., headline: _Optional[str] = ..., settings: _Optional[_Iterable[_Union[SettingChange, _Mapping]]] = ..., changes: _Optional[_Iterable[_Union[Change, _Mapping]]] = ..., notes: _Optional[_Iterable[str]] = ...) -> None: ...

class SettingChange(_message.Message):
    __slots__ = ("name", "first", "second")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    SECOND_FIELD_NUMBER: _ClassVar[int]
    name: str
    first: str
    second: str
    def __init__(self, name: _Optional[str] = ..., first: _Optional[str] = ..., second: _Optional[str] = ...) -> None: ...

class Change(_message.Message):
    __slots__ = ("kind", "subject", "first", "second", "change", "low", "high", "within_noise")
    KIND_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    SECOND_FIELD_NUMBER: _ClassVar[int]
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    LOW_FIELD_NUMBER: _ClassVar[int]
    HIGH_FIELD_NUMBER: _ClassVar[int]
    WITHIN_NOISE_FIELD_NUMBER: _ClassVar[int]
    kind: str
    subject: str
    first: _values_pb2.Value
    second: _values_pb2.Value
    change: _values_pb2.Value
    low: float
    high: float
    within_noise: bool
    def __init__(self, kind: _Optional[str] = ..., subject: _Optional[str] = ..., first: _Optional[_Union[_values_pb2.Value, _Mapping]] = ..., second: _Optional[_Union[_values_pb2.Value, _Mapping]] = ..., change: _Optional[_Union[_values_pb2.Value, _Mapping]] = ..., low: _Optional[float] = ..., high: _Optional[float] = ..., within_noise: bool = ...) -> None: ...
