"""The rows of fair shares: the solver compared with SimGrid's, and the costs of the agreement."""

import json
import random
import subprocess

import simulators
from machine import PROBE, ROOT, finish, last_json, one_core, run, start


def system(links, flows, joins):
    """Links of three sizes, and flows over one to eight of them."""
    rng = random.Random(1)
    lines = [f"{links} {flows + joins} {joins}"]
    for _ in range(links):
        lines.append(f"{rng.choice((1e8, 1e9, 1e10)) * rng.uniform(0.5, 1)}")
    for _ in range(flows + joins):
        path = rng.sample(range(links), rng.randint(1, 8))
        lines.append(f"{len(path)} {' '.join(map(str, path))}")
    return "\n".join(lines) + "\n"


def solve(text):
    """Ours, on one core."""
    process = start(one_core([PROBE, "sharing"]), stdin=subprocess.PIPE)
    return last_json(finish(process, 120, text))


def sharing(table, repetitions, short):
    """Fair shares from scratch, and when one more flow joins."""
    many = 20_000 if short else 100_000
    for links, flows, joins in ((10_000, many, 0), (10_000, 10_000, 51), (1_000, 10_000, 51)):
        what = f"{flows:,} flows, {links:,} links"
        text = system(links, flows, joins)
        for _ in range(repetitions):
            ours = solve(text)
            theirs = table.attempt(
                "SimGrid", lambda: simulators.simulate("simgrid", "sharing", text=text))
            parts = {"from scratch": ("scratch_s", {})}
            if joins:
                # With few links nearly all shares change, with many links hardly any.
                parts["one joins"] = ("join_s", {"at_most": 1})
                parts["one leaves"] = ("leave_s", {"at_most": 1})
            for part, (key, must) in parts.items():
                if key in (theirs or ()):
                    table.peer("sharing", f"{what} SimGrid", part, "ms", theirs[key] * 1e3)
                beside = (f"{what} SimGrid", part)
                table.ours("sharing", what, part, "ms", ours[key] * 1e3, beside, **must)
            if not theirs:
                continue
            if not joins:
                times = theirs["scratch_s"] / ours["scratch_s"]
                table.ours("sharing", what, "SimGrid/ours", "times", times, at_least=5)
            # Equal if both solve the same system.
            gap = abs(theirs["load"] / ours["load"] - 1)
            table.ours("sharing", what, "loads differ", "", gap, at_most=1e-3)


# The metadata that Kollaps reports: 160 containers on 4 hosts, bytes a second of all of them.
KOLLAPS = 0.5e6
# The overhead of a message that is sent alone: Ethernet with preamble and gap, IPv4,
# TCP with time stamps, and Zenoh (measured).
HEADERS = 38 + 20 + 32 + 18


def notices(table, repetitions, short):
    """Bytes that an agent sends for the agreement, with both protocols: 8 agents, 1,000 flows."""
    lab = ROOT / "labs" / "splaynet" / "large.toml"
    flows = 200 if short else 1_000
    table.peer("cluster-notices", "Kollaps (as published)", "of 4 hosts", "B/s", KOLLAPS)
    for _ in range(repetitions):
        for members, changes in ((8, 0), (8, 100), (4, 100)):
            words = one_core([PROBE, "agreement", lab, members, flows, changes])
            for line in run(words, timeout=600).splitlines():
                found = json.loads(line)
                what = f"{found['way']}, {members} members, {flows:,} flows, {changes} changes/s"
                wire = found["bytes_per_s"] + HEADERS * found["messages_per_s"]
                for part, value in (
                    ("payload of a member", found["bytes_per_s"]),
                    ("on the wire of a member", wire),
                ):
                    table.ours("cluster-notices", what, part, "B/s", value)
                if members == 4 and found["way"] == "notices":
                    beside = ("Kollaps (as published)", "of 4 hosts")
                    all_of = ("cluster-notices", what, "of 4 hosts", "B/s", wire * 4)
                    table.ours(*all_of, beside, at_most=KOLLAPS)
                table.ours("cluster-notices", what, "within 1 %", "%", found["near"] * 100)
                delay = found["median_ms"]
                table.ours("cluster-notices", what, "until all are, median", "ms", delay)
                table.ours("cluster-notices", what, "until all are, most", "ms", found["most_ms"])


ROWS = {"sharing": sharing, "cluster-notices": notices}
