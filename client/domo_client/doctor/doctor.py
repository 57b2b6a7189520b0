"""`domo-client doctor`: the checks in order, each where it makes sense after those before it."""

import contextlib
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace

from domo.errors import ConfigError
from domo.ops.addresses import grpc_address
from domo.ops.console import say
from domo.ops.findings import Finding, Report, carry_out, unchecked
from domo.stages.limited import Limited
from domo_client.doctor.checks import (
    Facts,
    Setup,
    agreement,
    inputs,
    machine,
    network,
    samples,
    tls,
    training,
)

UNENDED = "what did not end must be mended first; see above"
FIRST = "the way there must be free first; see above"


def examine(setup: Setup, quiet: bool = False, limited: Limited | None = None) -> Report:
    """Run all checks.

    Args:
        setup: What the operator gave.
        quiet: Print nothing.
        limited: How long each may take.
    """
    report, facts = Report(quiet, limited or Limited()), Facts()
    address = True
    try:
        setup = replace(setup, server=grpc_address(setup.server or ""))
    except ConfigError:  # the flags say why
        address = False
    report.run("flags", lambda: network.flags(setup))
    files = report.run("TLS files", lambda: tls.files(setup, facts))
    reached = _reach(report, setup, facts) if address else _skip(report, WAY, "no address to dial")
    if not reached:
        _skip(report, BEYOND)
    else:
        _talk(report, setup, facts, files)
    if address and not report.hung:
        report.run("clock", lambda: network.clock(setup, facts))
    report.run("task", lambda: training.model(setup, facts))
    report.run("device", lambda: machine.device(setup, facts))
    report.run("state folder", lambda: machine.state_folder(setup))
    if "state folder" in report.hung:
        _skip(report, ("disk space",), "the state folder must be right first")
    else:
        report.run("disk space", lambda: machine.space(setup, facts))
    if not report.run("shared memory", lambda: machine.shared_memory(setup)):
        setup = replace(setup, workers=0)  # what follows is seen without them
    if report.run("data folder", lambda: training.folder(setup)):
        _look_at_data(report, setup, facts)
    else:
        _skip(report, DATA, "the data folder must be right first")
    if report.hung & {"task", *DATA}:
        _skip(report, ("dummy round",), UNENDED)
    elif facts.device is None:
        _skip(report, ("dummy round",), "the device must be there first")
    else:
        report.run("dummy round", lambda: training.dummy_round(setup, facts))
    return report


def _look_at_data(report: Report, setup: Setup, facts: Facts) -> None:
    """What hangs once would hang again: after that nothing of the user's is called."""
    checks: dict[str, Callable[[], Iterable[Finding]]] = {
        "data": lambda: training.data(setup, facts),
        "inputs": lambda: inputs.inputs(setup, facts),
        "samples": lambda: samples.samples(setup, facts),
        "same meaning": lambda: agreement.same(setup, facts),
    }
    for name, check in checks.items():
        if report.hung & {"task", *DATA}:
            _skip(report, (name,), UNENDED)
        else:
            report.run(name, check)


WAY = ("proxy", "DNS", "TCP")
BEYOND = ("gRPC", "server certificate", "protocol", "open run")
DATA = ("data", "inputs", "samples", "same meaning")


def _reach(report: Report, setup: Setup, facts: Facts) -> bool:
    report.run("proxy", lambda: network.proxy(setup, facts))
    if not report.run("DNS", lambda: network.name(setup, facts)):
        return _skip(report, ("TCP",))
    return report.run("TCP", lambda: network.port(setup, facts))


def _talk(report: Report, setup: Setup, facts: Facts, files: bool) -> None:
    """TLS and gRPC, over a port that can be connected to."""
    if setup.tls is None:
        speaks = report.run("gRPC", lambda: network.speaks_grpc(setup, facts))
        _skip(report, ("server certificate",), "no TLS file is given")
    else:
        speaks = report.run("gRPC", lambda: tls.handshake(setup, facts))
        speaks &= report.run("server certificate", lambda: tls.certificate(setup, facts))
    if speaks and files:
        spoken = report.run("protocol", lambda: network.protocol(setup, facts))
        if spoken:
            report.run("open run", lambda: agreement.open_run(setup, facts))
        else:
            _skip(report, ("open run",))
    else:
        _skip(report, ("protocol", "open run"))


def _skip(report: Report, names: Iterable[str], why: str = FIRST) -> bool:
    for name in names:
        report.add(name, unchecked(why))
    return False


def doctor(setup: Setup, as_json: bool, limit_s: float | None = None, names: bool = False) -> int:
    """Look, print, and return the exit code.

    Args:
        setup: What the operator gave.
        as_json: For scripts.
        limit_s: How long a check may take; None: as `domo.stages.limited` has it.
        names: Whether the JSON names files of the data, as what is for a terminal does.
    """

    def look(limited: Limited) -> Report:
        if as_json:
            with contextlib.redirect_stdout(sys.stderr):  # what a task prints is no JSON
                report = examine(setup, True, limited)
            say(report.as_json(names))
        else:
            report = examine(setup, limited=limited)
            report.close(f"nothing is wrong: {setup.name} can join {setup.server}")
        return report

    return carry_out(look, limit_s)
