"""Statistics of samples."""

import statistics

# Payload and wire bytes of a full segment: MTU 1500, TCP with time stamps, Ethernet's 38 B.
SEGMENT = 1448
WIRE = 1538


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def exact(bits_per_s):
    """Payload that TCP can carry on a link of this rate."""
    return bits_per_s * SEGMENT / WIRE


def bytes_at(log, moment):
    """Bytes received until then; between two entries of the log, in proportion."""
    before = log[0]
    for entry in log:
        if entry[0] >= moment:
            span = entry[0] - before[0]
            share = (moment - before[0]) / span if span else 1
            return before[1] + (entry[1] - before[1]) * share
        before = entry
    return before[1]


class Goodput:
    """The measurements of receivers after the warm-up, in whole seconds."""

    def __init__(self, logs, warm_up):
        first = max(log[0][0] for log in logs) + int(warm_up * 1e9)
        last = min(log[-1][0] for log in logs)
        count = int((last - first) / 1e9)
        edges = [first + n * 1_000_000_000 for n in range(count + 1)]
        totals = [sum(bytes_at(log, edge) for log in logs) for edge in edges]
        self.seconds = [(b - a) * 8 for a, b in zip(totals, totals[1:])]
        self.mean = statistics.fmean(self.seconds)
        self.deviation = statistics.pstdev(self.seconds) / self.mean


def spread(values):
    """Median, minimum and maximum."""
    return statistics.median(values), min(values), max(values)
