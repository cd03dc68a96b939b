"""Bundler: site-to-site Internet traffic control.

The figures compare runs of a lab that differ in the mode of the gateways: they observe (the status
quo), or control the rate. `cases` runs labs in both modes, `timeline` reads states and queues over
time, `slowdown` reads requests, `wall_check` repeats some labs on the wall clock.
"""

from netarium_papers import Paper

PAPER = Paper(
    "bundler",
    "Site-to-Site Internet Traffic Control",
    "F. Cangialosi, A. Narayan, P. Goyal, R. Mittal, M. Alizadeh and H. Balakrishnan, EuroSys 2021",
    (
        "backlogged",
        "accuracy",
        "multipath",
        "request_slowdown",
        "policies",
        "phases",
        "short_cross",
        "elastic_cross",
        "two_bundles",
        "controllers",
        "load",
        "internet",
        "rates",
        "steps",
        "faults",
        "harm",
        "sensitivity",
    ),
)
# Rate of the bottleneck in most labs.
BOTTLENECK_MBITS = 96
