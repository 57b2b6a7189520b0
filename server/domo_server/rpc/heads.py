"""Heads of audit chains in a heartbeat: a silo's is put down, the coordinator's answered."""

import asyncio
from typing import Any

from domo_proto.heads import head_message, read_head
from domo_proto.v1 import federation_pb2 as pb
from domo_server.events.record import Record


async def exchanged(record: Record, silo_id: str, report: Any) -> pb.AuditHead | None:
    """Put down the head that a report has, and give the coordinator's own; None: it has none.

    Args:
        record: Of the coordinator.
        silo_id: Who reports.
        report: A ReportRequest.
    """
    head, key = read_head(report)
    if head is None:
        return None
    await asyncio.to_thread(record.told, silo_id, head, key)
    return head_message(record.head, record.key)
