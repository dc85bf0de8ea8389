from roofline.v1 import machine_pb2 as _machine_pb2
from roofline.v1 import values_pb2 as _values_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Subject(_message.Message):
    __slots__ = ("job", "first_step", "last_step", "ranks")
    JOB_FIELD_NUMBER: _ClassVar[int]
    FIRST_STEP_FIELD_NUMBER: _ClassVar[int]
    LAST_STEP_FIELD_NUMBER: _ClassVar[int]
    RANKS_FIELD_NUMBER: _ClassVar[int]
    job: str
    first_step: int
    last_step: int
    ranks: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, job: _Optional[str] = ..., first_step: _Optional[int] = ..., last_step: _Optional[int] = ..., ranks: _Optional[_Iterable[str]] = ...) -> None: ...

class About(_message.Message):
    __slots__ = ("jobs", "experiment", "begin_ns", "end_ns", "machines", "alignment", "step_time", "tags")
    class TagsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    JOBS_FIELD_NUMBER: _ClassVar[int]
    EXPERIMENT_FIELD_NUMBER: _ClassVar[int]
    BEGIN_NS_FIELD_NUMBER: _ClassVar[int]
    END_NS_FIELD_NUMBER: _ClassVar[int]
    MACHINES_FIELD_NUMBER: _ClassVar[int]
    ALIGNMENT_FIELD_NUMBER: _ClassVar[int]
    STEP_TIME_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedScalarFieldContainer[str]
    experiment: str
    begin_ns: int
    end_ns: int
    machines: _containers.RepeatedCompositeFieldContainer[MachineAbout]
    alignment: _values_pb2.Value
    step_time: _values_pb2.Value
    tags: _containers.ScalarMap[str, str]
    def __init__(self, jobs: _Optional[_Iterable[str]] = ..., experiment: _Optional[str] = ..., begin_ns: _Optional[int] = ..., end_ns: _Optional[int] = ..., machines: _Optional[_Iterable[_Union[MachineAbout, _Mapping]]] = ..., alignment: _Optional[_Union[_values_pb2.Value, _Mapping]] = ..., step_time: _Optional[_Union[_values_pb2.Value, _Mapping]] = ..., tags: _Optional[_Mapping[str, str]] = ...) -> None: ...

class MachineAbout(_message.Message):
    __slots__ = ("host", "cpu_model", "cpus", "calibrated_ns")
    HOST_FIELD_NUMBER: _ClassVar[int]
    CPU_MODEL_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    CALIBRATED_NS_FIELD_NUMBER: _ClassVar[int]
    host: str
    cpu_model: str
    cpus: int
    calibrated_ns: int
    def __init__(self, host: _Optional[str] = ..., cpu_model: _Optional[str] = ..., cpus: _Optional[int] = ..., calibrated_ns: _Optional[int] = ...) -> None: ...

class Spread(_message.Message):
    __slots__ = ("p5", "p25", "p50", "p75", "p95", "count")
    P5_FIELD_NUMBER: _ClassVar[int]
    P25_FIELD_NUMBER: _ClassVar[int]
    P50_FIELD_NUMBER: _ClassVar[int]
    P75_FIELD_NUMBER: _ClassVar[int]
    P95_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    p5: float
    p25: float
    p50: float
    p75: float
    p95: float
    count: int
    def __init__(self, p5: _Optional[float] = ..., p25: _Optional[float] = ..., p50: _Optional[float] = ..., p75: _Optional[float] = ..., p95: _Optional[float] = ..., count: _Optional[int] = ...) -> None: ...

class GetRooflineRequest(_message.Message):
    __slots__ = ("subject", "kind", "points")
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    POINTS_FIELD_NUMBER: _ClassVar[int]
    subject: Subject
    kind: str
    points: str
    def __init__(self, subject: _Optional[_Union[Subject, _Mapping]] = ..., kind: _Optional[str] = ..., points: _Optional[str] = ...) -> None: ...

class Roofline(_message.Message):
    __slots__ = ("about", "kind", "roofs", "points", "crossings", "notes")
    ABOUT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    ROOFS_FIELD_NUMBER: _ClassVar[int]
    POINTS_FIELD_NUMBER: _ClassVar[int]
    CROSSINGS_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    about: About
    kind: str
    roofs: _containers.RepeatedCompositeFieldContainer[_values_pb2.Roof]
    points: _containers.RepeatedCompositeFieldContainer[RoofPoint]
    crossings: _containers.RepeatedCompositeFieldContainer[Crossing]
    notes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, about: _Optional[_Union[About, _Mapping]] = ..., kind: _Optional[str] = ..., roofs: _Optional[_Iterable[_Union[_values_pb2.Roof, _Mapping]]] = ..., points: _Optional[_Iterable[_Union[RoofPoint, _Mapping]]] = ..., crossings: _Optional[_Iterable[_Union[Crossing, _Mapping]]] = ..., notes: _Optional[_Iterable[str]] = ...) -> None: ...

class RoofPoint(_message.Message):
    __slots__ = ("label", "kind", "role", "rank", "host", "device", "level", "precision", "intensity", "flops_per_second", "intensity_spread", "flops_spread", "time", "bound", "attainable", "headroom", "words", "incomplete", "flops_per_joule")
    LABEL_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    PRECISION_FIELD_NUMBER: _ClassVar[int]
    INTENSITY_FIELD_NUMBER: _ClassVar[int]
    FLOPS_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    INTENSITY_SPREAD_FIELD_NUMBER: _ClassVar[int]
    FLOPS_SPREAD_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    BOUND_FIELD_NUMBER: _ClassVar[int]
    ATTAINABLE_FIELD_NUMBER: _ClassVar[int]
    HEADROOM_FIELD_NUMBER: _ClassVar[int]
    WORDS_FIELD_NUMBER: _ClassVar[int]
    INCOMPLETE_FIELD_NUMBER: _ClassVar[int]
    FLOPS_PER_JOULE_FIELD_NUMBER: _ClassVar[int]
    label: str
    kind: str
    role: str
    rank: str
    host: str
    device: str
    level: str
    precision: str
    intensity: _values_pb2.Value
    flops_per_second: _values_pb2.Value
    intensity_spread: Spread
    flops_spread: Spread
    time: _values_pb2.Value
    bound: str
    attainable: _values_pb2.Value
    headroom: _values_pb2.Value
    words: str
    incomplete: str
    flops_per_joule: _values_pb2.Value
    def __init__(self, label: _Optional[str] = ..., kind: _Optional[str] = ..., role: _Optional[str] = ..., rank: _Optional[str] = ..., host: _Optional[str] = ..., device: _Optional[str] = ..., level: _Optional[str] = ..., precision: _Optional[str] = ..., intensity: _Optional[_Union[_values_pb2.Value, _Mapping]] = ..., flops_per_second: _Optional[_Union[_values_pb2.Value, _Mapping]] = ..., intensity_spread: _Optional[_Union[Spread, _Mapping]] = ..., flops_spread: _Optional[_Union[Spread, _Mapping]] = ..., time: _Optional[_Union[_values_pb2.Value, _Mapping]] = ..., bound: _Optional[str] = ..., attainable: _Optional[_Union[_values_pb2.Value, _Mapping]] = ..., headroom: _Optional[_Union[_values_pb2.Value, _Mapping]] = ..., words: _Optional[str] = ..., incomplete: _Optional[str] = ..., flops_per_joule: _Optional[_Union[_values_pb2.Value, _Mapping]] = ...) -> None: ...

class Crossing(_message.Message):
    __slots__ = ("label", "role", "batch", "crossing", "words", "ridge")
    LABEL_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    CROSSING_FIELD_NUMBER: _ClassVar[int]
    WORDS_FIELD_NUMBER: _ClassVar[int]
    RIDGE_FIELD_NUMBER: _ClassVar[int]
    label: str
    role: str
    batch: _values_pb2.Value
    crossing: _values_pb2.Value
    words: str
    ridge: _values_pb2.Value
    def __init__(self, label: _Optional[str] = ..., role: _Optional[str] = ..., batch: _Optional[_Union[_values_pb2.Value, _Mapping]] = ..., crossing: _Optional[_Union[_values_pb2.Value, _Mapping]] = ..., words: _Optional[str] = ..., ridge: _Optional[_Union[_values_pb2.Value, _Mapping]] = ...) -> None: ...

class GetTimeRooflineRequest(_message.Message):
    __slots__ = ("subject", "experiment", "jobs", "over", "points")
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    EXPERIMENT_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    OVER_FIELD_NUMBER: _ClassVar[int]
    POINTS_FIELD_NUMBER: _ClassVar[int]
    subject: Subject
    experiment: str
    jobs: _containers.RepeatedScalarFieldContainer[str]
    over: str
    points: str
    def __init__(self, subject: _Optional[_Union[Subject, _Mapping]] = ..., experiment: _Optional[str] = ..., jobs: _Optional[_Iterable[str]] = ..., over: _Optional[str] = ..., points: _Optional[str] = ...) -> None: ...

class TimeRoofline(_message.Message):
    __slots__ = ("about", "panels", "notes", "over")
    ABOUT_FIELD_NUMBER: _ClassVar[int]
    PANELS_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    OVER_FIELD_NUMBER: _ClassVar[int]
    about: About
    panels: _containers.RepeatedCompositeFieldContainer[TimePanel]
    notes: _containers.RepeatedScalarFieldContainer[str]
    over: str
    def __init__(self, about: _Optional[_Union[About, _Mapping]] = ..., panels: _Optional[_Iterable[_Union[TimePanel, _Mapping]]] = ..., notes: _Optional[_Iterable[str]] = ..., over: _Optional[str] = ...) -> None: ...

class TimePanel(_message.Message):
    __slots__ = ("host", "device", "precision", "compute", "memory", "balance", "launch_overhead", "points", "no_flop_launches", "no_flop_time", "boxes", "isocurves")
    HOST_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    PRECISION_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    BALANCE_FIELD_NUMBER: _ClassVar[int]
    LAUNCH_OVERHEAD_FIELD_NUMBER: _ClassVar[int]
    POINTS_FIELD_NUMBER: _ClassVar[int]
    NO_FLOP_LAUNCHES_FIELD_NUMBER: _ClassVar[int]
    NO_FLOP_TIME_FIELD_NUMBER: _ClassVar[int]
    BOXES_FIELD_NUMBER: _ClassVar[int]
    ISOCURVES_FIELD_NUMBER: _ClassVar[int]
    host: str
    device: str
    precision: str
    compute: _machine_pb2.Ceiling
    memory: _machine_pb2.Ceiling
    balance: _values_pb2.Value
    launch_overhead: _values_pb2.Value
    points: _containers.RepeatedCompositeFieldContainer[TimePoint]
    no_flop_launches: _values_pb2.Value
    no_flop_time: _values_pb2.Value
    boxes: _containers.RepeatedCompositeFieldContainer[OverheadBox]
    isocurves: _containers.RepeatedCompositeFieldContainer[Isocurve]
    def __init__(self, host: _Optional[str] = ..., device: _Optional[str] = ..., precision: _Optional[str] = ..., compute: _Optional[_Union[_machine_pb2.Ceiling, _Mapping]] = ..., memory: _Optional[_Union[_machine_pb2.Ceiling, _Mapping]] = ..., balance: _Optional[_Union[_values_pb2.Value, _Mapping]] = ..., launch_overhead: _Optional[_Union[_values_pb2.Value, _Mapping]] = ..., points: _Optional[_Iterable[_Union[TimePoint, _Mapping]]] = ..., no_flop_launches: _Optional[_Union[_values_pb2.Value, _Mapping]] = ..., no_flop_time: _Optional[_Union[_values_pb2.Value, _Mapping]] = ..., boxes: _Optional[_Iterable[_Union[OverheadBox, _Mapping]]] = ..., isocurves: _Optional[_Iterable[_Union[Isocurve, _Mapping]]] = ...) -> None: ...

class TimePoint(_message.Message):
    __slots__ = ("label", "kind", "role", "rank", "job", "at", "flops", "bytes", "time", "launches", "bandwidth_time", "compute_time", "time_bytes", "time_flops", "bound", "time_spread", "incomplete", "words", "level")
    LABEL_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    FLOPS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    LAUNCHES_FIELD_NUMBER: _ClassVar[int]
    BANDWIDTH_TIME_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_TIME_FIELD_NUMBER: _ClassVar[int]
    TIME_BYTES_FIELD_NUMBER: _ClassVar[int]
    TIME_FLOPS_FIELD_NUMBER: _ClassVar[int]
    BOUND_FIELD_NUMBER: _ClassVar[int]
    TIME_SPREAD_FIELD_NUMBER: _ClassVar[int]
    INCOMPLETE_FIELD_NUMBER: _ClassVar[int]
    WORDS_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    label: str
    kind: str
    role: str
    rank: str
    job: str
    at: str
    flops: _values_pb2.Value
    bytes: _values_pb2.Value
    time: _values_pb2.Value
    launches: int
    bandwidth_time: _values_pb2.Value
    compute_time: _values_pb2.Value
    time_bytes: float
    time_flops: float
    bound: str
    time_spread: Spread
    incomplete: str
    words: str
    level: str
    def __init__(self, label: _Optional[str] = ..., kind: _Optional[str] = ..., role: _Optional[str] = ..., rank: _Optional[str] = ..., job: _Optional[str] = ..., at: _Optional[str] = ..., flops: _Optional[_Union[_values_pb2.Value, _Mapping]] = ..., bytes: _Optional[_Union[_values_pb2.Value, _Mapping]] = ..., time: _Optional[_Union[_values_pb2.Value, _Mapping]] = ..., launches: _Optional[int] = ..., bandwidth_time: _Optional[_Union[_values_pb2.Value, _Mapping]] = ..., compute_time: _Optional[_Union[_values_pb2.Value, _Mapping]] = ..., time_bytes: _Optional[float] = ..., time_flops: _Optional[float] = ..., bound: _Optional[str] = ..., time_spread: _Optional[_Union[Spread, _Mapping]] = ..., incomplete: _Optional[str] = ..., words: _Optional[str] = ..., level: _Optional[str] = ...) -> None: ...

class OverheadBox(_message.Message):
    __slots__ = ("launches", "bytes", "flops", "label")
    LAUNCHES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    FLOPS_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    launches: int
    bytes: float
    flops: float
    label: str
    def __init__(self, launches: _Optional[int] = ..., bytes: _Optional[float] = ..., flops: _Optional[float] = ..., label: _Optional[str] = ...) -> None: ...

class Isocurve(_message.Message):
    __slots__ = ("seconds", "bytes", "flops")
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    FLOPS_FIELD_NUMBER: _ClassVar[int]
    seconds: float
    bytes: _containers.RepeatedScalarFieldContainer[float]
    flops: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, seconds: _Optional[float] = ..., bytes: _Optional[_Iterable[float]] = ..., flops: _Optional[_Iterable[float]] = ...) -> None: ...

class GetTrajectoryRequest(_message.Message):
    __slots__ = ("experiment", "jobs", "over", "roles", "first_step", "last_step")
    EXPERIMENT_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    OVER_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    FIRST_STEP_FIELD_NUMBER: _ClassVar[int]
    LAST_STEP_FIELD_NUMBER: _ClassVar[int]
    experiment: str
    jobs: _containers.RepeatedScalarFieldContainer[str]
    over: str
    roles: _containers.RepeatedScalarFieldContainer[str]
    first_step: int
    last_step: int
    def __init__(self, experiment: _Optional[str] = ..., jobs: _Optional[_Iterable[str]] = ..., over: _Optional[str] = ..., roles: _Optional[_Iterable[str]] = ..., first_step: _Optional[int] = ..., last_step: _Optional[int] = ...) -> None: ...

class Trajectory(_message.Message):
    __slots__ = ("about", "over", "paths", "roofs", "notes")
    ABOUT_FIELD_NUMBER: _ClassVar[int]
    OVER_FIELD_NUMBER: _ClassVar[int]
    PATHS_FIELD_NUMBER: _ClassVar[int]
    ROOFS_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    about: About
    over: str
    paths: _containers.RepeatedCompositeFieldContainer[Path]
    roofs: _containers.RepeatedCompositeFieldContainer[_values_pb2.Roof]
    notes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, about: _Optional[_Union[About, _Mapping]] = ..., over: _Optional[str] = ..., paths: _Optional[_Iterable[_Union[Path, _Mapping]]] = ..., roofs: _Optional[_Iterable[_Union[_values_pb2.Roof, _Mapping]]] = ..., notes: _Optional[_Iterable[str]] = ...) -> None: ...

class Path(_message.Message):
    __slots__ = ("role", "stops", "words")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    STOPS_FIELD_NUMBER: _ClassVar[int]
    WORDS_FIELD_NUMBER: _ClassVar[int]
    role: str
    stops: _containers.RepeatedCompositeFieldContainer[Stop]
    words: str
    def __init__(self, role: _Optional[str] = ..., stops: _Optional[_Iterable[_Union[Stop, _Mapping]]] = ..., words: _Optional[str] = ...) -> None: ...

class Stop(_message.Message):
    __slots__ = ("at", "jobs", "point", "throughput", "speedup", "efficiency", "step_time")
    AT_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    POINT_FIELD_NUMBER: _ClassVar[int]
    THROUGHPUT_FIELD_NUMBER: _ClassVar[int]
    SPEEDUP_FIELD_NUMBER: _ClassVar[int]
    EFFICIENCY_FIELD_NUMBER: _ClassVar[int]
    STEP_TIME_FIELD_NUMBER: _ClassVar[int]
    at: str
    jobs: _containers.RepeatedScalarFieldContainer[str]
    point: RoofPoint
    throughput: _values_pb2.Value
    speedup: _values_pb2.Value
    efficiency: _values_pb2.Value
    step_time: _values_pb2.Value
    def __init__(self, at: _Optional[str] = ..., jobs: _Optional[_Iterable[str]] = ..., point: _Optional[_Union[RoofPoint, _Mapping]] = ..., throughput: _Optional[_Union[_values_pb2.Value, _Mapping]] = ..., speedup: _Optional[_Union[_values_pb2.Value, _Mapping]] = ..., efficiency: _Optional[_Union[_values_pb2.Value, _Mapping]] = ..., step_time: _Optional[_Union[_values_pb2.Value, _Mapping]] = ...) -> None: ...

class GetBreakdownRequest(_message.Message):
    __slots__ = ("subject", "by")
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    subject: Subject
    by: str
    def __init__(self, subject: _Optional[_Union[Subject, _Mapping]] = ..., by: _Optional[str] = ...) -> None: ...

class Breakdown(_message.Message):
    __slots__ = ("about", "parts", "notes")
    ABOUT_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    about: About
    parts: _containers.RepeatedCompositeFieldContainer[BreakdownPart]
    notes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, about: _Optional[_Union[About, _Mapping]] = ..., parts: _Optional[_Iterable[_Union[BreakdownPart, _Mapping]]] = ..., notes: _Optional[_Iterable[str]] = ...) -> None: ...

class BreakdownPart(_message.Message):
    __slots__ = ("kind", "subject", "role", "part", "value", "share", "words")
    KIND_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    WORDS_FIELD_NUMBER: _ClassVar[int]
    kind: str
    subject: str
    role: str
    part: str
    value: _values_pb2.Value
    share: _values_pb2.Value
    words: str
    def __init__(self, kind: _Optional[str] = ..., subject: _Optional[str] = ..., role: _Optional[str] = ..., part: _Optional[str] = ..., value: _Optional[_Union[_values_pb2.Value, _Mapping]] = ..., share: _Optional[_Union[_values_pb2.Value, _Mapping]] = ..., words: _Optional[str] = ...) -> None: ...

class GetMachinesRequest(_message.Message):
    __slots__ = ("host", "history")
    HOST_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    host: str
    history: bool
    def __init__(self, host: _Optional[str] = ..., history: bool = ...) -> None: ...

class GetMachinesResponse(_message.Message):
    __slots__ = ("machines",)
    MACHINES_FIELD_NUMBER: _ClassVar[int]
    machines: _containers.RepeatedCompositeFieldContainer[MachineVersion]
    def __init__(self, machines: _Optional[_Iterable[_Union[MachineVersion, _Mapping]]] = ...) -> None: ...

class MachineVersion(_message.Message):
    __slots__ = ("machine", "version", "since_ns", "until_ns", "jobs", "connected", "agent")
    MACHINE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SINCE_NS_FIELD_NUMBER: _ClassVar[int]
    UNTIL_NS_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    CONNECTED_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    machine: _machine_pb2.Machine
    version: int
    since_ns: int
    until_ns: int
    jobs: _containers.RepeatedScalarFieldContainer[str]
    connected: bool
    agent: str
    def __init__(self, machine: _Optional[_Union[_machine_pb2.Machine, _Mapping]] = ..., version: _Optional[int] = ..., since_ns: _Optional[int] = ..., until_ns: _Optional[int] = ..., jobs: _Optional[_Iterable[str]] = ..., connected: bool = ..., agent: _Optional[str] = ...) -> None: ...

class BenchNetRequest(_message.Message):
    __slots__ = ("from_host", "to_host", "seconds", "quick", "force", "address")
    FROM_HOST_FIELD_NUMBER: _ClassVar[int]
    TO_HOST_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    QUICK_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    from_host: str
    to_host: str
    seconds: float
    quick: bool
    force: bool
    address: str
    def __init__(self, from_host: _Optional[str] = ..., to_host: _Optional[str] = ..., seconds: _Optional[float] = ..., quick: bool = ..., force: bool = ..., address: _Optional[str] = ...) -> None: ...

class BenchNetEvent(_message.Message):
    __slots__ = ("progress", "result", "summary")
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    progress: str
    result: NetResult
    summary: NetSummary
    def __init__(self, progress: _Optional[str] = ..., result: _Optional[_Union[NetResult, _Mapping]] = ..., summary: _Optional[_Union[NetSummary, _Mapping]] = ...) -> None: ...

class TraceJobRequest(_message.Message):
    __slots__ = ("job", "steps", "ranks")
    JOB_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    RANKS_FIELD_NUMBER: _ClassVar[int]
    job: str
    steps: int
    ranks: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, job: _Optional[str] = ..., steps: _Optional[int] = ..., ranks: _Optional[_Iterable[str]] = ...) -> None: ...

class TraceJobEvent(_message.Message):
    __slots__ = ("progress", "result")
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    progress: str
    result: RankTrace
    def __init__(self, progress: _Optional[str] = ..., result: _Optional[_Union[RankTrace, _Mapping]] = ...) -> None: ...

class RankTrace(_message.Message):
    __slots__ = ("rank", "recorded", "text")
    RANK_FIELD_NUMBER: _ClassVar[int]
    RECORDED_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    rank: str
    recorded: bool
    text: str
    def __init__(self, rank: _Optional[str] = ..., recorded: bool = ..., text: _Optional[str] = ...) -> None: ...

class NetResult(_message.Message):
    __slots__ = ("name", "transport", "pattern", "payload", "buffers", "buffer_count", "message_bytes", "serialized", "value", "unit", "spread", "method", "time_ns")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TRANSPORT_FIELD_NUMBER: _ClassVar[int]
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    BUFFERS_FIELD_NUMBER: _ClassVar[int]
    BUFFER_COUNT_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    SERIALIZED_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    SPREAD_FIELD_NUMBER: _ClassVar[int]
    METHOD_FIELD_NUMBER: _ClassVar[int]
    TIME_NS_FIELD_NUMBER: _ClassVar[int]
    name: str
    transport: str
    pattern: str
    payload: str
    buffers: str
    buffer_count: int
    message_bytes: int
    serialized: bool
    value: float
    unit: str
    spread: Spread
    method: str
    time_ns: int
    def __init__(self, name: _Optional[str] = ..., transport: _Optional[str] = ..., pattern: _Optional[str] = ..., payload: _Optional[str] = ..., buffers: _Optional[str] = ..., buffer_count: _Optional[int] = ..., message_bytes: _Optional[int] = ..., serialized: bool = ..., value: _Optional[float] = ..., unit: _Optional[str] = ..., spread: _Optional[_Union[Spread, _Mapping]] = ..., method: _Optional[str] = ..., time_ns: _Optional[int] = ...) -> None: ...

class NetSummary(_message.Message):
    __slots__ = ("ceilings", "notes")
    CEILINGS_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    ceilings: _containers.RepeatedCompositeFieldContainer[_machine_pb2.Ceiling]
    notes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, ceilings: _Optional[_Iterable[_Union[_machine_pb2.Ceiling, _Mapping]]] = ..., notes: _Optional[_Iterable[str]] = ...) -> None: ...

class GetEfficiencyRequest(_message.Message):
    __slots__ = ("subject", "flops_per_example", "flops_per_step", "parameters", "tokens_per_example", "layers", "hidden", "causal", "precision", "sparse")
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    FLOPS_PER_EXAMPLE_FIELD_NUMBER: _ClassVar[int]
    FLOPS_PER_STEP_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    TOKENS_PER_EXAMPLE_FIELD_NUMBER: _ClassVar[int]
    LAYERS_FIELD_NUMBER: _ClassVar[int]
    HIDDEN_FIELD_NUMBER: _ClassVar[int]
    CAUSAL_FIELD_NUMBER: _ClassVar[int]
    PRECISION_FIELD_NUMBER: _ClassVar[int]
    SPARSE_FIELD_NUMBER: _ClassVar[int]
    subject: Subject
    flops_per_example: float
    flops_per_step: float
    parameters: float
    tokens_per_example: float
    layers: float
    hidden: float
    causal: bool
    precision: str
    sparse: bool
    def __init__(self, subject: _Optional[_Union[Subject, _Mapping]] = ..., flops_per_example: _Optional[float] = ..., flops_per_step: _Optional[float] = ..., parameters: _Optional[float] = ..., tokens_per_example: _Optional[float] = ..., layers: _Optional[float] = ..., hidden: _Optional[float] = ..., causal: bool = ..., precision: _Optional[str] = ..., sparse: bool = ...) -> None: ...

class Efficiency(_message.Message):
    __slots__ = ("about", "sentence", "whole", "ranks", "notes")
    ABOUT_FIELD_NUMBER: _ClassVar[int]
    SENTENCE_FIELD_NUMBER: _ClassVar[int]
    WHOLE_FIELD_NUMBER: _ClassVar[int]
    RANKS_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    about: About
    sentence: str
    whole: Utilisation
    ranks: _containers.RepeatedCompositeFieldContainer[Utilisation]
    notes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, about: _Optional[_Union[About, _Mapping]] = ..., sentence: _Optional[str] = ..., whole: _Optional[_Union[Utilisation, _Mapping]] = ..., ranks: _Optional[_Iterable[_Union[Utilisation, _Mapping]]] = ..., notes: _Optional[_Iterable[str]] = ...) -> None: ...

class Utilisation(_message.Message):
    __slots__ = ("label", "rank", "host", "precision", "steps", "measures", "waterfall")
    LABEL_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    PRECISION_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    MEASURES_FIELD_NUMBER: _ClassVar[int]
    WATERFALL_FIELD_NUMBER: _ClassVar[int]
    label: str
    rank: str
    host: str
    precision: str
    steps: int
    measures: _containers.RepeatedCompositeFieldContainer[UtilisationMeasure]
    waterfall: _containers.RepeatedCompositeFieldContainer[WaterfallPart]
    def __init__(self, label: _Optional[str] = ..., rank: _Optional[str] = ..., host: _Optional[str] = ..., precision: _Optional[str] = ..., steps: _Optional[int] = ..., measures: _Optional[_Iterable[_Union[UtilisationMeasure, _Mapping]]] = ..., waterfall: _Optional[_Iterable[_Union[WaterfallPart, _Mapping]]] = ...) -> None: ...

class UtilisationMeasure(_message.Message):
    __slots__ = ("name", "value", "formula")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    FORMULA_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: _values_pb2.Value
    formula: str
    def __init__(self, name: _Optional[str] = ..., value: _Optional[_Union[_values_pb2.Value, _Mapping]] = ..., formula: _Optional[str] = ...) -> None: ...

class WaterfallPart(_message.Message):
    __slots__ = ("part", "time", "share", "formula")
    PART_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    FORMULA_FIELD_NUMBER: _ClassVar[int]
    part: str
    time: _values_pb2.Value
    share: _values_pb2.Value
    formula: str
    def __init__(self, part: _Optional[str] = ..., time: _Optional[_Union[_values_pb2.Value, _Mapping]] = ..., share: _Optional[_Union[_values_pb2.Value, _Mapping]] = ..., formula: _Optional[str] = ...) -> None: ...
