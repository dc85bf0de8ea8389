from roofline.v1 import machine_pb2 as _machine_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Value(_message.Message):
    __slots__ = ("value", "unit", "provenance", "scope", "coverage", "reason")
    VALUE_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    PROVENANCE_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    COVERAGE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    value: float
    unit: str
    provenance: _machine_pb2.Provenance
    scope: _machine_pb2.Scope
    coverage: float
    reason: str
    def __init__(self, value: _Optional[float] = ..., unit: _Optional[str] = ..., provenance: _Optional[_Union[_machine_pb2.Provenance, str]] = ..., scope: _Optional[_Union[_machine_pb2.Scope, str]] = ..., coverage: _Optional[float] = ..., reason: _Optional[str] = ...) -> None: ...

class RoofLine(_message.Message):
    __slots__ = ("name", "label", "kind", "intensity", "flops", "binding", "level", "precision", "width", "provenance")
    NAME_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    INTENSITY_FIELD_NUMBER: _ClassVar[int]
    FLOPS_FIELD_NUMBER: _ClassVar[int]
    BINDING_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    PRECISION_FIELD_NUMBER: _ClassVar[int]
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    PROVENANCE_FIELD_NUMBER: _ClassVar[int]
    name: str
    label: str
    kind: str
    intensity: _containers.RepeatedScalarFieldContainer[float]
    flops: _containers.RepeatedScalarFieldContainer[float]
    binding: bool
    level: str
    precision: str
    width: int
    provenance: _machine_pb2.Provenance
    def __init__(self, name: _Optional[str] = ..., label: _Optional[str] = ..., kind: _Optional[str] = ..., intensity: _Optional[_Iterable[float]] = ..., flops: _Optional[_Iterable[float]] = ..., binding: bool = ..., level: _Optional[str] = ..., precision: _Optional[str] = ..., width: _Optional[int] = ..., provenance: _Optional[_Union[_machine_pb2.Provenance, str]] = ...) -> None: ...

class Roof(_message.Message):
    __slots__ = ("host", "note", "lines", "ceilings", "device", "calibrated_ns")
    HOST_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    LINES_FIELD_NUMBER: _ClassVar[int]
    CEILINGS_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    CALIBRATED_NS_FIELD_NUMBER: _ClassVar[int]
    host: str
    note: str
    lines: _containers.RepeatedCompositeFieldContainer[RoofLine]
    ceilings: _containers.RepeatedCompositeFieldContainer[_machine_pb2.Ceiling]
    device: str
    calibrated_ns: int
    def __init__(self, host: _Optional[str] = ..., note: _Optional[str] = ..., lines: _Optional[_Iterable[_Union[RoofLine, _Mapping]]] = ..., ceilings: _Optional[_Iterable[_Union[_machine_pb2.Ceiling, _Mapping]]] = ..., device: _Optional[str] = ..., calibrated_ns: _Optional[int] = ...) -> None: ...
