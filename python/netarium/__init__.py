"""Netarium: labs of emulated and simulated networks, written and run from Python.

The package writes lab files, starts the program `netarium` and reads its results. The program
checks, emulates and simulates; this package computes none of it.

    import netarium as nt

    net = nt.Lab("kv", seed=7)
    client, server = net.hosts("client", "server")
    net.link(client, server, rate="1 Gbit/s", delay="2 ms")
    net.check()

All quantities are texts with a unit, such as `"10 ms"`. All errors are subclasses of
`NetariumError`.
"""

from importlib import metadata as _metadata

from . import collector as collector
from ._binary import binary as binary
from ._errors import (
    CapabilityError as CapabilityError,
    Diagnostic as Diagnostic,
    FailedRunError as FailedRunError,
    InternalError as InternalError,
    LabError as LabError,
    NetariumError as NetariumError,
    ProgramError as ProgramError,
    RunError as RunError,
    RunInterrupted as RunInterrupted,
    UntrustedRunError as UntrustedRunError,
)
from ._lab import Lab as Lab
from ._run import (
    Metric as Metric,
    ProgramResult as ProgramResult,
    Run as Run,
    RunSet as RunSet,
    Verdict as Verdict,
)
from ._schema import *  # The classes of sections, and bulk
from ._section import Link as Link, Node as Node, Section as Section
from ._statistics import Interval as Interval, diff as diff, paired as paired, summary as summary
from ._sweep import RayExecutor as RayExecutor, sweep as sweep
from ._table import Column as Column, Row as Row, Table as Table
from ._up import (
    Completed as Completed,
    Host as Host,
    Process as Process,
    RunningLab as RunningLab,
    RunningLink as RunningLink,
    file as file,
    output as output,
    port as port,
    udp_port as udp_port,
)

try:
    __version__ = _metadata.version("netarium")
except _metadata.PackageNotFoundError:
    # The sources, not installed.
    __version__ = "unknown"
