from pathlib import Path
from typing import Any

import pytest

from domo.errors import ConfigError
from domo.run_config import RunConfig
from domo_server.config import ServerConfig, load_config, name_runs


def write(folder: Path, text: str) -> Path:
    path = folder / "federation.toml"
    path.write_text(text)
    return path


def test_defaults() -> None:
    config, runs = load_config(None, {})
    assert runs == ()
    assert config.listen == "127.0.0.1:50051"
    assert (config.dashboard, config.tls, config.insecure) == (None, None, False)
    assert config.state_dir.name == "coordinator"
    assert config.database_url == f"sqlite:///{config.state_dir / 'coordinator.db'}"


def test_flag_over_environment_over_file_over_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(
        tmp_path,
        '[server]\nlisten = "127.0.0.1:1"\nreport_interval_s = 3\nlong_poll_s = 4\n',
    )
    monkeypatch.setenv("DOMO_SERVER_LISTEN", "127.0.0.1:2")
    monkeypatch.setenv("DOMO_SERVER_REPORT_INTERVAL_S", "5")
    config, _ = load_config(path, {"listen": "127.0.0.1:3", "dashboard": None})
    assert config.listen == "127.0.0.1:3"
    assert config.report_interval_s == 5
    assert config.long_poll_s == 4
    assert config.durability == "process"


def test_tls_is_put_together_from_file_and_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, '[server.tls]\ncert = "c.pem"\nkey = "k.pem"\n')
    monkeypatch.setenv("DOMO_SERVER_TLS__KEY", "/run/secrets/key.pem")
    config, _ = load_config(path, {"listen": "0.0.0.0:1"})
    assert config.tls is not None
    files = config.tls.files
    assert (files.cert, files.key, files.ca) == (Path("c.pem"), Path("/run/secrets/key.pem"), None)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[server]\nlisen = 1\n", "server.lisen: unknown key; did you mean listen?"),
        ("[serve]\n", "serve: unknown key; did you mean server?"),
        ("[server.tls]\ncert = 'a'\nkey = 'b'\nca = 'c'\n", "server.tls.ca: unknown key"),
        ("[server.tls]\ncert = 'a'\n", "server.tls.key: missing"),
        (
            "[server]\nreport_interval_s = 'often'\n",
            'server.report_interval_s = "often": must be a number',
        ),
        ("[server]\nlong_poll_s = 0\n", "server.long_poll_s = 0: must be greater than 0"),
        ("[server]\ninsecure = 'perhaps'\n", 'server.insecure = "perhaps": must be a boolean'),
        (
            "[server]\ndurability = 'none'\n",
            "server.durability = \"none\": must be 'process' or 'power'",
        ),
        ("[server]\nlisten = 'here'\n", 'server.listen = "here": must be host:port'),
        ("runs = 3\n", "runs = 3: must be an array"),
        ("[[runs]]\ntask = 'digits'\n", "runs[0].num_rounds: missing"),
    ],
)
def test_faults_name_file_key_and_what_is_allowed(text: str, fault: str, tmp_path: Path) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_config(path, {})
    assert str(caught.value).startswith(f"{path}: {fault}")


def test_faults_of_the_environment_and_of_flags_name_these(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        ConfigError, match=r'^the command line: --listen = "here": must be host:port'
    ):
        load_config(None, {"listen": "here"})
    monkeypatch.setenv("DOMO_SERVER_LONG_POLL_S", "-1")
    with pytest.raises(ConfigError, match=r'DOMO_SERVER_LONG_POLL_S = "-1": must be greater'):
        load_config(write(tmp_path, ""), {})
    monkeypatch.delenv("DOMO_SERVER_LONG_POLL_S")
    monkeypatch.setenv("DOMO_SERVER_TLS", "{not json")
    with pytest.raises(ConfigError, match=r'DOMO_SERVER_TLS = "{not json": must be a table'):
        load_config(None, {})


@pytest.mark.parametrize("listen", ["0.0.0.0:50051", "[::]:50051", "10.1.2.3:1", "host:1"])
def test_an_open_port_needs_tls_or_a_word(listen: str) -> None:
    with pytest.raises(ConfigError, match="is reachable from other machines") as caught:
        load_config(None, {"listen": listen})
    assert "domo-server pki init" in str(caught.value)
    assert "insecure = true" in str(caught.value)
    assert load_config(None, {"listen": listen, "insecure": True})[0].listen == listen
    tls = {"cert": "c.pem", "key": "k.pem"}
    assert load_config(None, {"listen": listen, "tls": tls})[0].tls is not None


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "localhost:1", "[::1]:1"])
def test_loopback_needs_neither(listen: str) -> None:
    assert load_config(None, {"listen": listen})[0].listen == listen


def test_a_database_of_ones_own() -> None:
    config = ServerConfig(database="postgresql://db/domo")
    assert config.database_url == "postgresql://db/domo"


def runs(*names: str | None, **given: Any) -> list[RunConfig]:
    return [RunConfig(task="digits", num_rounds=1, name=n, **given) for n in names]


def test_runs_are_named_by_method_and_task_and_counted() -> None:
    named = name_runs([*runs(None, "mine", None, None), *runs(None, method="FedAvg")])
    assert [n for n, _ in named] == [
        "domo-digits",
        "mine",
        "domo-digits-2",
        "domo-digits-3",
        "fedavg-digits",
    ]


def test_a_counted_name_steps_over_a_given_one() -> None:
    named = name_runs(runs(None, "domo-digits-2", None))
    assert [n for n, _ in named] == ["domo-digits", "domo-digits-2", "domo-digits-3"]


@pytest.mark.parametrize("names", [("same", "same"), (None, "domo-digits")])
def test_two_runs_with_one_name(names: tuple[str | None, str]) -> None:
    with pytest.raises(ConfigError, match=f"two runs are named '{names[1]}'"):
        name_runs(runs(*names))


def test_every_fault_of_a_file_is_told_wherever_it_lies(tmp_path: Path) -> None:
    path = tmp_path / "federation.toml"
    path.write_text(
        '[server]\nlisten = 5\ndurability = "none"\n'
        '[[runs]]\ntask = "digits"\nnum_rounds = 0\nnum_silos = 2\n'
        '[[runs]]\ntask = "digits"\nnum_rounds = 3\nnum_silos = 2\nseeed = 1\n'
    )
    with pytest.raises(ConfigError) as caught:
        load_config(path, {})
    lines = str(caught.value).splitlines()
    assert lines[0] == f"{path}: 4 faults"
    found = [line.split()[0].rstrip(":") for line in lines[1:]]
    assert sorted(found) == [
        "runs[0].num_rounds",
        "runs[1].seeed",
        "server.durability",
        "server.listen",
    ]
