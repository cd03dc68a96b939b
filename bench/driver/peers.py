"""The peers, measured in the same run by the same probes."""

import json
import os
import shutil
import sys
import time
from pathlib import Path

import readers
import simulators
from machine import (
    OWN_NAMES,
    PEERS,
    PROBE,
    Failure,
    Namespace,
    Pair,
    finish,
    folder,
    have,
    last_json,
    run,
    start,
)

PORT = 5001


def rattan_program():
    """Rattan's binary, from PATH or where `cargo install --root` below ~/.cache puts it."""
    ours = Path.home() / ".cache/netarium-bench/rattan/bin/rattan"
    return shutil.which("rattan") or (str(ours) if ours.exists() else None)


def absent(name):
    """The reason why a peer cannot be measured here, or None."""
    if name in ("ns-3", "ns-3 optimized", "simgrid"):
        return simulators.absent(name)
    if name in ("libparsebgp", "pybgpkit-parser") or name in readers.PACKAGES:
        why = readers.absent(name)
        if why or name not in ("bird",):
            return why
    if os.geteuid() != 0:
        return "needs root"
    if name == "rattan" and not rattan_program():
        return "not installed: cargo install rattan --locked --root ~/.cache/netarium-bench/rattan"
    if name == "mininet" and not (have("mn") and have("brctl")):
        return "not installed: apt-get install mininet bridge-utils"
    return None


def tcp(pair, seconds, window=0, streams=1, write=131_072):
    """TCP from a to b; the receivers' logs."""
    sinks, sources = [], []
    for port in range(PORT, PORT + streams):
        sinks.append(start(pair.b.inside(PROBE, "tcp-receive", port, seconds, window)))
    listening(pair.b, PORT + streams - 1)
    for port in range(PORT, PORT + streams):
        to = f"{pair.ADDRESS}:{port}"
        sources.append(start(pair.a.inside(PROBE, "tcp-send", to, seconds + 5, write)))
    logs = [last_json(finish(sink, seconds + 20))["log"] for sink in sinks]
    for source in sources:
        finish(source, 20)
    return logs


def listening(namespace, port):
    """Waits until a process listens."""
    wanted = f":{port:04X} 00000000:0000 0A"
    for _ in range(1000):
        if wanted in Path(f"/proc/{namespace.pid}/net/tcp").read_text():
            return
        time.sleep(0.005)
    raise Failure(f"no process listens on port {port}")


def veth_delays(packets_per_s, seconds):
    """One-way delays over a plain veth pair, and the sender's stalls."""
    with Pair() as pair:
        pair.join_by_veth()
        run(pair.a.inside("ping", "-c", "1", "-q", pair.ADDRESS))
        receiver = start(pair.b.inside(PROBE, "udp-receive", "9000", seconds))
        time.sleep(0.2)
        to = f"{pair.ADDRESS}:9000"
        sender = start(pair.a.inside(PROBE, "udp-send", to, packets_per_s, seconds))
        delays = last_json(finish(receiver, 30))["delays_ns"]
        return delays, last_json(finish(sender, 30))


def tbf(bits_per_s, seconds, window, streams, limit_bytes):
    """TCP through the kernel's token bucket filter; the receivers' logs."""
    with Pair() as pair:
        pair.join_by_veth()
        pair.limit(bits_per_s, limit_bytes)
        return tcp(pair, seconds, window, streams)


def veth_tcp(seconds):
    """TCP over a plain veth pair, with super-packets."""
    with Pair() as pair:
        pair.join_by_veth()
        return tcp(pair, seconds)


def copy_loop(seconds):
    """TCP over two TUN devices without offloads and a loop that copies packets between them."""
    with Pair() as pair:
        words = ["unshare", "--net", "--", sys.executable, PEERS / "tunnel.py", PROBE, seconds + 2]
        relay = start([*words, pair.a.pid, pair.b.pid])
        if relay.stderr.readline().strip() != "ready":
            raise Failure("no TUN devices: " + relay.stderr.read().strip())
        pair.address("t0")
        logs = tcp(pair, seconds)
        _, errors = relay.communicate(timeout=30)
        return logs, last_json(errors)


RATTAN = """
[env]
mode = "Compatible"
left_veth_count = 1
right_veth_count = 1
client_cores = [0]
server_cores = [0]
{cells}
[links]
{links}
[resource]
cpu = [{core}]
[general]
[commands]
left = ["sh", "-c", '''{command}''']
shell = "Default"
"""


def rattan(command, delay, bits_per_s=None, packets=2000, sink=None):
    """Runs a command behind Rattan, whose far end is $RATTAN_BASE; its output, and the sink's."""
    cells = "".join(
        f'[cells.{cell}]\ntype = "Delay"\ndelay = "{delay}"\n' for cell in ("up", "down")
    )
    links = 'left = "up"\nup = "right"\nright = "down"\ndown = "left"'
    if bits_per_s:
        cells += (
            f'[cells.rate]\ntype = "Bw"\nqueue = "DropTail"\nbandwidth = "{bits_per_s}bps"\n'
            f'bw_type = "LinkLayer"\n[cells.rate.queue_config]\npacket_limit = {packets}\n'
        )
        links = links.replace('left = "up"', 'left = "rate"\nrate = "up"')
    core = max(os.sched_getaffinity(0))
    with folder() as place:
        config = Path(place) / "rattan.toml"
        config.write_text(RATTAN.format(cells=cells, links=links, core=core, command=command))
        space = Namespace()
        receiver = None
        try:
            if sink:
                receiver = start(space.inside(*sink))
                listening(space, PORT)
            # With a separate process namespace, its child processes are killed with it.
            words = ["unshare", "--mount-proc", "--pid", "--fork", "--kill-child", "--"]
            words += [*OWN_NAMES, rattan_program(), "run", "--config", config]
            output = finish(start(space.inside(*words)), 60)
            return output, last_json(finish(receiver, 60)) if receiver else None
        finally:
            if receiver and receiver.poll() is None:
                receiver.kill()
            space.close()


def rattan_tcp(bits_per_s, delay, seconds, window, packets=2000):
    command = f"{PROBE} tcp-send $RATTAN_BASE:{PORT} {seconds + 5} 131072"
    sink = [PROBE, "tcp-receive", PORT, seconds, window]
    return [rattan(command, delay, bits_per_s, packets, sink)[1]["log"]]


def mininet(hosts):
    """Hosts on one bridge, in namespaces that vanish with what Mininet leaves behind."""
    outer = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    text = run([*outer, "--", "/usr/bin/python3", PEERS / "mininet_star.py", hosts], 180)
    return last_json(text)


IP_LOOP = """
ip link set lo up
now() { date +%s%N; }
begin=$(now)
for n in $(seq {hosts}); do
    ip netns add h$n
    ip -n h$n tuntap add mode tun name eth0
    ip -n h$n address add 10.$((n / 250)).$((n % 250)).1/30 dev eth0
    ip -n h$n link set eth0 up
    ip -n h$n link set lo up
done
up=$(now)
for n in $(seq {hosts}); do ip netns delete h$n; done
down=$(now)
echo "{\\"up_s\\":$((up - begin))e-9,\\"down_s\\":$((down - up))e-9}"
"""


def ip_loop(hosts):
    """The commands of a shell script: `ip netns add` and others for every host."""
    script = IP_LOOP.replace("{hosts}", str(hosts))
    outer = ["unshare", "--net", "--mount", "--", *OWN_NAMES]
    return json.loads(run([*outer, "sh", "-c", script], 180))
