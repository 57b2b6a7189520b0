"""Health and reflection, behind the check of who calls.

Both answer anybody who shows no certificate, or a good one: the coordinator's own names no silo.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Any

from grpc_health.v1 import health
from grpc_reflection.v1alpha import reflection

from domo.errors import DomoError
from domo_proto.errors import status_of, trailing_metadata
from domo_server.identity.guard import Guard


class Health(health.aio.HealthServicer):  # type: ignore[misc]
    """Whether the coordinator serves.

    Args:
        guard: Knows who may ask.
    """

    def __init__(self, guard: Guard):
        super().__init__()
        self._guard = guard

    async def Check(self, request: Any, context: Any) -> Any:
        """Now."""
        try:
            with self._guard.call(context):
                return await super().Check(request, context)
        except DomoError as error:
            return await context.abort(status_of(error), str(error), trailing_metadata(error))

    async def Watch(self, request: Any, context: Any) -> None:
        """Now, and each change of it."""
        try:
            with self._guard.call(context):
                await super().Watch(request, context)
        except DomoError as error:
            await context.abort(status_of(error), str(error), trailing_metadata(error))


class Reflection(reflection.aio.ReflectionServicer):  # type: ignore[misc]
    """What the rpcs are, for tools.

    Args:
        guard: Knows who may ask.
        names: Of the services.
    """

    def __init__(self, guard: Guard, names: Sequence[str]):
        super().__init__(names)
        self._guard = guard

    async def ServerReflectionInfo(self, requests: Any, context: Any) -> AsyncIterator[Any]:
        """One answer to each question."""
        try:
            with self._guard.call(context):
                async for answer in super().ServerReflectionInfo(requests, context):
                    yield answer
        except DomoError as error:
            await context.abort(status_of(error), str(error), trailing_metadata(error))
