"""`domo-client support-bundle`: an archive for whoever helps, with nothing in it that is secret.

No data, no keys, no bytes of a model; home folders and the user's name are left out. Texts of
`doctor` can name other paths and files of this machine.
"""

import getpass
import importlib.metadata
import json
import os
import platform
import re
import sys
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path

import torch

from domo.errors import ConfigError
from domo.names import plain
from domo.ops.console import say
from domo.ops.folder_checks import files_in, human_size
from domo_client.doctor.checks import Setup
from domo_client.doctor.doctor import examine
from domo_client.telemetry.resources import available_memory

LAST_LINES = 500
MOST_BYTES = 1 << 20
"""Read of the end of a log."""
PACKAGES = ("torch", "torchvision", "numpy", "grpcio", "protobuf", "safetensors", "pydantic")
SHOWN = re.compile(
    r"(DOMO|GRPC|OMP|MKL|CUDA|NVIDIA|TORCH|PYTORCH|NCCL|PYTHON|LC|SSL)_?.*|LANG|PATH|TZ|TMPDIR|"
    r"(no_)?(grpc|http|https|all)_proxy|no_proxy",
    re.IGNORECASE,
)
"""Variables whose values may help; of all others only the name goes in."""
SECRET_NAME = re.compile(r"TOKEN|SECRET|PASS|KEY|CREDENTIAL|AUTH|COOKIE|DATABASE", re.IGNORECASE)
SECRETS = [
    (re.compile(r"(://)[^/\s@]+@"), r"\1***@"),
    (
        re.compile(r"((?:token|password|secret|key)[\"']?\s*[=:]\s*[\"']?)[^\s&\"',]+", re.I),
        r"\1***",
    ),
    (re.compile(r"(Authorization:\s*\w+\s+|Bearer\s+)\S+", re.I), r"\1***"),
]
"""In values and log lines: log-in parts of URLs, and what follows a word for a secret."""


def redact(text: str) -> str:
    """A text without what looks like a secret."""
    for pattern, instead in SECRETS:
        text = pattern.sub(instead, text)
    return text


HOMES = re.compile(r"(/home/|/Users/|\\Users\\)[^/\\\s:;,'\"]+")
COMMON_USERS = ("root", "domo", "user", "admin")
"""Say nothing of a person; `domo` is what the images run as."""
SHORTEST_SECRET = 8
"""Of variables: a shorter value could be any word."""


def anonymise(text: str, variables: Mapping[str, str]) -> str:
    """A text without this machine's secrets, home folders and user name, wherever they stand.

    Args:
        text: Any part of the archive.
        variables: The environment: values whose names are those of secrets are taken out.
    """
    for name, value in variables.items():
        if SECRET_NAME.search(name) and len(value) >= SHORTEST_SECRET:
            text = text.replace(value, "***")
    home = str(Path.home())
    if len(home) > 1:
        text = re.sub(re.escape(home) + r"(?![\w.-])", "~", text)
    text = HOMES.sub(r"\1USER", text)
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        return text
    if len(user) < 3 or user in COMMON_USERS:
        return text
    return re.sub(rf"(?<![\w.-]){re.escape(user)}(?![\w.-])", "USER", text)


def environment(variables: Mapping[str, str]) -> str:
    """Variables by name; values of those that may help, secrets replaced."""
    lines = []
    for name in sorted(variables):
        value = variables[name]
        if SECRET_NAME.search(name):
            shown = "*** (a secret by its name)"
        elif SHOWN.fullmatch(name):
            shown = redact(value)
        else:
            shown = "(not shown)"
        lines.append(f"{name} = {shown}")
    return "\n".join(lines) + "\n"


def last_lines(path: Path) -> str:
    """The end of a log file, secrets replaced.

    Raises:
        ConfigError: It cannot be read, is no text, or holds a private key.
    """
    try:
        with path.open("rb") as f:
            f.seek(max(0, path.stat().st_size - MOST_BYTES))
            raw = f.read()
    except OSError as error:
        raise ConfigError(f"--log {path}: cannot be read: {error.strerror}") from None
    text = raw.decode(errors="replace")
    if b"\0" in raw or text.count("\ufffd") > 10:
        raise ConfigError(f"--log {path}: not a text file; give the file that domo-client logs to")
    if "PRIVATE KEY-----" in text:
        raise ConfigError(f"--log {path}: holds a private key, which stays here")
    return redact("\n".join(text.splitlines()[-LAST_LINES:]) + "\n")


def versions() -> str:
    """What runs here, as JSON."""
    packages = {}
    for name in ("domo-federated", *PACKAGES):
        try:
            packages[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            packages[name] = "not installed"
    cuda = torch.cuda.is_available()
    count = torch.cuda.device_count() if cuda else 0
    body = {
        "python": sys.version,
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "memory_available_bytes": available_memory(),
        "packages": packages,
        "cuda": torch.version.cuda,
        "gpus": [torch.cuda.get_device_name(i) for i in range(count)],
    }
    return json.dumps(body, indent=2)


def listing(folder: Path) -> str:
    """Names and sizes of the files in a folder; nothing of what is in them."""
    if not folder.is_dir():
        return f"{folder} is not there\n"
    lines = [f"{size:>14}  {path.relative_to(folder)}" for path, size in files_in(folder)]
    return "\n".join([str(folder), *lines]) + "\n"


def status(folder: Path) -> str | None:
    """What the silo was doing when the coordinator last heard of it."""
    path = folder / "status.json"
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
        age = time.time() - path.stat().st_mtime
    except (OSError, ValueError):
        return None
    return json.dumps({"written_s_ago": round(age), "status": body}, indent=2)


def write_bundle(setup: Setup, log: Path | None, out: Path | None) -> None:
    """Collect, say what will be in it, write, and say where.

    Raises:
        ConfigError: The log or the archive cannot be used.
    """
    stamp = time.strftime("%Y%m%d-%H%M%S")
    path = out or Path(f"domo-support-{plain(setup.name)}-{stamp}.zip")
    if path.exists():
        raise ConfigError(f"--out {path}: is there already; give another name")
    end_of_log = last_lines(log) if log else None
    report = examine(setup)
    parts = {
        "versions.json": ("versions of domo, torch and others; platform", versions()),
        "doctor.json": ("what `domo-client doctor` has found", redact(report.as_json())),
        "status.json": ("what the silo last said that it does", status(setup.state_dir)),
        "state-folder.txt": ("names and sizes of files, no more", listing(setup.state_dir)),
        "environment.txt": ("variables by name, secrets replaced", environment(os.environ)),
        "log.txt": (f"the last lines of {log}, secrets replaced", end_of_log),
    }
    clean = {
        name: (what, None if content is None else anonymise(content, os.environ))
        for name, (what, content) in parts.items()
    }
    say("")
    say("in the archive will be (no data, no keys, no bytes of a model, no name of a user):")
    for name, (what, content) in clean.items():
        if content is not None:
            say(f"  {name:<17} {human_size(len(content.encode())):>9}  {what}")
    temporary = path.with_name(path.name + ".tmp")
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as f, zipfile.ZipFile(f, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, (_, content) in clean.items():
                if content is not None:
                    archive.writestr(name, content)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise ConfigError(f"--out {path}: cannot be written: {error.strerror}") from None
    say(f"written: {path.absolute()}. Look into it before you send it: paths of files can be in it")
