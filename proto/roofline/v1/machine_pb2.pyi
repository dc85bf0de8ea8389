from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Provenance(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PROVENANCE_UNSPECIFIED: _ClassVar[Provenance]
    PROVENANCE_MEASURED: _ClassVar[Provenance]
    PROVENANCE_ESTIMATED: _ClassVar[Provenance]
    PROVENANCE_ANALYTIC: _ClassVar[Provenance]
    PROVENANCE_REPORTED: _ClassVar[Provenance]

class Scope(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SCOPE_UNSPECIFIED: _ClassVar[Scope]
    SCOPE_PROCESS: _ClassVar[Scope]
    SCOPE_SOCKET: _ClassVar[Scope]
    SCOPE_NODE: _ClassVar[Scope]
    SCOPE_GPU: _ClassVar[Scope]
    SCOPE_ROLE: _ClassVar[Scope]
PROVENANCE_UNSPECIFIED: Provenance
PROVENANCE_MEASURED: Provenance
PROVENANCE_ESTIMATED: Provenance
PROVENANCE_ANALYTIC: Provenance
PROVENANCE_REPORTED: Provenance
SCOPE_UNSPECIFIED: Scope
SCOPE_PROCESS: Scope
SCOPE_SOCKET: Scope
SCOPE_NODE: Scope
SCOPE_GPU: Scope
SCOPE_ROLE: Scope

class Machine(_message.Message):
    __slots__ = ("host", "cpu_model", "sockets", "cores", "cpus", "memory_bytes", "kernel", "ceilings")
    HOST_FIELD_NUMBER: _ClassVar[int]
    CPU_MODEL_FIELD_NUMBER: _ClassVar[int]
    SOCKETS_FIELD_NUMBER: _ClassVar[int]
    CORES_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    KERNEL_FIELD_NUMBER: _ClassVar[int]
    CEILINGS_FIELD_NUMBER: _ClassVar[int]
    host: str
    cpu_model: str
    sockets: int
    cores: int
    cpus: int
    memory_bytes: int
    kernel: str
    ceilings: _containers.RepeatedCompositeFieldContainer[Ceiling]
    def __init__(self, host: _Optional[str] = ..., cpu_model: _Optional[str] = ..., sockets: _Optional[int] = ..., cores: _Optional[int] = ..., cpus: _Optional[int] = ..., memory_bytes: _Optional[int] = ..., kernel: _Optional[str] = ..., ceilings: _Optional[_Iterable[_Union[Ceiling, _Mapping]]] = ...) -> None: ...

class Ceiling(_message.Message):
    __slots__ = ("name", "kind", "level", "precision", "width", "value", "unit", "spread", "method", "time_ns", "device", "threads", "provenance", "median", "clock_hz", "peer", "operation", "doubt")
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    PRECISION_FIELD_NUMBER: _ClassVar[int]
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    SPREAD_FIELD_NUMBER: _ClassVar[int]
    METHOD_FIELD_NUMBER: _ClassVar[int]
    TIME_NS_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    THREADS_FIELD_NUMBER: _ClassVar[int]
    PROVENANCE_FIELD_NUMBER: _ClassVar[int]
    MEDIAN_FIELD_NUMBER: _ClassVar[int]
    CLOCK_HZ_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    DOUBT_FIELD_NUMBER: _ClassVar[int]
    name: str
    kind: str
    level: str
    precision: str
    width: int
    value: float
    unit: str
    spread: float
    method: str
    time_ns: int
    device: str
    threads: int
    provenance: Provenance
    median: float
    clock_hz: float
    peer: str
    operation: str
    doubt: str
    def __init__(self, name: _Optional[str] = ..., kind: _Optional[str] = ..., level: _Optional[str] = ..., precision: _Optional[str] = ..., width: _Optional[int] = ..., value: _Optional[float] = ..., unit: _Optional[str] = ..., spread: _Optional[float] = ..., method: _Optional[str] = ..., time_ns: _Optional[int] = ..., device: _Optional[str] = ..., threads: _Optional[int] = ..., provenance: _Optional[_Union[Provenance, str]] = ..., median: _Optional[float] = ..., clock_hz: _Optional[float] = ..., peer: _Optional[str] = ..., operation: _Optional[str] = ..., doubt: _Optional[str] = ...) -> None: ...

class SourceStatus(_message.Message):
    __slots__ = ("name", "works", "reason", "advice", "fills", "caveat")
    NAME_FIELD_NUMBER: _ClassVar[int]
    WORKS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ADVICE_FIELD_NUMBER: _ClassVar[int]
    FILLS_FIELD_NUMBER: _ClassVar[int]
    CAVEAT_FIELD_NUMBER: _ClassVar[int]
    name: str
    works: bool
    reason: str
    advice: str
    fills: str
    caveat: str
    def __init__(self, name: _Optional[str] = ..., works: bool = ..., reason: _Optional[str] = ..., advice: _Optional[str] = ..., fills: _Optional[str] = ..., caveat: _Optional[str] = ...) -> None: ...
