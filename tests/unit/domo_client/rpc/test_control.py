import json
from typing import Any

import pytest

from domo.errors import ProtocolError
from domo.run_config import RunConfig
from domo_client.rpc.control import _layout
from domo_client.rpc.offer import UnknownRunError, understood

CONFIG = RunConfig(task="digits", num_rounds=3)


def offered(**changes: Any) -> str:
    return json.dumps({**json.loads(CONFIG.model_dump_json()), **changes})


def test_a_setting_of_a_newer_version_at_its_default_is_no_obstacle() -> None:
    assert understood("1-r", offered(), CONFIG.digest) == CONFIG
    assert understood("1-r", offered(compile="auto"), CONFIG.digest) == CONFIG


@pytest.mark.parametrize(
    ("text", "digest", "why"),
    [
        (offered(compile="max", zeta=1), "another", "it uses compile, zeta. Use the coordinator's"),
        (offered(batch_size=64), CONFIG.digest, "its defaults are others"),
        (offered(method="DOMO-3"), CONFIG.digest, "its settings: .*DOMO-3"),
        (offered(task="../../p/x:Y"), CONFIG.digest, "its settings: .*must be a named task"),
        (offered()[:-1], CONFIG.digest, "does not understand the run"),
        ("7", CONFIG.digest, "does not understand the run"),
    ],
)
def test_a_run_that_needs_another_version(text: str, digest: str, why: str) -> None:
    with pytest.raises(UnknownRunError, match=why) as caught:
        understood("1-r", text, digest)
    assert caught.value.run_id == "1-r"
    assert not caught.value.retryable


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"entries": [{}]}', '{"entries": 7}', "[" * 9999]
)
def test_a_layout_that_is_none(text: str) -> None:
    with pytest.raises(ProtocolError, match="the coordinator's layout cannot be read"):
        _layout(text)
