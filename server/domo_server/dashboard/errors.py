"""One error shape for every way in which a request can fail.

    {"error": {"code": "...", "message": "...", "status": 404}}

`domo.errors` that a handler lets through become:
    ConfigError, TaskError      422 invalid_config
    any other, retryable        503 unavailable
    any other                   500 internal
"""

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.routing import Match

from domo.api.answers import MOST_FAULTS
from domo.errors import ConfigError, DomoError, Fault, TaskError
from domo.names import MOST_SAID, one_line
from domo.run_config import RunConfig
from domo_server.dashboard.access.pages import error_page, wants_page

logger = logging.getLogger(__name__)

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_BY_STATUS = {
    404: ("not_found", "there is nothing here. The routes are listed at /api/v1/docs."),
    405: ("method_not_allowed", "this address does not take that method; see the Allow header."),
}


class ApiError(Exception):
    """A request that is refused, with the answer it gets.

    Attributes:
        status: HTTP status.
        code: Stable name of the kind of error.
        message: What was wrong and what to do.
        headers: Further headers of the answer.
        fields: What is wrong, by the field of a config that it is about.
        cause: The code of the `DomoError` that it was made of.
    """

    cause: str | None = None

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        headers: Mapping[str, str] | None = None,
        fields: Mapping[str, Sequence[str]] | None = None,
    ):
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.headers = headers
        self.fields = fields

    def response(self) -> JSONResponse:
        """The answer in the one shape."""
        error: dict[str, Any] = {
            "code": self.code,
            "message": _readable(self.code, self.message),
            "status": self.status,
        }
        if self.cause is not None:
            error["cause"] = self.cause
        if self.fields is not None:
            error["fields"] = {
                one_line(name): [one_line(text, MOST_SAID) for text in texts[:MOST_FAULTS]]
                for name, texts in list(self.fields.items())[:MOST_FAULTS]
            }
        return JSONResponse({"error": error}, self.status, headers=self.headers)


def _readable(code: str, message: str) -> str:
    """One line, as what a caller has sent may be in it; of a config, one for each fault more."""
    head, *faults = message.split("\n") if code == "invalid_config" else [message]
    faults = faults[:MOST_FAULTS]
    return "\n  ".join(one_line(text, MOST_SAID) for text in (head, *faults))


def not_found(run_id: str) -> ApiError:
    """The error for a run that does not exist."""
    return ApiError(404, "not_found", f"no run {run_id!r}. GET /api/v1/runs lists all runs.")


def no_model(run_id: str, which: str = "newest") -> ApiError:
    """The error for a run without a model."""
    message = f"run {run_id!r} has no model yet: it has not begun. Wait for its start."
    if which == "best":
        message = (
            f"run {run_id!r} has no best model yet: none was tested by its primary metric. "
            "Ask for which=newest, or wait for its tests."
        )
    return ApiError(404, "no_model", message)


def no_silo(silo_id: str) -> ApiError:
    """The error for a silo that has never joined."""
    return ApiError(404, "not_found", f"no silo {silo_id!r}. GET /api/v1/silos lists all silos.")


def no_parquet() -> ApiError:
    """The error for a Parquet file where nothing can write one."""
    message = (
        "Parquet is not installed at the coordinator: pip install 'domo-federated[parquet]' there, "
        "or take history.csv."
    )
    return ApiError(501, "not_installed", message)


def bug() -> ApiError:
    """The error for what no handler knows."""
    return ApiError(500, "internal", "the coordinator could not answer; its log has the traceback.")


def add_error_handlers(app: FastAPI) -> None:
    """Give every error of `app` the one shape; `middleware.Guard` does so for bugs."""

    @app.exception_handler(ApiError)
    async def _api(_request: Request, exc: ApiError) -> JSONResponse:
        return exc.response()

    @app.exception_handler(DomoError)
    async def _domo(_request: Request, exc: DomoError) -> JSONResponse:
        if isinstance(exc, ConfigError | TaskError):
            fields = faults_by_field(exc)
            error = ApiError(422, "invalid_config", str(exc), fields=fields)
        elif exc.retryable:
            error = ApiError(503, "unavailable", f"{exc}. Try again in a moment.")
        else:
            logger.error("request failed: %s", exc, exc_info=exc)
            error = ApiError(500, "internal", str(exc))
        error.cause = exc.code
        return error.response()

    @app.exception_handler(HTTPException)
    async def _http(request: Request, exc: HTTPException) -> Response:
        code, what = _BY_STATUS.get(exc.status_code, ("http_error", str(exc.detail)))
        message = f"{request.method} {request.url.path}: {what}"
        if wants_page(request.headers) and not request.url.path.startswith("/api/"):
            return error_page(f"{message[:200]}", exc.status_code)
        headers = exc.headers
        if exc.status_code == 405 and (allowed := _allowed(request)):
            headers = {"Allow": allowed}
        return ApiError(exc.status_code, code, message, headers).response()

    @app.exception_handler(RequestValidationError)
    async def _invalid(_request: Request, exc: RequestValidationError) -> JSONResponse:
        wrong = [
            f"{'.'.join(str(part) for part in error['loc'][1:]) or error['loc'][0]}: {error['msg']}"
            for error in exc.errors()
        ]
        message = "; ".join(wrong) + ". Correct this and send the request again."
        return ApiError(422, "invalid_request", message).response()


def _allowed(request: Request) -> str:
    """The methods of all routes of the address; a refusal has those of the first one only."""
    routes, scope = request.app.routes, request.scope
    return ", ".join(
        method
        for method in _METHODS
        if any(route.matches({**scope, "method": method})[0] is Match.FULL for route in routes)
    )


def faults_by_field(error: DomoError) -> Mapping[str, Sequence[str]]:
    """What is wrong with a run's config, by field; what is of no single field under ""."""
    found: dict[str, list[str]] = {}
    for fault in getattr(error, "faults", ()) or (Fault("", str(error)),):
        field = re.split(r"[.\[]", fault.where)[0]
        found.setdefault(field if field in RunConfig.model_fields else "", []).append(str(fault))
    return found
