"""Every route of REST with requests that schemathesis makes of the OpenAPI document, by role."""

import contextlib
import json
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from torch import nn

from domo_server.people import tries
from domo_server.people.credentials import digest
from domo_server.people.person import Role
from domo_server.store.database import open_beside
from domo_server.store.people import PeopleRows, TokenRow
from domo_server.store.store import Store, time_text
from tests.support.live.coordinator import Coordinator, coordinator, own_run

ROLES: tuple[Role, ...] = ("viewer", "auditor", "admin")
TRIES = 8
"""Rounds of schemathesis until there are enough cases."""
CASES = re.compile(r"(\d[\d,]*) generated")
STREAMS = "/(stream|login|logout|oidc)"
"""Routes without an end, and those whose wrong answers count as wrong log-ins of this address."""


def token_of(server: Coordinator, role: Role) -> str:
    """A token of somebody with this role."""
    token, now = f"domo_fuzz-{role}", time.time()
    with contextlib.closing(Store(open_beside(server.database_url))) as store:
        row = TokenRow(role, role, digest(token), time_text(now), time_text(now + 86_400))
        PeopleRows(store).put_token(row)
    return token


def state_of(server: Coordinator) -> Any:
    """What only an admin may change."""
    runs = server.get("/runs")
    kept = [{k: r.get(k) for k in ("run_id", "state", "name", "note", "tags")} for r in runs]
    silos = [{k: s.get(k) for k in ("silo_id", "dropped")} for s in server.get("/silos")]
    return json.dumps([kept, silos], sort_keys=True)


def fuzz(server: Coordinator, token: str | None, cases: int, seed: int) -> int:
    """So many cases at least, and no answer of 500 and above; how many there were."""
    done = 0
    for again in range(TRIES):
        if done >= cases:
            break
        command = [
            str(Path(sys.executable).with_name("schemathesis")), "run",
            f"{server.url}/api/v1/openapi.json", "--checks", "not_a_server_error",
            "--exclude-path-regex", STREAMS, "--phases", "examples,coverage,fuzzing",
            "--seed", str(seed + again), "--request-timeout", "20", "--continue-on-failure",
            "--max-examples", str(max(5, min(300, (cases - done) // 30))),
            "--suppress-health-check", "all", "--generation-database", "none", "--no-color",
        ]  # fmt: skip
        if token is not None:
            command += ["--header", f"Authorization: Bearer {token}"]
        with tempfile.TemporaryDirectory() as folder:
            told = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
        found = CASES.search(told.stdout)
        if told.returncode != 0 or found is None:
            raise AssertionError(told.stdout[-6000:] + told.stderr[-2000:])
        done += int(found[1].replace(",", ""))
    return done


def run(cases: int, seed: int) -> int:
    """So many cases for nobody and each role; how many were made in all."""
    before = tries.MAX_WRONG, tries.MAX_WRONG_OF_ALL
    tries.MAX_WRONG = tries.MAX_WRONG_OF_ALL = (
        sys.maxsize
    )  # what is said, not how often: wrong credentials are among them
    try:
        return _by_role(cases, seed)
    finally:
        tries.MAX_WRONG, tries.MAX_WRONG_OF_ALL = before


def _by_role(cases: int, seed: int) -> int:
    done = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings = own_run(folder, nn.Linear(2, 1), num_rounds=3)
        with coordinator(folder, settings) as server:
            for role in (None, *ROLES):
                token = None if role is None else token_of(server, role)
                before, began = state_of(server), time.monotonic()
                made = fuzz(server, token, cases, seed)
                if role != "admin":
                    assert state_of(server) == before, f"{role} has changed something"
                print(f"   {role or 'nobody'}: {made:,} cases, {time.monotonic() - began:.0f} s")
                done += made
            with contextlib.suppress(urllib.error.HTTPError):
                server.get("/status")
    return done
