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

import importlib.metadata

from . import collector
from ._binary import binary
from ._errors import (
    CapabilityError,
    Diagnostic,
    FailedRunError,
    InternalError,
    LabError,
    NetariumError,
    ProgramError,
    RunError,
    RunInterrupted,
    UntrustedRunError,
)
from ._lab import Lab
from ._run import Metric, ProgramResult, Run, RunSet, Verdict
from ._schema import (
    Bundle,
    Cluster,
    Control,
    Event,
    Expectation,
    Flow,
    Import,
    Mirror,
    Program,
    SessionGenerator,
    bulk,
)
from ._section import Link, Node, Section
from ._statistics import Interval, diff, paired, summary
from ._sweep import RayExecutor, sweep
from ._table import Column, Row, Table
from ._up import Completed, Host, Process, RunningLab, RunningLink, file, output, port, udp_port

try:
    __version__ = importlib.metadata.version("netarium")
except importlib.metadata.PackageNotFoundError:
    # The sources, not installed.
    __version__ = "unknown"

__all__ = [
    "Bundle",
    "CapabilityError",
    "Cluster",
    "Column",
    "Completed",
    "Control",
    "Diagnostic",
    "Event",
    "Expectation",
    "FailedRunError",
    "Flow",
    "Host",
    "Import",
    "InternalError",
    "Interval",
    "Lab",
    "LabError",
    "Link",
    "Metric",
    "Mirror",
    "NetariumError",
    "Node",
    "Process",
    "Program",
    "ProgramError",
    "ProgramResult",
    "RayExecutor",
    "Row",
    "Run",
    "RunError",
    "RunInterrupted",
    "RunSet",
    "RunningLab",
    "RunningLink",
    "Section",
    "SessionGenerator",
    "Table",
    "UntrustedRunError",
    "Verdict",
    "binary",
    "bulk",
    "collector",
    "diff",
    "file",
    "output",
    "paired",
    "port",
    "summary",
    "sweep",
    "udp_port",
]
