"""What a silo says of its machine: memory, GPU and disk. Nothing that names the machine."""

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import torch

MEMINFO = Path("/proc/meminfo")
STATM = Path("/proc/self/statm")
GROUP = Path("/sys/fs/cgroup")


def measure(device: torch.device | None, folder: Path) -> Mapping[str, float]:
    """Fields of `Resources`, as far as they can be had here; takes well below a millisecond.

    Args:
        device: Where it trains; None, or a CPU: nothing is said of a GPU.
        folder: The state folder.
    """
    asked: dict[str, Callable[[], float]] = {
        "process_memory_bytes": process_memory,
        "memory_available_bytes": available_memory,
        "memory_total_bytes": total_memory,
        "disk_free_bytes": lambda: shutil.disk_usage(folder).free,
    }
    if device is not None and device.type == "cuda":
        asked |= {
            "gpu_memory_used_bytes": lambda: _gpu_used(device),
            "gpu_memory_total_bytes": lambda: torch.cuda.mem_get_info(device)[1],
            "gpu_busy": lambda: torch.cuda.utilization(device) / 100,  # with the extra `gpu`
        }
    found = {}
    for name, ask in asked.items():
        try:
            found[name] = ask()
        except Exception:  # a broken GPU raises anything, and the heartbeat must go on
            continue
    return found


def process_memory() -> int:
    """Resident bytes of this process."""
    return int(STATM.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def available_memory() -> int:
    """Bytes that this process could still take, within the limit of its container."""
    free = _meminfo("MemAvailable")
    if free is None:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit, used = _group("memory.max"), _group("memory.current")
    if limit is not None and used is not None:
        free = min(free, max(0, limit - used))
    return free


def total_memory() -> int:
    """Bytes of this machine, or of its container."""
    total = _meminfo("MemTotal")
    if total is None:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = _group("memory.max")
    return total if limit is None else min(total, limit)


def _meminfo(name: str) -> int | None:
    try:
        for line in MEMINFO.read_text(encoding="ascii").splitlines():
            if line.startswith(f"{name}:"):
                return 1024 * int(line.split()[1])
    except (OSError, ValueError, IndexError):
        pass
    return None


def _group(name: str) -> int | None:
    """A number of the control group; None: there is none, or no limit."""
    try:
        return int((GROUP / name).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def _gpu_used(device: torch.device) -> int:
    """By all processes."""
    free, total = torch.cuda.mem_get_info(device)
    return total - free
