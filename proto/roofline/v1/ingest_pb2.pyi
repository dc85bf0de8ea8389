from roofline.v1 import machine_pb2 as _machine_pb2
from roofline.v1 import models_pb2 as _models_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class MetricKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    METRIC_KIND_UNSPECIFIED: _ClassVar[MetricKind]
    METRIC_KIND_CUMULATIVE: _ClassVar[MetricKind]
    METRIC_KIND_GAUGE: _ClassVar[MetricKind]

class MarkKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MARK_KIND_UNSPECIFIED: _ClassVar[MarkKind]
    MARK_KIND_BEGIN: _ClassVar[MarkKind]
    MARK_KIND_END: _ClassVar[MarkKind]
    MARK_KIND_BORDER: _ClassVar[MarkKind]
    MARK_KIND_PHASE_BEGIN: _ClassVar[MarkKind]
    MARK_KIND_PHASE_END: _ClassVar[MarkKind]

class EventKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EVENT_KIND_UNSPECIFIED: _ClassVar[EventKind]
    EVENT_KIND_AGENT_STARTED: _ClassVar[EventKind]
    EVENT_KIND_RANK_STARTED: _ClassVar[EventKind]
    EVENT_KIND_RANK_EXITED: _ClassVar[EventKind]
    EVENT_KIND_KERNELS_COVERED: _ClassVar[EventKind]
    EVENT_KIND_LOST: _ClassVar[EventKind]
    EVENT_KIND_REFUSED: _ClassVar[EventKind]
    EVENT_KIND_SOURCE_FAILED: _ClassVar[EventKind]
    EVENT_KIND_FACT: _ClassVar[EventKind]
METRIC_KIND_UNSPECIFIED: MetricKind
METRIC_KIND_CUMULATIVE: MetricKind
METRIC_KIND_GAUGE: MetricKind
MARK_KIND_UNSPECIFIED: MarkKind
MARK_KIND_BEGIN: MarkKind
MARK_KIND_END: MarkKind
MARK_KIND_BORDER: MarkKind
MARK_KIND_PHASE_BEGIN: MarkKind
MARK_KIND_PHASE_END: MarkKind
EVENT_KIND_UNSPECIFIED: EventKind
EVENT_KIND_AGENT_STARTED: EventKind
EVENT_KIND_RANK_STARTED: EventKind
EVENT_KIND_RANK_EXITED: EventKind
EVENT_KIND_KERNELS_COVERED: EventKind
EVENT_KIND_LOST: EventKind
EVENT_KIND_REFUSED: EventKind
EVENT_KIND_SOURCE_FAILED: EventKind
EVENT_KIND_FACT: EventKind

class AgentMessage(_message.Message):
    __slots__ = ("hello", "batch", "pong", "result", "backlog", "lineage", "boot")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    PONG_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    BACKLOG_FIELD_NUMBER: _ClassVar[int]
    LINEAGE_FIELD_NUMBER: _ClassVar[int]
    BOOT_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    batch: Batch
    pong: Pong
    result: CommandResult
    backlog: Backlog
    lineage: str
    boot: str
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., batch: _Optional[_Union[Batch, _Mapping]] = ..., pong: _Optional[_Union[Pong, _Mapping]] = ..., result: _Optional[_Union[CommandResult, _Mapping]] = ..., backlog: _Optional[_Union[Backlog, _Mapping]] = ..., lineage: _Optional[str] = ..., boot: _Optional[str] = ...) -> None: ...

class ServerMessage(_message.Message):
    __slots__ = ("welcome", "ack", "ping", "command", "rejection", "notice")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    PING_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    REJECTION_FIELD_NUMBER: _ClassVar[int]
    NOTICE_FIELD_NUMBER: _ClassVar[int]
    welcome: Welcome
    ack: Ack
    ping: Ping
    command: Command
    rejection: Rejection
    notice: Notice
    def __init__(self, welcome: _Optional[_Union[Welcome, _Mapping]] = ..., ack: _Optional[_Union[Ack, _Mapping]] = ..., ping: _Optional[_Union[Ping, _Mapping]] = ..., command: _Optional[_Union[Command, _Mapping]] = ..., rejection: _Optional[_Union[Rejection, _Mapping]] = ..., notice: _Optional[_Union[Notice, _Mapping]] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("protocol", "agent", "instance", "boot", "version", "machine", "sources", "interval_ns", "node_ns", "lineage", "exact_acks", "own_interval_ns")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    BOOT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    MACHINE_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_NS_FIELD_NUMBER: _ClassVar[int]
    NODE_NS_FIELD_NUMBER: _ClassVar[int]
    LINEAGE_FIELD_NUMBER: _ClassVar[int]
    EXACT_ACKS_FIELD_NUMBER: _ClassVar[int]
    OWN_INTERVAL_NS_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    agent: str
    instance: str
    boot: str
    version: str
    machine: _machine_pb2.Machine
    sources: _containers.RepeatedCompositeFieldContainer[_machine_pb2.SourceStatus]
    interval_ns: int
    node_ns: int
    lineage: str
    exact_acks: bool
    own_interval_ns: int
    def __init__(self, protocol: _Optional[int] = ..., agent: _Optional[str] = ..., instance: _Optional[str] = ..., boot: _Optional[str] = ..., version: _Optional[str] = ..., machine: _Optional[_Union[_machine_pb2.Machine, _Mapping]] = ..., sources: _Optional[_Iterable[_Union[_machine_pb2.SourceStatus, _Mapping]]] = ..., interval_ns: _Optional[int] = ..., node_ns: _Optional[int] = ..., lineage: _Optional[str] = ..., exact_acks: bool = ..., own_interval_ns: _Optional[int] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("acked", "server", "max_batch_bytes", "lineage", "exact_acks", "hold_ms")
    ACKED_FIELD_NUMBER: _ClassVar[int]
    SERVER_FIELD_NUMBER: _ClassVar[int]
    MAX_BATCH_BYTES_FIELD_NUMBER: _ClassVar[int]
    LINEAGE_FIELD_NUMBER: _ClassVar[int]
    EXACT_ACKS_FIELD_NUMBER: _ClassVar[int]
    HOLD_MS_FIELD_NUMBER: _ClassVar[int]
    acked: int
    server: str
    max_batch_bytes: int
    lineage: str
    exact_acks: bool
    hold_ms: int
    def __init__(self, acked: _Optional[int] = ..., server: _Optional[str] = ..., max_batch_bytes: _Optional[int] = ..., lineage: _Optional[str] = ..., exact_acks: bool = ..., hold_ms: _Optional[int] = ...) -> None: ...

class Backlog(_message.Message):
    __slots__ = ("begin_ns", "end_ns")
    BEGIN_NS_FIELD_NUMBER: _ClassVar[int]
    END_NS_FIELD_NUMBER: _ClassVar[int]
    begin_ns: int
    end_ns: int
    def __init__(self, begin_ns: _Optional[int] = ..., end_ns: _Optional[int] = ...) -> None: ...

class Batch(_message.Message):
    __slots__ = ("sequence", "begin_ns", "end_ns", "ranks", "counter_sets", "samples", "marks", "kernels", "calls", "events", "instances", "spans", "steps")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    BEGIN_NS_FIELD_NUMBER: _ClassVar[int]
    END_NS_FIELD_NUMBER: _ClassVar[int]
    RANKS_FIELD_NUMBER: _ClassVar[int]
    COUNTER_SETS_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    MARKS_FIELD_NUMBER: _ClassVar[int]
    KERNELS_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    INSTANCES_FIELD_NUMBER: _ClassVar[int]
    SPANS_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    begin_ns: int
    end_ns: int
    ranks: _containers.RepeatedCompositeFieldContainer[Rank]
    counter_sets: _containers.RepeatedCompositeFieldContainer[CounterSet]
    samples: _containers.RepeatedCompositeFieldContainer[Samples]
    marks: Marks
    kernels: _containers.RepeatedCompositeFieldContainer[Kernel]
    calls: Calls
    events: _containers.RepeatedCompositeFieldContainer[Event]
    instances: _containers.RepeatedScalarFieldContainer[str]
    spans: Spans
    steps: _containers.RepeatedCompositeFieldContainer[Steps]
    def __init__(self, sequence: _Optional[int] = ..., begin_ns: _Optional[int] = ..., end_ns: _Optional[int] = ..., ranks: _Optional[_Iterable[_Union[Rank, _Mapping]]] = ..., counter_sets: _Optional[_Iterable[_Union[CounterSet, _Mapping]]] = ..., samples: _Optional[_Iterable[_Union[Samples, _Mapping]]] = ..., marks: _Optional[_Union[Marks, _Mapping]] = ..., kernels: _Optional[_Iterable[_Union[Kernel, _Mapping]]] = ..., calls: _Optional[_Union[Calls, _Mapping]] = ..., events: _Optional[_Iterable[_Union[Event, _Mapping]]] = ..., instances: _Optional[_Iterable[str]] = ..., spans: _Optional[_Union[Spans, _Mapping]] = ..., steps: _Optional[_Iterable[_Union[Steps, _Mapping]]] = ...) -> None: ...

class Rank(_message.Message):
    __slots__ = ("job", "role", "index", "pid", "start_ns", "name", "world", "framework", "launch", "user")
    JOB_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    START_NS_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    WORLD_FIELD_NUMBER: _ClassVar[int]
    FRAMEWORK_FIELD_NUMBER: _ClassVar[int]
    LAUNCH_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    job: str
    role: str
    index: int
    pid: int
    start_ns: int
    name: str
    world: int
    framework: str
    launch: str
    user: str
    def __init__(self, job: _Optional[str] = ..., role: _Optional[str] = ..., index: _Optional[int] = ..., pid: _Optional[int] = ..., start_ns: _Optional[int] = ..., name: _Optional[str] = ..., world: _Optional[int] = ..., framework: _Optional[str] = ..., launch: _Optional[str] = ..., user: _Optional[str] = ...) -> None: ...

class Metric(_message.Message):
    __slots__ = ("name", "kind", "unit", "scope", "provenance", "is_double", "coverage_of")
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    PROVENANCE_FIELD_NUMBER: _ClassVar[int]
    IS_DOUBLE_FIELD_NUMBER: _ClassVar[int]
    COVERAGE_OF_FIELD_NUMBER: _ClassVar[int]
    name: str
    kind: MetricKind
    unit: str
    scope: _machine_pb2.Scope
    provenance: _machine_pb2.Provenance
    is_double: bool
    coverage_of: str
    def __init__(self, name: _Optional[str] = ..., kind: _Optional[_Union[MetricKind, str]] = ..., unit: _Optional[str] = ..., scope: _Optional[_Union[_machine_pb2.Scope, str]] = ..., provenance: _Optional[_Union[_machine_pb2.Provenance, str]] = ..., is_double: bool = ..., coverage_of: _Optional[str] = ...) -> None: ...

class CounterSet(_message.Message):
    __slots__ = ("name", "metrics")
    NAME_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    name: str
    metrics: _containers.RepeatedCompositeFieldContainer[Metric]
    def __init__(self, name: _Optional[str] = ..., metrics: _Optional[_Iterable[_Union[Metric, _Mapping]]] = ...) -> None: ...

class Samples(_message.Message):
    __slots__ = ("counter_set", "rank", "time_ns", "columns", "instance")
    COUNTER_SET_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    TIME_NS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    counter_set: int
    rank: bytes
    time_ns: bytes
    columns: _containers.RepeatedScalarFieldContainer[bytes]
    instance: bytes
    def __init__(self, counter_set: _Optional[int] = ..., rank: _Optional[bytes] = ..., time_ns: _Optional[bytes] = ..., columns: _Optional[_Iterable[bytes]] = ..., instance: _Optional[bytes] = ...) -> None: ...

class Marks(_message.Message):
    __slots__ = ("rank", "sender", "kind", "step", "examples", "time_ns", "phase", "flags", "phases", "like")
    RANK_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    EXAMPLES_FIELD_NUMBER: _ClassVar[int]
    TIME_NS_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    FLAGS_FIELD_NUMBER: _ClassVar[int]
    PHASES_FIELD_NUMBER: _ClassVar[int]
    LIKE_FIELD_NUMBER: _ClassVar[int]
    rank: bytes
    sender: bytes
    kind: bytes
    step: bytes
    examples: bytes
    time_ns: bytes
    phase: bytes
    flags: bytes
    phases: _containers.RepeatedScalarFieldContainer[str]
    like: bytes
    def __init__(self, rank: _Optional[bytes] = ..., sender: _Optional[bytes] = ..., kind: _Optional[bytes] = ..., step: _Optional[bytes] = ..., examples: _Optional[bytes] = ..., time_ns: _Optional[bytes] = ..., phase: _Optional[bytes] = ..., flags: _Optional[bytes] = ..., phases: _Optional[_Iterable[str]] = ..., like: _Optional[bytes] = ...) -> None: ...

class Spans(_message.Message):
    __slots__ = ("rank", "name", "begin_ns", "end_ns", "bytes", "count", "names")
    RANK_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    BEGIN_NS_FIELD_NUMBER: _ClassVar[int]
    END_NS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    rank: bytes
    name: bytes
    begin_ns: bytes
    end_ns: bytes
    bytes: bytes
    count: bytes
    names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, rank: _Optional[bytes] = ..., name: _Optional[bytes] = ..., begin_ns: _Optional[bytes] = ..., end_ns: _Optional[bytes] = ..., bytes: _Optional[bytes] = ..., count: _Optional[bytes] = ..., names: _Optional[_Iterable[str]] = ...) -> None: ...

class Steps(_message.Message):
    __slots__ = ("rank", "marks", "like", "names", "counted", "numbers")
    RANK_FIELD_NUMBER: _ClassVar[int]
    MARKS_FIELD_NUMBER: _ClassVar[int]
    LIKE_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    COUNTED_FIELD_NUMBER: _ClassVar[int]
    NUMBERS_FIELD_NUMBER: _ClassVar[int]
    rank: int
    marks: int
    like: int
    names: _containers.RepeatedScalarFieldContainer[str]
    counted: int
    numbers: bytes
    def __init__(self, rank: _Optional[int] = ..., marks: _Optional[int] = ..., like: _Optional[int] = ..., names: _Optional[_Iterable[str]] = ..., counted: _Optional[int] = ..., numbers: _Optional[bytes] = ...) -> None: ...

class Kernel(_message.Message):
    __slots__ = ("library", "operation", "variant", "precision", "implementation", "problem", "flops", "bytes", "note", "dram_bytes", "l1_bytes", "l2_bytes", "layer", "on_gpu", "counted")
    LIBRARY_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    VARIANT_FIELD_NUMBER: _ClassVar[int]
    PRECISION_FIELD_NUMBER: _ClassVar[int]
    IMPLEMENTATION_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    FLOPS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    DRAM_BYTES_FIELD_NUMBER: _ClassVar[int]
    L1_BYTES_FIELD_NUMBER: _ClassVar[int]
    L2_BYTES_FIELD_NUMBER: _ClassVar[int]
    LAYER_FIELD_NUMBER: _ClassVar[int]
    ON_GPU_FIELD_NUMBER: _ClassVar[int]
    COUNTED_FIELD_NUMBER: _ClassVar[int]
    library: str
    operation: str
    variant: str
    precision: str
    implementation: str
    problem: str
    flops: int
    bytes: int
    note: str
    dram_bytes: int
    l1_bytes: int
    l2_bytes: int
    layer: str
    on_gpu: bool
    counted: bool
    def __init__(self, library: _Optional[str] = ..., operation: _Optional[str] = ..., variant: _Optional[str] = ..., precision: _Optional[str] = ..., implementation: _Optional[str] = ..., problem: _Optional[str] = ..., flops: _Optional[int] = ..., bytes: _Optional[int] = ..., note: _Optional[str] = ..., dram_bytes: _Optional[int] = ..., l1_bytes: _Optional[int] = ..., l2_bytes: _Optional[int] = ..., layer: _Optional[str] = ..., on_gpu: bool = ..., counted: bool = ...) -> None: ...

class Calls(_message.Message):
    __slots__ = ("rank", "kernel", "start_ns", "duration_ns")
    RANK_FIELD_NUMBER: _ClassVar[int]
    KERNEL_FIELD_NUMBER: _ClassVar[int]
    START_NS_FIELD_NUMBER: _ClassVar[int]
    DURATION_NS_FIELD_NUMBER: _ClassVar[int]
    rank: bytes
    kernel: bytes
    start_ns: bytes
    duration_ns: bytes
    def __init__(self, rank: _Optional[bytes] = ..., kernel: _Optional[bytes] = ..., start_ns: _Optional[bytes] = ..., duration_ns: _Optional[bytes] = ...) -> None: ...

class Event(_message.Message):
    __slots__ = ("kind", "rank", "begin_ns", "end_ns", "count", "text", "status", "step")
    KIND_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    BEGIN_NS_FIELD_NUMBER: _ClassVar[int]
    END_NS_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    kind: EventKind
    rank: int
    begin_ns: int
    end_ns: int
    count: int
    text: str
    status: int
    step: int
    def __init__(self, kind: _Optional[_Union[EventKind, str]] = ..., rank: _Optional[int] = ..., begin_ns: _Optional[int] = ..., end_ns: _Optional[int] = ..., count: _Optional[int] = ..., text: _Optional[str] = ..., status: _Optional[int] = ..., step: _Optional[int] = ...) -> None: ...

class Ack(_message.Message):
    __slots__ = ("sequence", "kept", "hold_ms")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    HOLD_MS_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    kept: _containers.RepeatedScalarFieldContainer[int]
    hold_ms: int
    def __init__(self, sequence: _Optional[int] = ..., kept: _Optional[_Iterable[int]] = ..., hold_ms: _Optional[int] = ...) -> None: ...

class Rejection(_message.Message):
    __slots__ = ("sequence", "reason", "taken")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    TAKEN_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    reason: str
    taken: bool
    def __init__(self, sequence: _Optional[int] = ..., reason: _Optional[str] = ..., taken: bool = ...) -> None: ...

class Notice(_message.Message):
    __slots__ = ("name", "text")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    name: str
    text: str
    def __init__(self, name: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...

class Ping(_message.Message):
    __slots__ = ("id", "server_ns")
    ID_FIELD_NUMBER: _ClassVar[int]
    SERVER_NS_FIELD_NUMBER: _ClassVar[int]
    id: int
    server_ns: int
    def __init__(self, id: _Optional[int] = ..., server_ns: _Optional[int] = ...) -> None: ...

class Pong(_message.Message):
    __slots__ = ("id", "server_ns", "received_ns", "sent_ns")
    ID_FIELD_NUMBER: _ClassVar[int]
    SERVER_NS_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_NS_FIELD_NUMBER: _ClassVar[int]
    SENT_NS_FIELD_NUMBER: _ClassVar[int]
    id: int
    server_ns: int
    received_ns: int
    sent_ns: int
    def __init__(self, id: _Optional[int] = ..., server_ns: _Optional[int] = ..., received_ns: _Optional[int] = ..., sent_ns: _Optional[int] = ...) -> None: ...

class Command(_message.Message):
    __slots__ = ("id", "set_interval", "serve_net", "measure_net", "stop_net", "trace_steps")
    ID_FIELD_NUMBER: _ClassVar[int]
    SET_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    SERVE_NET_FIELD_NUMBER: _ClassVar[int]
    MEASURE_NET_FIELD_NUMBER: _ClassVar[int]
    STOP_NET_FIELD_NUMBER: _ClassVar[int]
    TRACE_STEPS_FIELD_NUMBER: _ClassVar[int]
    id: int
    set_interval: SetInterval
    serve_net: ServeNet
    measure_net: MeasureNet
    stop_net: StopNet
    trace_steps: TraceSteps
    def __init__(self, id: _Optional[int] = ..., set_interval: _Optional[_Union[SetInterval, _Mapping]] = ..., serve_net: _Optional[_Union[ServeNet, _Mapping]] = ..., measure_net: _Optional[_Union[MeasureNet, _Mapping]] = ..., stop_net: _Optional[_Union[StopNet, _Mapping]] = ..., trace_steps: _Optional[_Union[TraceSteps, _Mapping]] = ...) -> None: ...

class SetInterval(_message.Message):
    __slots__ = ("interval_ns", "reason", "kernels")
    INTERVAL_NS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    KERNELS_FIELD_NUMBER: _ClassVar[int]
    interval_ns: int
    reason: str
    kernels: int
    def __init__(self, interval_ns: _Optional[int] = ..., reason: _Optional[str] = ..., kernels: _Optional[int] = ...) -> None: ...

class ServeNet(_message.Message):
    __slots__ = ("key", "seconds", "from_agent", "to_agent")
    KEY_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    FROM_AGENT_FIELD_NUMBER: _ClassVar[int]
    TO_AGENT_FIELD_NUMBER: _ClassVar[int]
    key: str
    seconds: float
    from_agent: str
    to_agent: str
    def __init__(self, key: _Optional[str] = ..., seconds: _Optional[float] = ..., from_agent: _Optional[str] = ..., to_agent: _Optional[str] = ...) -> None: ...

class MeasureNet(_message.Message):
    __slots__ = ("key", "host", "addresses", "tcp_port", "grpc_port", "seconds", "quick", "from_agent", "to_agent")
    KEY_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    TCP_PORT_FIELD_NUMBER: _ClassVar[int]
    GRPC_PORT_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    QUICK_FIELD_NUMBER: _ClassVar[int]
    FROM_AGENT_FIELD_NUMBER: _ClassVar[int]
    TO_AGENT_FIELD_NUMBER: _ClassVar[int]
    key: str
    host: str
    addresses: _containers.RepeatedScalarFieldContainer[str]
    tcp_port: int
    grpc_port: int
    seconds: float
    quick: bool
    from_agent: str
    to_agent: str
    def __init__(self, key: _Optional[str] = ..., host: _Optional[str] = ..., addresses: _Optional[_Iterable[str]] = ..., tcp_port: _Optional[int] = ..., grpc_port: _Optional[int] = ..., seconds: _Optional[float] = ..., quick: bool = ..., from_agent: _Optional[str] = ..., to_agent: _Optional[str] = ...) -> None: ...

class StopNet(_message.Message):
    __slots__ = ("key",)
    KEY_FIELD_NUMBER: _ClassVar[int]
    key: str
    def __init__(self, key: _Optional[str] = ...) -> None: ...

class TraceSteps(_message.Message):
    __slots__ = ("pid", "start_ns", "steps", "step_us")
    PID_FIELD_NUMBER: _ClassVar[int]
    START_NS_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    STEP_US_FIELD_NUMBER: _ClassVar[int]
    pid: int
    start_ns: int
    steps: int
    step_us: int
    def __init__(self, pid: _Optional[int] = ..., start_ns: _Optional[int] = ..., steps: _Optional[int] = ..., step_us: _Optional[int] = ...) -> None: ...

class NetServing(_message.Message):
    __slots__ = ("addresses", "tcp_port", "grpc_port")
    ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    TCP_PORT_FIELD_NUMBER: _ClassVar[int]
    GRPC_PORT_FIELD_NUMBER: _ClassVar[int]
    addresses: _containers.RepeatedScalarFieldContainer[str]
    tcp_port: int
    grpc_port: int
    def __init__(self, addresses: _Optional[_Iterable[str]] = ..., tcp_port: _Optional[int] = ..., grpc_port: _Optional[int] = ...) -> None: ...

class NetBuffers(_message.Message):
    __slots__ = ("buffers",)
    BUFFERS_FIELD_NUMBER: _ClassVar[int]
    buffers: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, buffers: _Optional[_Iterable[bytes]] = ...) -> None: ...

class CommandResult(_message.Message):
    __slots__ = ("id", "done", "reason", "serving", "net", "progress")
    ID_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SERVING_FIELD_NUMBER: _ClassVar[int]
    NET_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    id: int
    done: bool
    reason: str
    serving: NetServing
    net: _models_pb2.NetResult
    progress: str
    def __init__(self, id: _Optional[int] = ..., done: bool = ..., reason: _Optional[str] = ..., serving: _Optional[_Union[NetServing, _Mapping]] = ..., net: _Optional[_Union[_models_pb2.NetResult, _Mapping]] = ..., progress: _Optional[str] = ...) -> None: ...
