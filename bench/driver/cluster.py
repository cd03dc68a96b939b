"""A lab over agents in namespaces of this machine: notices, shares, the cost of agreeing."""

import itertools
import json
import re
import sys
from pathlib import Path

import labs
import peers
from machine import NETARIUM, ROOT, Failure, finish, folder, start

AGENTS = 8
# The transit-stub topology of labs/splaynet/large.toml: 150 hosts.
SHAPE = (range(1, 3), range(1, 6), range(1, 2), range(1, 6), range(1, 4))
HOSTS = ["h" + "-".join(map(str, at)) for at in itertools.product(*SHAPE)]
CHANGES = 100


def local(agents, *command):
    """A command in a cluster on this machine."""
    return [NETARIUM, "cluster", "local", agents, "--", *command]


def lab(sharing, seconds, flows, host_rate):
    """150 hosts: short transfers that start and end CHANGES times a second, and long flows."""
    half = len(HOSTS) // 2
    gap = half / (CHANGES / 2)
    text = f"""
[lab]
name = "agreeing"
duration = "{seconds} s"
seed = 344
model = "collapsed"
sharing = "{sharing}"
window = "off"
interval = "50 ms"
[[generate]]
kind = "transit-stub"
transit_domains = 2
transit_routers = 5
stubs = 1
stub_routers = 5
hosts = 3
transit_rate = "20 Mbit/s"
stub_rate = "10 Mbit/s"
host_rate = "{host_rate}"
host_delay = "1 ms"
[[flow]]
name = "short"
from = {json.dumps(HOSTS[:half])}
to = {json.dumps(HOSTS[half:])}
size = "5 kB"
arrivals = {{ poisson = "{gap} s" }}
control = "cubic"
"""
    for at in range(flows // len(HOSTS) + (flows % len(HOSTS) > 0)):
        some = HOSTS[: flows - at * len(HOSTS)]
        step = 7 + 11 * at
        to = [HOSTS[(HOSTS.index(host) + step) % len(HOSTS)] for host in some]
        text += f"""
[[flow]]
name = "long-{at}"
from = {json.dumps(some)}
to = {json.dumps(to)}
control = "cubic"
"""
    return text


def run(text, agents):
    """The record of a lab on several agents; one agent is this machine without a cluster."""
    with folder() as place:
        file, runs = Path(place) / "lab.toml", Path(place) / "runs"
        file.write_text(text)
        words = labs.command(file, runs)
        if agents > 1:
            script = 'exec "$@" --cluster "$NETARIUM_CLUSTER"'
            words = local(agents, "sh", "-c", script, "sh", *words)
        process = start(words, cwd=place)
        try:
            finish(process, 240)
        except Failure:
            if process.returncode != 3:
                raise
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
        (path,) = runs.iterdir()
        return json.loads((path / "run.json").read_text())


def delays(table, what, law, record):
    """With notices: until another agent has applied a change. With SLBN: until a starting flow
    has its first share, which takes several RTTs."""
    delay = record.get("notice_delay")
    if not delay:
        raise Failure(f"{what}: no notice delay in the record")
    must = {"median": 2, "mean, paper 7.36": 7.36} if law != "slbn" else {}
    keys = ("p50_ns", "mean_ns", "p99_ns", "max_ns")
    for part, key in zip(("median", "mean, paper 7.36", "p99", "max"), keys):
        limit = {"at_most": must[part]} if part in must else {}
        table.ours("cluster", what, part, "ms", delay[key] / 1e6, **limit)
    lateness = [member.get("lateness") for member in record["cluster"]["members"]]
    worst = max(one["p99_ns"] for one in lateness if one)
    table.ours("cluster", what, "p99 lateness, worst agent", "ms", worst / 1e6)
    table.ours("cluster", what, "steal", "s", record["host"]["steal_s"])


def bytes_of(table, what, record):
    members = record["cluster"]["members"]
    sent = sum(member["message_bytes_sent"] for member in members)
    count = sum(member["messages_sent"] for member in members)
    seconds = record["elapsed_s"] * len(members)
    table.ours("cluster", what, "bytes / agent / s", "B", sent / seconds)
    table.ours("cluster", what, "messages / agent / s", "", count / seconds)


def shares(table, short):
    """Figure 3.4.4 on the cluster: each share, compared with a solution from scratch."""
    with folder() as place:
        script = 'exec "$@" --cluster "$NETARIUM_CLUSTER"'
        figure = ["env", f"PYTHONPATH={ROOT / 'python'}:{ROOT / 'reproduce'}"]
        figure += [f"NETARIUM_BINARY={NETARIUM}", sys.executable, "-m", "netarium_papers"]
        figure += ["splaynet", "3.4.4", "--clock", "wall", "--json"]
        figure += ["--model", "collapsed", "--no-progress", "--out", Path(place) / "out"]
        figure += ["--short"] if short else []
        process = start(local(AGENTS, "sh", "-c", script, "sh", *figure), cwd=place)
        try:
            output, errors = process.communicate(timeout=400)
        finally:
            if process.poll() is None:
                process.terminate()
                process.communicate()
        found = re.search(r"p99 (?:less than )?([\d.]+) %, [\d,]+ shares", output)
        if not found:
            raise Failure(f"no shares from figure 3.4.4: {errors[-300:]}")
        what = f"shares, {AGENTS} agents"
        table.ours("cluster", what, "p99 error", "%", float(found[1]), at_most=1)


# Agents are lost one after the other: some are killed, the others stopped.
LOSSES = """
"$@" --cluster "$NETARIUM_CLUSTER" &
sleep 3
signal=KILL
for at in 2 3 4 5 6; do
    date "+m$at %s.%N"
    kill -$signal "$(cat "$NETARIUM_LOCAL/m$at/pid")"
    test $signal = KILL && signal=STOP || signal=KILL
    sleep 0.7
done
wait $!
for at in 2 3 4 5 6; do kill -CONT "$(cat "$NETARIUM_LOCAL/m$at/pid")" 2>/dev/null; done
"""

LOSING = """
[lab]
name = "losing"
duration = "11 s"
model = "collapsed"
[node.router]
kind = "router"
[cluster]
apart = [["h*"]]
machines = { m1 = ["h1"] }
on_agent_loss = "continue"
[[program]]
node = "h1"
run = ["sh", "-c", "date +%s.%N; exec sleep 9"]
"""


def lost_after(place):
    """Seconds from each loss of an agent until the lab's coordinator detected it."""
    text = LOSING + "".join(
        f'''
[node.h{at}]
[[link]]
ends = ["h{at}", "router"]
rate = "10 Mbit/s"
delay = "5 ms"
[[flow]]
from = "h{at}"
to = "h{at % AGENTS + 1}"
'''
        for at in range(1, AGENTS + 1)
    )
    file, runs = place / "losing.toml", place / "losing"
    file.write_text(text)
    process = start(local(AGENTS, "sh", "-c", LOSSES, "sh", *labs.command(file, runs)), cwd=place)
    try:
        output, errors = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            process.terminate()
            process.communicate()
    if not runs.exists():
        raise Failure(f"the lab that loses agents: {errors[:300]}")
    lost = dict(line.split() for line in output.splitlines() if line.startswith("m"))
    (path,) = runs.iterdir()
    record = json.loads((path / "run.json").read_text())
    (program,) = record["programs"]
    began = float((path / "programs" / program["name"] / "stdout").read_text())
    began -= program["started_s"]
    members = {member["name"]: member for member in record["cluster"]["members"]}
    for name, at in lost.items():
        if not members[name]["outages"]:
            raise Failure(f"the loss of {name} was not detected: {errors[-300:]}")
        yield began + members[name]["outages"][0]["at_s"] - float(at)


def losses(table, short):
    """Time until all agents have detected the loss of an agent."""
    with folder() as place:
        found = []
        for at in range(1 if short else 2):
            inner = Path(place) / str(at)
            inner.mkdir()
            found += lost_after(inner)
    found.sort()
    what = f"an agent of {AGENTS} lost, {len(found)} times"
    table.ours("cluster", what, "noticed after, least", "s", found[0])
    table.ours("cluster", what, "median", "s", found[len(found) // 2])
    table.ours("cluster", what, "longest", "s", found[-1], at_most=3)


def cluster(table, repetitions, short):
    """Agents in namespaces of this machine agree on the rates of 150 hosts' flows."""
    seconds = 6 if short else 20
    for _ in range(repetitions):
        _, sender = peers.veth_delays(1000, 2)
        table.stalls("cluster", "the machine alone", sender)
        for agents in (2, AGENTS):
            for law in ("rtt-max-min", "slbn"):
                what = f"{CHANGES} changes/s, {agents} agents, {law}"
                record = run(lab(law, seconds, 0, "5 Mbit/s"), agents)
                delays(table, what, law, record)
                bytes_of(table, what, record)
        if not short:
            for law in ("rtt-max-min", "slbn"):
                what = f"1,000 flows, {AGENTS} agents, {law}"
                record = run(lab(law, seconds, 1000, "500 kbit/s"), AGENTS)
                bytes_of(table, what, record)
        shares(table, short)
        losses(table, short)


ROWS = {"cluster": cluster}
