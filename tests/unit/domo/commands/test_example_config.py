"""The annotated configuration: every key is in it, and every line of it can be used."""

import re
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from domo.commands.example_config import RUN, run_example
from domo.commands.main import app
from domo.ops.config_file import validate
from domo.run_config import RunConfig
from domo_server.cli import app as server_app
from domo_server.config import ServerConfig, load_config

ROOT = Path(__file__).parents[4]
EITHER = {"roster": "num_silos", "local_steps": "local_epochs"}
"""Keys that say one thing in two ways."""

NOT_ALONE = {"local_optimizer_args", "min_silos", "primary_better"}
"""Keys that want another one beside them."""


def printed(which: str) -> str:
    result = CliRunner().invoke(app if which == "domo" else server_app, ["config"])
    assert result.exit_code == 0, result.output
    return result.stdout


def behind(text: str) -> dict[str, str]:
    """Keys behind #, to their lines."""
    return {m[2]: m[1] for m in re.finditer(r"^# ((\w+) = .*)$", text, re.M)}


def test_it_is_a_configuration_as_it_is_printed(tmp_path: Path) -> None:
    path = tmp_path / "federation.toml"
    path.write_text(printed("domo-server"))
    settings, (run,) = load_config(path, {})
    assert settings == ServerConfig()
    assert run == validate(RunConfig, dict(RUN), "the example")
    path.write_text(printed("domo"))
    assert load_config(path, {})[1] == (run,)


def test_every_key_is_in_it_with_its_default_or_an_example(tmp_path: Path) -> None:
    text = printed("domo-server")
    told = set(re.findall(r"^(?:# )?(\w+)(?: =|:)", text, re.M))
    assert set(RunConfig.model_fields) | set(ServerConfig.model_fields) <= told
    for model, name in [(RunConfig, n) for n in RunConfig.model_fields]:
        default = model.model_fields[name].default
        if name not in RUN and isinstance(default, str | int | float):
            line = behind(text)[name]
            assert tomllib.loads(line)[name] == default, line


@pytest.mark.parametrize("name", sorted(set(behind(run_example())) - NOT_ALONE))
def test_each_line_of_a_run_can_be_used(name: str) -> None:
    line = behind(run_example())[name]
    wanted = {k: v for k, v in RUN.items() if k != EITHER.get(name)}
    assert name in validate(RunConfig, wanted | tomllib.loads(line), "the example").model_fields_set


def test_keys_without_an_example_are_lists_by_round() -> None:
    bare = re.findall(
        r"^# (\w+): not set by default; a list, an entry for each round$",
        printed("domo-server"),
        re.M,
    )
    assert set(bare) == {"local_lrs", "local_steps_list", "participants"}
    assert "not set by default\n" not in re.sub(
        r"# an example; not set by default", "", printed("domo-server")
    )


def test_tables_of_the_coordinator_can_be_used(tmp_path: Path) -> None:
    lines = behind(printed("domo-server").split("[[runs]]")[0])
    page = tomllib.loads(lines["dashboard_url"])
    for name in ("tls", "trackers", "dashboard_tls", "oidc"):
        settings = validate(ServerConfig, page | tomllib.loads(lines[name]), "the example")
        assert getattr(settings, name) is not None


def test_the_readme_and_the_example_files_have_the_settings_that_hold() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = text.split("then a file `federation.toml`:")[1].split("```toml")[1].split("```")[0]
    assert tomllib.loads(block)["runs"] == [dict(RUN)]
