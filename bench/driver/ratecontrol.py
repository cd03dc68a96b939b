"""The rows of explicit rate control: SLBN with many sessions, and compared with the oracle."""

import json
import re

import labs
from machine import BUILD, PROBE, ROOT, Failure, run

# The times of a prototype on such a machine: 2a with packets, 2b with control packets alone.
PROTOTYPE = {"2a": 781, "2b": 92}


def sessions(table, repetitions, short):
    """Paced sessions on a large network: events per second, compared with a loop over a binary heap."""
    load = [1_100, 20_000, 40] if short else [11_000, 180_000, 150]
    for _ in range(repetitions):
        found = {}
        for engine in ("fifo", "heap"):
            words = [PROBE, "sessions", engine, *load]
            found[engine] = json.loads(run(words, timeout=900).splitlines()[-1])
        hops = {name: one["packet_hops"] / one["seconds"] for name, one in found.items()}
        table.peer("slbn-events", "binary heap", "packet-hops", "/s", hops["heap"])
        what = f"{load[1]:,} sessions"
        beside = ("binary heap", "packet-hops")
        table.ours("slbn-events", what, "packet-hops", "/s", hops["fifo"], beside, at_least=5e6)


def experiment(name, **changes):
    """The text of a lab of the paper's evaluation, with other settings of `[lab]`."""
    text = (ROOT / "labs" / "slbn" / f"{name}.toml").read_text()
    for key, value in changes.items():
        text, count = re.subn(rf"(?m)^{key} = .*$", f"{key} = {value}", text)
        if count == 0:
            text = text.replace("[lab]\n", f"[lab]\n{key} = {value}\n", 1)
    return text


def large(table, repetitions, short):
    """Experiments 2a and 2b: 11,000 routers, 180,000 and 150,000 sessions, one core."""
    rows = {
        "2a, fluid": ("2a", {"model": '"fluid"'}, 60),
        "2a, packets": ("2a", {}, 360),
        "2b, fluid": ("2b", {}, 120),
    }
    if short:
        rows = {"2a, fluid": ("2a", {"model": '"fluid"', "duration": '"300 ms"'}, 60)}
    for what, (name, changes, seconds) in rows.items():
        mine, record = labs.simulate(experiment(name, **changes), timeout=1200)
        row = "slbn-large"
        if not short:
            peer = f"prototype, {name} (as measured elsewhere)"
            table.peer(row, peer, "took", "s", PROTOTYPE[name])
        beside = () if short else ((peer, "took"),)
        table.ours(row, what, "took", "s", mine["wall_s"], *beside)
        table.ours(row, what, "of processor", "s", mine["cpu_s"], at_most=seconds)
        table.ours(row, what, "events", "/s", mine["events_per_s"], at_least=5e6)
        memory = mine["peak_memory_bytes"] / 2**30
        table.ours(row, what, "memory", "GiB", memory, at_most=8)
        control = record["control"]
        table.ours(row, what, "a session", "B", control["session_bytes"], at_most=256)
        if control["error"] is not None:
            table.ours(row, what, "mean error", "%", 100 * control["error"])


def trials(table, repetitions, short):
    """Random instances on which SLBN reaches the oracle's rates."""
    counts = {"slbn": 1_000 if short else 100_000, "slbn-letter": 200 if short else 1_000}
    for protocol, count in counts.items():
        words = [BUILD / "examples" / "oracle_trials", "--count", count, "--protocol", protocol]
        text = run(words, timeout=3600)
        right = re.search(r": (\d+) of (\d+) right", text)
        rounds = re.search(r"rounds: p50 ([\d.]+), .* p99 ([\d.]+), .* max ([\d.]+)", text)
        if not right or not rounds:
            raise Failure("oracle_trials: " + text[:300])
        share = 100 * int(right[1]) / int(right[2])
        what = f"{protocol}, {count:,}"
        must = {"at_least": 100} if protocol == "slbn" else {}
        table.ours("slbn-oracle", what, "right", "%", share, **must)
        for part, value in zip(("median", "p99", "most"), rounds.groups()):
            table.ours("slbn-oracle", what, f"rounds, {part}", "", float(value))


def state(table, repetitions, short):
    """The state of a link as sessions grow from a hundred to a million."""
    counts = (100, 10_000) if short else (100, 10_000, 1_000_000)
    for protocol in ("b-neck", "bfyz", "slbn"):
        for count in counts:
            words = [PROBE, "state", protocol, count]
            found = json.loads(run(words, timeout=900).splitlines()[-1])
            part = f"{count:,} sessions"
            if protocol == "slbn":
                beside = [(name, part) for name in ("b-neck", "bfyz")]
                numbers = found["numbers"]
                table.ours("slbn-state", protocol, part, "", numbers, *beside, at_most=3)
            else:
                table.peer("slbn-state", protocol, part, "", found["numbers"])


ROWS = {
    "slbn-events": sessions,
    "slbn-large": large,
    "slbn-oracle": trials,
    "slbn-state": state,
}
