"""Every text of every message is one printable line once it is read, whoever sent it."""

import random
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message_factory import GetMessageClass

from domo.errors import ConfigError
from domo.names import MOST_TEXT, one_line
from domo_proto.codec import parse
from domo_proto.errors import CODE_KEY, ERROR_KEY, from_rpc
from domo_proto.texts import EXACT, with_lines
from domo_proto.v1 import federation_pb2 as pb
from tests.support.hostile import FORGED, hostile

MESSAGES = sorted(pb.DESCRIPTOR.message_types_by_name)
EVIL = "lost\n13:00:00 INFO  \x1b[2Jforged\u202e" + "x" * 500


def texts_of(message: Any) -> Iterator[str]:
    """All strings in it, but of `EXACT`."""
    for field, value in message.ListFields():
        if f"{field.containing_type.name}.{field.name}" in EXACT:
            continue
        if isinstance(value, str):
            yield value
        elif field.type == FieldDescriptor.TYPE_STRING:
            yield from value
        elif hasattr(value, "ListFields"):
            yield from texts_of(value)
        elif field.type == FieldDescriptor.TYPE_MESSAGE:
            for part in value.values() if hasattr(value, "values") else value:
                yield from texts_of(part) if hasattr(part, "ListFields") else ()


def filled(name: str, text: str) -> Any:
    """A message whose every text is this one, as deep as it goes."""
    message = GetMessageClass(pb.DESCRIPTOR.message_types_by_name[name])()
    _fill(message, text)
    return message


def _fill(message: Any, text: str) -> None:
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if field.type == FieldDescriptor.TYPE_STRING:
            if isinstance(value, str):
                setattr(message, field.name, text)
            else:
                value.extend([text, "fine"])
        elif field.type != FieldDescriptor.TYPE_MESSAGE:
            continue
        elif field.message_type.GetOptions().map_entry:
            if hasattr(value, "get_or_create"):
                _fill(value["fine"], text)
        elif hasattr(value, "add"):
            _fill(value.add(), text)
        else:
            _fill(value, text)


def test_what_stays_exact_is_there_and_says_why() -> None:
    known = {
        f"{name}.{field.name}"
        for name, found in pb.DESCRIPTOR.message_types_by_name.items()
        for field in found.fields
    }
    assert set(EXACT) <= known
    assert all(len(why) > 5 for why in EXACT.values())


@pytest.mark.parametrize("name", MESSAGES)
def test_no_text_of_a_message_is_forgotten(name: str) -> None:
    read = parse(type(filled(name, "")), filled(name, EVIL).SerializeToString())
    for text in texts_of(read):
        assert text == one_line(text), name
        assert len(text) <= MOST_TEXT


@pytest.mark.parametrize("name", MESSAGES)
def test_what_is_fine_stays_as_it_is(name: str) -> None:
    message = filled(name, "all is well")
    before = message.SerializeToString(deterministic=True)
    assert with_lines(message).SerializeToString(deterministic=True) == before


def test_whatever_is_sent() -> None:
    rng = random.Random(54)
    for _ in range(1000):
        message = filled(rng.choice(MESSAGES), hostile(rng))
        for text in texts_of(with_lines(message)):
            assert text == one_line(text)


def test_names_that_something_is_kept_under_are_not_changed_into_others() -> None:
    metrics = pb.UpdateHeader(metrics={"a\n": 1.0, "a": 2.0})
    assert dict(with_lines(metrics).metrics) == {"a\n": 1.0, "a": 2.0}
    labels = pb.MetricTable(labels=["a\n", "a"])
    assert list(with_lines(labels).labels) == ["a\n", "a"]


class Failed(grpc.RpcError):
    """A call that a coordinator has refused."""

    def __init__(self, text: str, metadata: Any):
        self._text, self._metadata = text, metadata

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.INVALID_ARGUMENT

    def details(self) -> str:
        return self._text

    def trailing_metadata(self) -> Any:
        return self._metadata


@pytest.mark.parametrize("evil", FORGED)
def test_the_words_of_a_refusal_are_one_line(evil: str) -> None:
    marks = ((ERROR_KEY, "ConfigError"), (CODE_KEY, evil))
    error = from_rpc(Failed("no" + evil * 30, marks), "host:1")
    assert isinstance(error, ConfigError)
    assert str(error) == one_line(str(error))
    assert error.code == "config"
    unmarked = str(from_rpc(Failed("no" + evil * 30, ((evil.encode(), b"x"),)), "host:1"))
    assert unmarked == one_line(unmarked, None)
