"""The row of the event queue: cost of an event by the number of pending events."""

import json

import machine
from figures import spread

KINDS = ("exponential", "sparse", "bimodal", "constant", "network")
SIZES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)


def cost(queue, kind, pending):
    """Nanoseconds of processor time to take an event and add another."""
    words = [machine.PROBE, "event", queue, kind, pending]
    return json.loads(machine.run(words, timeout=300))["ns"]


def events(table, repetitions, short):
    """Cost of an event as pending events grow from a thousand to ten million."""
    sizes = SIZES[:3] if short else SIZES
    for kind in KINDS:
        found = {pending: [] for pending in sizes}
        for _ in range(repetitions):
            for pending in sizes:
                part = f"{pending:,}"
                found[pending].append(cost("fabric", kind, pending))
                table.peer("events", f"{kind} heap", part, "ns", cost("binary heap", kind, pending))
                beside = (f"{kind} heap", part)
                table.ours("events", kind, part, "ns", found[pending][-1], beside)
        medians = [spread(values)[0] for values in found.values()]
        # The most expensive size, compared with the smallest.
        table.ours("events", kind, "growth", "times", max(medians) / medians[0], at_most=3)
