"""The generated wire code is the .proto files', and every part of the wire says what it means."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from grpc_tools import protoc
from roofline.v1 import access_pb2, health_pb2, ingest_pb2, machine_pb2, models_pb2, query_pb2, values_pb2

FOLDER = Path(__file__).parents[1] / "proto"
MODULES = {
    f"roofline/v1/{m.__name__.rpartition('.')[2][:-4]}.proto": m
    for m in (access_pb2, health_pb2, ingest_pb2, machine_pb2, models_pb2, query_pb2, values_pb2)
}
# Numbers of fields in descriptor.proto: what the paths of source comments are made of.
MESSAGE, ENUM, SERVICE, MEMBER, NESTED = 4, 5, 6, 2, 3


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, FileDescriptorProto]:
    """The .proto files as the installed compiler reads them, with their comments."""
    out = tmp_path_factory.mktemp("proto") / "all"
    options = [f"-I{FOLDER}", "--include_source_info", f"--descriptor_set_out={out}"]
    assert protoc.main(["protoc", *options, *sorted(map(str, FOLDER.rglob("*.proto")))]) == 0
    return {file.name: file for file in FileDescriptorSet.FromString(out.read_bytes()).file}


def bare(file: FileDescriptorProto) -> FileDescriptorProto:
    """Without what compilers add or leave out as they like: comments and JSON names."""
    copied = FileDescriptorProto.FromString(file.SerializeToString())
    copied.ClearField("source_code_info")
    for message in _messages(copied.message_type):
        for field in message.field:
            field.ClearField("json_name")
    return copied


def _messages(messages: Any) -> Iterator[Any]:
    for message in messages:
        yield message
        yield from _messages(message.nested_type)


def test_every_proto_file_has_its_module(compiled: dict[str, FileDescriptorProto]) -> None:
    assert set(compiled) == set(MODULES)


@pytest.mark.parametrize("name", MODULES)
def test_generated_code_is_up_to_date(compiled: dict[str, FileDescriptorProto], name: str) -> None:
    """Fails after a change of a .proto without `make proto`."""
    generated = FileDescriptorProto()
    MODULES[name].DESCRIPTOR.CopyToProto(generated)
    assert bare(generated) == bare(compiled[name])


@pytest.mark.parametrize("name", MODULES)
def test_stubs_for_type_checkers_name_every_field(
    compiled: dict[str, FileDescriptorProto], name: str
) -> None:
    stub = (FOLDER / name.replace(".proto", "_pb2.pyi")).read_text()
    for message in compiled[name].message_type:
        body = re.search(rf"^class {message.name}\(.*?(?=^class |\Z)", stub, re.M | re.S)
        assert body, message.name
        slots = re.search(r"__slots__ = \((.*?)\)", body[0])
        assert slots
        assert set(re.findall(r'"(\w+)"', slots[1])) == {field.name for field in message.field}


@pytest.mark.parametrize("name", MODULES)
def test_grpc_code_names_the_methods_of_the_services(
    compiled: dict[str, FileDescriptorProto], name: str
) -> None:
    wanted = {
        (f"/{compiled[name].package}.{service.name}/{method.name}", _shape(method))
        for service in compiled[name].service
        for method in service.method
    }
    path = FOLDER / name.replace(".proto", "_pb2_grpc.py")
    assert path.exists() == bool(wanted)
    text = path.read_text() if wanted else ""
    assert set(re.findall(r"channel\.(\w+)\(\s*'([^']+)'", text)) == {(shape, at) for at, shape in wanted}
    for service in compiled[name].service:
        assert f"class {service.name}Servicer" in text and f"add_{service.name}Servicer_to_server" in text


def _shape(method: Any) -> str:
    words = {False: "unary", True: "stream"}
    return f"{words[method.client_streaming]}_{words[method.server_streaming]}"


def described(file: FileDescriptorProto) -> dict[tuple[int, ...], str]:
    """Path -> comment of everything that has one."""
    found = {}
    for place in file.source_code_info.location:
        text = place.leading_comments.strip() or place.trailing_comments.strip()
        if text:
            found[tuple(place.path)] = text
    return found


def parts(file: FileDescriptorProto) -> Iterator[tuple[tuple[int, ...], str]]:
    """(path, name) of everything that should say what it means: fields, enum values, services, methods."""
    for at, message in enumerate(file.message_type):
        yield from _fields(message, (MESSAGE, at), message.name)
    for at, enum in enumerate(file.enum_type):
        for number, value in enumerate(enum.value):
            if value.number:  # an enum's zero always means "the sender did not say"
                yield (ENUM, at, MEMBER, number), value.name
    for at, service in enumerate(file.service):
        for number, method in enumerate(service.method):
            yield (SERVICE, at, MEMBER, number), f"{service.name}.{method.name}"


def _fields(message: Any, path: tuple[int, ...], name: str) -> Iterator[tuple[tuple[int, ...], str]]:
    for number, field in enumerate(message.field):
        yield (*path, MEMBER, number), f"{name}.{field.name}"
    for number, nested in enumerate(message.nested_type):
        if not nested.options.map_entry:
            yield from _fields(nested, (*path, NESTED, number), f"{name}.{nested.name}")


def undescribed(files: dict[str, FileDescriptorProto]) -> list[str]:
    lacking = []
    for file in files.values():
        said = described(file)
        lacking += [name for path, name in parts(file) if path not in said]
    return lacking


def test_every_field_value_and_method_says_what_it_means(compiled: dict[str, FileDescriptorProto]) -> None:
    assert undescribed(compiled) == []


def test_every_message_and_enum_says_what_it_is(compiled: dict[str, FileDescriptorProto]) -> None:
    lacking = []
    for file in compiled.values():
        said = described(file)
        for kind, things in ((MESSAGE, file.message_type), (ENUM, file.enum_type), (SERVICE, file.service)):
            lacking += [thing.name for at, thing in enumerate(things) if (kind, at) not in said]
    assert lacking == []


def test_enums_begin_with_what_was_not_said(compiled: dict[str, FileDescriptorProto]) -> None:
    for file in compiled.values():
        for enum in file.enum_type:
            zero = next(value.name for value in enum.value if value.number == 0)
            assert zero.endswith("_UNSPECIFIED")
