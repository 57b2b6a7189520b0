"""Every limit that the source has: constants, settings, and numbers that should have a name.

A limit is a time that something waits at most, a size, a count, a pause between tries. It is known
by its name: a word of `WORDS` in a module's constant, a `_s` at the end of a setting. A number that
stands in a call where a limit is meant has no name, and is told apart.
"""

import ast
import importlib
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from pydantic import BaseModel

ROOT = Path(__file__).parents[2]
ROOMS = ("core/domo", "proto/domo_proto", "server/domo_server", "client/domo_client")
PAGE = ROOT / "server/domo_server/dashboard/static"
_WORDS = """
S MS TIMEOUT TIMEOUTS MAX MIN MOST LIMIT LONGEST DEEPEST RETRY RETRIES TRIES TRIED
PATIENCE PAUSE DEADLINE BACKOFF NUM KEEP KEPT BYTES CHARS CHARACTERS LINES PER BEATS
DAYS BURST ROWS PAGE KEEPALIVE KEEPALIVES INTERVAL
"""
WORDS = frozenset(_WORDS.split())
_ARGUMENTS = """
TIMEOUT TIMEOUTS MAX MAXLEN MAXSIZE MOST LIMIT DEADLINE RETRIES TRIES BACKOFF INTERVAL
PATIENCE PAUSE POLL KEEPALIVE KEEPALIVES
"""
ARGUMENTS = frozenset(_ARGUMENTS.split())
"""The same for arguments and keys, where `num` and a unit are no limits."""
_WAITING = """
sleep wait_for timeout wait join result settimeout Semaphore BoundedSemaphore deque
ThreadPoolExecutor stop_after_delay stop_after_attempt wait_fixed wait_random
wait_exponential wait_exponential_jitter alarm select poll
"""
WAITING = frozenset(_WAITING.split())
"""Calls whose plain numbers are limits."""
RULES = frozenset(("Field", "Option", "Argument", "Query"))
"""Calls that say what a value may be: the least of it is no limit."""
EXAMPLES = (
    "domo.commands.example_config", "domo_server.dashboard.openapi_examples", "domo_server.testing",
)  # fmt: skip
"""Modules whose numbers are examples, or those of tests."""
NO_LIMITS = frozenset(
    (
        ("server/domo_server/allocator.py", "M_ARENA_MAX"),
        ("proto/domo_proto/assignment.py", "DIGEST_BYTES"),
        ("proto/domo_proto/codec.py", "HEAD_BYTES"),
        ("core/domo/ops/addresses.py", "PAGE_PORT"),
        ("static/certificate.js", "DAY_MS"),
        ("static/events.js", "DAY_MS"),
        ("static/header.js", "HALF_A_DAY_S"),
        ("static/charts/confusion.js", "MOST_SHADE"),
        ("static/charts/series.js", "MOST_SHARE"),
        ("static/charts/toolbar.js", "MOST"),
        ("static/charts/view.js", "MOST_SMOOTH"),
        ("static/stacked_times.js", "MIN_BAR_PX"),
    )
)
"""What is named like a limit and is none: units, sizes of formats, looks."""
DEPLOYED = re.compile(
    r"^\s*(?P<unit>(?:Timeout|Restart|Watchdog|RuntimeMax)\w*Sec|StartLimit\w+|Limit[A-Z]+|"
    r"Tasks\w+|MemoryMax)=(?P<a>\S+)"
    r"|^\s*(?P<key>stop_grace_period|\w*interval|timeout|retries|start_period|mem_limit|"
    r"pids_limit|(?:proxy|grpc|send|client|keepalive)_\w*(?:timeout|size|time))"
    r"(?::\s*|\s+)(?P<b>[\d.]+\w*);?\s*$"
    r"|--(?P<flag>interval|timeout|start-period|retries)=(?P<c>\S+)",
    re.MULTILINE,
)


class Limit(NamedTuple):
    """One limit of the source.

    Attributes:
        where: The file, or the table of settings.
        name: As the source has it.
        value: In seconds where it is a time; None: there is none by default.
        most: What it may be set to at most.
    """

    where: str
    name: str
    value: float | None
    most: float | None = None


def is_limit(name: str, words: frozenset[str] = WORDS) -> bool:
    """Whether a name tells of a limit."""
    return bool(words & set(re.split(r"[_.\-]", name.upper())))


def modules() -> Iterator[tuple[str, ast.Module]]:
    """Every module that people wrote, by name."""
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            if "v1" in path.parts or "migrations" in path.parts:
                continue
            parts = path.relative_to((ROOT / room).parent).with_suffix("").parts
            name = ".".join(parts).removesuffix(".__init__")
            yield name, ast.parse(path.read_text(encoding="utf-8"))


def path_of(module: str) -> str:
    """Where a module's file is in the repository."""
    room = next(room for room in ROOMS if room.endswith(f"/{module.partition('.')[0]}"))
    return f"{room.partition('/')[0]}/{module.replace('.', '/')}.py"


def constants() -> Iterator[Limit]:
    """Those of modules, with the values that they have at run time."""
    for name, tree in modules():
        found = [c for c in _assigned(tree) if c == c.upper() and is_limit(c)]
        module = importlib.import_module(name) if found else None
        where = path_of(name)
        for constant in found:
            value = getattr(module, constant)
            if isinstance(value, int | float) and not isinstance(value, bool):
                yield Limit(where, constant, _in_seconds(constant, value))


def _assigned(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
        for target in targets:
            for one in target.elts if isinstance(target, ast.Tuple) else [target]:
                if isinstance(one, ast.Name):
                    yield one.id


def _in_seconds(name: str, value: float) -> float:
    return value / 1000 if name.upper().endswith("_MS") else value


def settings(table: str, model: type[BaseModel]) -> Iterator[Limit]:
    """Those of a configuration: what is in seconds, and what has an upper bound."""
    for name, field in model.model_fields.items():
        bounds = [getattr(m, "le", None) or getattr(m, "max_length", None) for m in field.metadata]
        most = next((float(b) for b in bounds if b is not None), None)
        value = field.default if isinstance(field.default, int | float) else None
        if name.endswith("_s") or (most is not None and most > 1):
            yield Limit(table, name, value, most)


def of_page() -> Iterator[Limit]:
    """Those of the page's JavaScript."""
    for path in sorted(PAGE.rglob("*.js")):
        if "vendor" in path.parts:
            continue
        for match in re.finditer(
            r"^(?:export )?const ([A-Z_\d]+) = ([\d.e]+);", path.read_text(), re.MULTILINE
        ):
            if is_limit(match[1]):
                where = f"static/{path.relative_to(PAGE)}"
                yield Limit(where, match[1], _in_seconds(match[1], float(match[2])))


def deployed() -> Iterator[Limit]:
    """Those of units, containers and proxies below deploy/."""
    files = [p for p in sorted((ROOT / "deploy").rglob("*")) if p.is_file()]
    for path in [*files, *ROOT.glob("docker-compose*.yml")]:
        if "grafana" in path.parts or path.name.startswith("alerts"):
            continue  # of alerts: monitoring.md
        seen = set()
        for match in DEPLOYED.finditer(path.read_text(encoding="utf-8")):
            name = match["unit"] or match["key"] or f"--{match['flag']}"
            value = quantity(match["a"] or match["b"] or match["c"])
            if value is not None and (name, value) not in seen:
                seen.add((name, value))
                yield Limit(str(path.relative_to(ROOT)), name, value)


UNITS: Mapping[str, float] = {
    "": 1, "ms": 1e-3, "s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "days": 86_400,
    "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "kB": 1e3, "MB": 1e6, "GB": 1e9,
    "%": 0.01,
}  # fmt: skip


def quantity(text: str) -> float | None:
    """A number with its unit, such as 4 MiB, 15s, 1,000 or 2^31 - 1; None: it is none."""
    if power := re.fullmatch(r"2\^(\d+)( - 1)?", text):
        return float(2 ** int(power[1]) - bool(power[2]))
    match = re.fullmatch(r"(-?[\d,]*\.?\d+(?:e\d+)?) ?([A-Za-z]*|%)", text)
    if match is None or match[2] not in UNITS:
        return None
    return float(match[1].replace(",", "")) * UNITS[match[2]]


def every(*models: tuple[str, type[BaseModel]]) -> list[Limit]:
    """All of them.

    Args:
        models: Configurations, each with the table that it is.
    """
    found = [*constants(), *of_page(), *deployed()]
    found += [limit for table, model in models for limit in settings(table, model)]
    return [limit for limit in found if (limit.where, limit.name) not in NO_LIMITS]


def nameless(*models: type[BaseModel]) -> Iterator[str]:
    """Numbers that are limits and have no name, as `module:line code`.

    Args:
        models: Configurations: what a parameter has by default may be what a setting has.
    """
    known = {(n, f.default) for model in models for n, f in model.model_fields.items()}
    for name, tree in modules():
        if name in EXAMPLES:
            continue
        for node in ast.walk(tree):
            for bad in _nameless_in(node, known):
                yield f"{name}:{bad.lineno} {ast.unparse(node)[:100]}"
    for path in sorted(PAGE.rglob("*.js")):
        if "vendor" not in path.parts:
            for i, line in enumerate(path.read_text().splitlines(), 1):
                if re.search(r"(?:setTimeout|setInterval)\(.*, [\d.e]+\)|timeout\([\d.e]+\)", line):
                    yield f"static/{path.relative_to(PAGE)}:{i} {line.strip()}"


def _nameless_in(node: ast.AST, known: Collection[tuple[str, Any]]) -> Iterator[ast.expr]:
    if isinstance(node, ast.Call):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        called = node.func.id if isinstance(node.func, ast.Name) else called
        given = [k for k in node.keywords if k.arg and is_limit(k.arg, ARGUMENTS)]
        if called in RULES:
            given = [k for k in given if not str(k.arg).startswith("min")]
        if called != "lru_cache":
            yield from (k.value for k in given if _has_number(k.value))
        of_text = isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Constant)
        if called in WAITING and not of_text:
            yield from (a for a in node.args if _has_number(a))
    elif isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if (
                isinstance(key, ast.Constant)
                and isinstance(key.value, str)
                and is_limit(key.value, ARGUMENTS)
            ):
                yield from [value] if _has_number(value) else []
    elif isinstance(node, ast.Tuple) and len(node.elts) == 2:
        key, value = node.elts
        if isinstance(key, ast.Constant) and str(key.value).startswith("grpc."):
            names = any(isinstance(n, ast.Name) for n in ast.walk(value))
            yield from (
                [value]
                if is_limit(str(key.value), ARGUMENTS) and not names and _has_number(value)
                else []
            )
    elif isinstance(node, ast.arguments):
        plain = [*node.posonlyargs, *node.args]
        pairs: list[Any] = list(zip(plain[::-1], node.defaults[::-1], strict=False))
        pairs += zip(node.kwonlyargs, node.kw_defaults, strict=True)
        for argument, value in pairs:
            name = argument.arg
            limits = is_limit(name, ARGUMENTS) or name.endswith(("_s", "_ms"))
            if limits and _is_number(value) and (name, value.value) not in known:
                yield value


def _is_number(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, int | float)
        and not isinstance(node.value, bool)
        and node.value not in (0, 1)
    )


def _has_number(node: ast.AST) -> bool:
    """Whether an expression has a plain number, but for what is given to other calls."""
    if isinstance(node, ast.Dict | ast.Subscript):
        return False
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") not in ("min", "max"):
        return False
    return _is_number(node) or any(_has_number(n) for n in ast.iter_child_nodes(node))


class Value(float):
    """A limit in a claim.

    Attributes:
        most: What it may be set to at most.
    """

    most: float | None = None


ALIASES = {
    "[server]": "server",
    "[[runs]]": "runs",
    "deploy/systemd/domo-server.service": "server_unit",
    "deploy/systemd/domo-client.service": "client_unit",
    "docker-compose.yml": "compose",
    "deploy/Dockerfile": "image",
}


def namespace(found: Collection[Limit]) -> dict[str, Any]:
    """What claims are made of: `module.NAME`, by the last part of the module; `page_module.NAME`
    of the page. A name that two modules with one last part have is left out."""
    values: dict[tuple[str, str], list[Value]] = {}
    for limit in found:
        if limit.value is not None:
            alias = ALIASES.get(limit.where, Path(limit.where).stem)
            if limit.where.startswith("static/"):
                alias = f"page_{Path(limit.where).stem}"
            value = Value(limit.value)
            value.most = limit.most
            name = limit.name.lstrip("-").replace("-", "_")
            values.setdefault((alias, name), []).append(value)
    spaces: dict[str, Any] = {"max": max, "min": min}
    for (alias, name), given in values.items():
        if len(given) == 1:
            setattr(spaces.setdefault(alias, SimpleNamespace()), name, given[0])
    return spaces
