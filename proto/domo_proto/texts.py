"""Every text of a message of a peer is one printable line, made so where the message is read.

The fields are found by their descriptors: one that is added to the protocol is among them.
"""

from typing import Any, TypeVar

from google.protobuf.descriptor import FieldDescriptor

from domo.errors import ProtocolError
from domo.names import one_line

Message = TypeVar("Message")

EXACT = {
    "JoinRequest.silo_id": "refused unless it is a name: it must not become that of another silo",
    "LookAtRunRequest.silo_id": "likewise",
    "RunOffer.config_json": "read as RunConfig, whose digest is over it; its faults are one line",
    "EnrollRequest.meaning_json": "read as Meaning, which refuses what does not print",
    "EnrollResponse.meaning_json": "likewise",
    "LookAtRunResponse.meaning_json": "likewise",
    "EnrollResponse.layout_json": "read as Layout; each difference that is shown is one line",
    "UpdateHeader.metrics": "names that do not print are left out (domo.metrics.names)",
    "ReportEvaluationRequest.metrics": "names that do not print are refused, not changed",
    "MetricTable.labels": "refused likewise: two of them must not become the same",
}
"""Fields whose text stays as it is, and why it may."""


def with_lines(message: Message) -> Message:
    """The message, with each of its texts one printable line; those of `EXACT` stay.

    Raises:
        ProtocolError: Names that something in it is kept under do not print.
    """
    for field, value in message.ListFields():  # type: ignore[attr-defined]
        name = f"{field.containing_type.name}.{field.name}"
        if name not in EXACT:
            _clean(message, field, value, name)
        elif field.message_type is not None:
            for part in value.values() if hasattr(value, "values") else ():
                if hasattr(part, "ListFields"):
                    with_lines(part)
    return message


def _clean(message: Any, field: Any, value: Any, name: str) -> None:
    if isinstance(value, str):
        if (line := one_line(value)) != value:
            setattr(message, field.name, line)
    elif hasattr(value, "ListFields"):
        with_lines(value)
    elif field.message_type is not None and field.message_type.GetOptions().map_entry:
        for key, part in value.items():
            if isinstance(key, str) and one_line(key) != key:
                raise ProtocolError(f"{name}: {one_line(key, 64)!r} is no printable line")
            if hasattr(part, "ListFields"):
                with_lines(part)
            elif isinstance(part, str):
                value[key] = one_line(part)
    elif field.type == FieldDescriptor.TYPE_STRING:
        if (lines := [one_line(text) for text in value]) != list(value):
            value[:] = lines
    elif field.type == FieldDescriptor.TYPE_MESSAGE:
        for part in value:
            with_lines(part)
