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

from ._binary import binary
from ._errors import (
    CapabilityError,
    Diagnostic,
    InternalError,
    LabError,
    NetariumError,
    ProgramError,
)
from ._lab import Lab
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

__all__ = [
    "Bundle",
    "CapabilityError",
    "Cluster",
    "Control",
    "Diagnostic",
    "Event",
    "Expectation",
    "Flow",
    "Import",
    "InternalError",
    "Lab",
    "LabError",
    "Link",
    "Mirror",
    "NetariumError",
    "Node",
    "Program",
    "ProgramError",
    "Section",
    "SessionGenerator",
    "binary",
    "bulk",
]
