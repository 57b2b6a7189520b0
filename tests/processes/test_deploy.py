"""The files for operators, read by the programs that they are for."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from cryptography import x509

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "monitoring"
BASE, OVERLAY = ROOT / "docker-compose.yml", ROOT / "deploy/compose.monitoring.yml"


def run(*command: str, cwd: Path) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "arguments",
    ["check rules alerts.yml", "check config prometheus.yml", "test rules alerts_test.yml"],
)
def test_promtool_agrees(arguments: str) -> None:
    run("promtool", *arguments.split(), cwd=FOLDER)


def test_compose_takes_the_overlay() -> None:
    asked = ["docker", "compose", "version"]
    if shutil.which("docker") is None or subprocess.run(asked, check=False).returncode:
        pytest.skip("docker compose is not installed")
    files = ["-f", str(BASE), "-f", str(OVERLAY)]
    run("docker", "compose", *files, "config", "--quiet", cwd=ROOT)


DEPLOY = ROOT / "deploy"
SCRIPTS = sorted(DEPLOY.rglob("*.sh"))


def names(paths: list[Path]) -> list[str]:
    return [str(p.relative_to(ROOT)) for p in paths]


@pytest.mark.parametrize("path", SCRIPTS, ids=names(SCRIPTS))
def test_script_is_a_shell_script(path: Path) -> None:
    assert os.access(path, os.X_OK)
    subprocess.run(["sh", "-n", path], check=True)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_certificates_name_their_silos(tmp_path: Path) -> None:
    command: list[str | Path] = [DEPLOY / "tls/make-certs.sh", tmp_path, "fl.example.org"]
    subprocess.run([*command, "site-a", "site-b"], check=True, capture_output=True)
    before = (tmp_path / "site-a.pem").read_bytes()
    subprocess.run([*command, "site-c"], check=True, capture_output=True)
    assert (tmp_path / "site-a.pem").read_bytes() == before
    ca = x509.load_pem_x509_certificate((tmp_path / "ca.pem").read_bytes())
    wanted = {name: [name] for name in ("site-a", "site-b", "site-c")}
    wanted["coordinator"] = ["fl.example.org", "localhost"]
    for name, hosts in wanted.items():
        made = x509.load_pem_x509_certificate((tmp_path / f"{name}.pem").read_bytes())
        made.verify_directly_issued_by(ca)
        alternative = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert alternative.get_values_for_type(x509.DNSName) == hosts
        assert (tmp_path / f"{name}.key").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("name", ["ca", "coordinator", "a,DNS:b", "../x", ""])
def test_certificates_refuse_names_that_are_none(tmp_path: Path, name: str) -> None:
    command = [DEPLOY / "tls/make-certs.sh", tmp_path / "out", "fl.example.org", name]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert "no name for a silo" in done.stderr
    assert not (tmp_path / "out").exists()
