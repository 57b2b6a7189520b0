"""The files for operators: they parse, load, and say what the documentation says of them."""

import os
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from domo.tasks import load_task
from domo_client.given import parse_shard
from domo_server.config import ServerConfig, load_config
from domo_server.monitor.descriptors import (
    MOST_PAGE_CONNECTIONS,
    MOST_SILO_CONNECTIONS,
    OF_REST,
    OF_SILOS,
)

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
TOMLS = sorted(p for p in DEPLOY.rglob("*.toml") if p.name != "policy.toml")
SCRIPTS = sorted(DEPLOY.rglob("*.sh"))
SILOS = ["silo-0", "silo-1", "silo-2", "silo-3"]
DOCKERFILE = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")


def names(paths: list[Path]) -> list[str]:
    return [str(p.relative_to(ROOT)) for p in paths]


def read_compose(path: str) -> dict[str, Any]:
    loaded = yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))
    assert isinstance(loaded, dict)
    return loaded


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for key in [k for k in os.environ if k.startswith("DOMO_")]:
        monkeypatch.delenv(key)


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return read_compose("docker-compose.yml")


def stages() -> dict[str, str]:
    """The Dockerfile's stages by name."""
    parts = re.split(r"^FROM \S+ AS (\S+)$", DOCKERFILE, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


# compose


def test_compose_has_a_coordinator_and_four_silos(compose: dict[str, Any]) -> None:
    services = compose["services"]
    assert sorted(services) == ["coordinator", *SILOS]
    for i, name in enumerate(SILOS):
        silo = services[name]
        assert silo["environment"]["DOMO_CLIENT_NAME"] == name
        assert parse_shard(silo["environment"]["DOMO_CLIENT_SHARD"]) == (i, len(SILOS))
        assert silo["environment"]["DOMO_CLIENT_SERVER"] == "coordinator:50051"
        assert silo["depends_on"] == {"coordinator": {"condition": "service_healthy"}}
        assert "ports" not in silo
    for service in services.values():
        assert service["restart"] == "unless-stopped"
        assert service["read_only"]
    made = {s["image"]: s["build"] for s in services.values() if "build" in s}
    assert {s["image"] for s in services.values()} == set(made)
    assert {b["target"] for b in made.values()} == {"server", "client"}
    assert {b["dockerfile"] for b in made.values()} == {"deploy/Dockerfile"}


def test_compose_publishes_on_loopback_only(compose: dict[str, Any]) -> None:
    assert compose["services"]["coordinator"]["ports"] == [
        "127.0.0.1:${DOMO_DASHBOARD_PORT:-8080}:8080",
        "127.0.0.1:${DOMO_GRPC_PORT:-50051}:50051",
    ]


def test_every_service_has_its_own_volume(compose: dict[str, Any]) -> None:
    mounted = {}
    for name, service in compose["services"].items():
        [volume] = [v for v in service["volumes"] if v.endswith(":/var/lib/domo")]
        mounted[name] = volume.split(":")[0]
    assert mounted == {name: name for name in compose["services"]}
    assert sorted(compose["volumes"]) == sorted(mounted)


def test_compose_mounts_the_configuration_that_it_names(compose: dict[str, Any]) -> None:
    coordinator = compose["services"]["coordinator"]
    [mount] = [v for v in coordinator["volumes"] if v.endswith(":ro")]
    host, inside, _ = mount.split(":")
    assert coordinator["command"] == ["--config", inside]
    settings, runs = load_config(ROOT / host, {})
    assert settings.insecure
    assert settings.listen.endswith(":50051")
    assert settings.dashboard is not None
    assert settings.dashboard.endswith(":8080")
    assert [r.method for r in runs] == ["FedAvg", "DOMO"]
    for run in runs:
        assert (run.task, run.num_rounds) == ("digits", 15)
        assert run.roster == tuple(SILOS)


def test_gpu_override_adds_a_gpu_to_services_that_exist(compose: dict[str, Any]) -> None:
    override = read_compose("deploy/compose.gpu.yml")["services"]
    assert sorted(override) == SILOS
    assert set(override) <= set(compose["services"])
    for service in override.values():
        assert service["environment"]["DOMO_CLIENT_DEVICE"].startswith("cuda")
        [device] = service["deploy"]["resources"]["reservations"]["devices"]
        assert device["driver"] == "nvidia"
        assert device["capabilities"] == ["gpu"]


# images


def test_dockerfile_has_both_targets_as_an_ordinary_user() -> None:
    found = stages()
    assert list(found) == ["base", "wheel", "server", "client"]
    for target, program in (("server", "domo-server"), ("client", "domo-client")):
        text = found[target]
        assert re.search(rf"^FROM base AS {target}$", DOCKERFILE, flags=re.M)
        assert re.search(r"^USER domo$", text, flags=re.M)
        assert re.search(r"^VOLUME /var/lib/domo$", text, flags=re.M)
        assert f'ENTRYPOINT ["{program}"]' in text
        assert re.search(rf'HEALTHCHECK [^\n]*\\\n +CMD \["{program}", "health"\]', text)
    assert "useradd --uid 10001" in found["base"]


def test_dockerfile_asks_for_the_torch_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for requirement in project["dependencies"]:
        if requirement.startswith("torch"):
            assert f'"{requirement}"' in stages()["base"]


def test_build_context_holds_what_the_dockerfile_copies() -> None:
    copied = {
        source
        for line in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, flags=re.M)
        for source in line.split()[:-1]
    }
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    kept = {line[1:] for line in lines if line.startswith("!")}
    assert "*" in lines
    assert copied == kept
    assert all((ROOT / name).exists() for name in kept)


# configurations


@pytest.mark.parametrize("path", TOMLS, ids=names(TOMLS))
def test_configuration_loads(path: Path) -> None:
    _, runs = load_config(path, {})
    assert runs
    for run in runs:
        assert run.kernel
        load_task(run.task)


def test_only_the_private_network_of_compose_goes_without_tls() -> None:
    open_ones = [p for p in TOMLS if load_config(p, {})[0].insecure]
    assert open_ones == [DEPLOY / "federation.toml"]


def test_hospitals_use_mutual_tls_and_a_roster() -> None:
    settings, [run] = load_config(DEPLOY / "examples/hospitals.toml", {})
    assert settings.tls is not None
    assert settings.tls.client_ca is not None
    assert run.roster
    assert set(run.required_silos) < set(run.roster)


def test_cifar10_is_the_experiment_of_the_paper() -> None:
    _, runs = load_config(DEPLOY / "examples/cifar10.toml", {})
    domo = runs[-1]
    assert (domo.task, domo.method, domo.num_silos) == ("cifar10-vgg16", "DOMO", 16)
    assert (domo.num_rounds, domo.local_epochs, domo.batch_size) == (200, 1, 32)
    assert (domo.similarity, domo.weight_decay) == (0.1, 5e-4)
    assert (domo.server_momentum, domo.local_momentum) == (0.9, 0.6)
    assert (domo.server_lr, domo.fusion_coef) == (1.0, 0.9)
    rates = [domo.lr_at(r) / domo.local_lr for r in (0, 119, 120, 159, 160, 199)]
    assert rates == pytest.approx([1, 1, 0.1, 0.1, 0.01, 0.01])
    base = runs[0].model_dump(exclude={"name", "method", "fusion_coef"})
    assert base == domo.model_dump(exclude={"name", "method", "fusion_coef"})


# services and scripts


@pytest.mark.parametrize("program", ["domo-server", "domo-client"])
def test_systemd_unit(program: str) -> None:
    text = (DEPLOY / f"systemd/{program}.service").read_text(encoding="utf-8")
    assert re.search(rf"^ExecStart=\S+/{program}\b", text, flags=re.M)
    assert re.search(r"^User=domo$", text, flags=re.M)
    used = set(re.findall(r"DOMO_SERVER_(\w+)=", text))
    assert used <= {name.upper() for name in ServerConfig.model_fields}


HARDENED = {
    "NoNewPrivileges": "yes",
    "ProtectSystem": "strict",
    "ProtectHome": "yes",
    "PrivateTmp": "yes",
    "CapabilityBoundingSet": "",
    "RestrictSUIDSGID": "yes",
    "RestrictNamespaces": "yes",
    "LockPersonality": "yes",
    "SystemCallArchitectures": "native",
    "SystemCallFilter": "@system-service",
    "LimitCORE": "0",
    "UMask": "0077",
}


def unit(program: str) -> dict[str, str]:
    text = (DEPLOY / f"systemd/{program}.service").read_text(encoding="utf-8")
    return dict(re.findall(r"^(\w+)=(.*)$", text, flags=re.M))


@pytest.mark.parametrize("program", ["domo-server", "domo-client"])
def test_what_a_service_may_do_is_bounded(program: str, compose: dict[str, Any]) -> None:
    told = unit(program)
    assert {key: told.get(key) for key in HARDENED} == HARDENED
    [container] = {str(s["pids_limit"]) for s in compose["services"].values()}
    [ulimits] = {str(s["ulimits"]) for s in compose["services"].values()}
    nofile = int(told["LimitNOFILE"])
    assert ulimits == str({"core": 0, "nofile": {"soft": nofile, "hard": nofile}})
    assert int(told["TasksMax"]) <= int(container)


def test_a_service_has_descriptors_for_all_connections_that_it_takes() -> None:
    shares = MOST_SILO_CONNECTIONS * OF_SILOS, MOST_PAGE_CONNECTIONS * OF_REST
    assert int(unit("domo-server")["LimitNOFILE"]) >= max(shares)
    assert "PrivateDevices" not in unit("domo-client")  # a GPU is one
    assert "ProtectClock" not in unit("domo-client")  # it hides them too
