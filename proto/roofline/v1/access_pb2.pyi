from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class EnrolRequest(_message.Message):
    __slots__ = ("name", "roles", "lasts_s")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    LASTS_S_FIELD_NUMBER: _ClassVar[int]
    name: str
    roles: _containers.RepeatedScalarFieldContainer[str]
    lasts_s: int
    def __init__(self, name: _Optional[str] = ..., roles: _Optional[_Iterable[str]] = ..., lasts_s: _Optional[int] = ...) -> None: ...

class EnrolResponse(_message.Message):
    __slots__ = ("token", "role", "certificate", "key", "ends")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    ENDS_FIELD_NUMBER: _ClassVar[int]
    token: str
    role: str
    certificate: str
    key: str
    ends: int
    def __init__(self, token: _Optional[str] = ..., role: _Optional[str] = ..., certificate: _Optional[str] = ..., key: _Optional[str] = ..., ends: _Optional[int] = ...) -> None: ...
