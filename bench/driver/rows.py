"""The rows of the benchmark: measurements, peers and requirements."""

import itertools
import re
import signal
import sys
import time
from pathlib import Path

import bundle
import cluster
import collector
import labs
import multipath
import package
import peers
import ratecontrol
import shares
import trunk
import virtual
import watchers
from figures import Goodput, exact, percentile
from labs import program, two_hosts
from machine import (
    PROBE,
    PROBES,
    Failure,
    cpu_seconds,
    family,
    finish,
    folder,
    last_json,
    memory_kb,
    private_kb,
    run,
    settle,
    start,
)

PORT = peers.PORT
READY = f'ready = "port {PORT}"\nservice = false'
AFTER = 'after = "sink"\nexit = "any"'


def sink(seconds, window=0, node="b", name="sink"):
    words = [PROBE, "tcp-receive", PORT, seconds, window]
    return program(name, node, words, READY)


def source(seconds, to="b", node="a", name="source", after="sink"):
    words = [PROBE, "tcp-send", f"{to}:{PORT}", seconds + 5, 131_072]
    return program(name, node, words, AFTER.replace("sink", after))


def delay(table, repetitions, short):
    """One-way delay error: kernel's arrival stamp less sender's stamp less the link's delay."""
    seconds = 1 if short else 2.5
    modes = {
        "ordinary": "realtime = false",
        "real-time": "realtime = true",
        "real-time, high": 'realtime = true\nprecision = "high"',
    }

    def figures(errors):
        shares = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
        found = {name: percentile(errors, share) / 1000 for name, share in shares.items()}
        return {**found, "max": max(errors) / 1000}

    for _ in range(repetitions):
        wake_ups(table, seconds)
        for rate in (1_000, 10_000):
            packets = f"{rate // 1000}k/s"
            delays, sender = peers.veth_delays(rate, seconds)
            table.ours_all("delay", f"veth, {packets}", "us", figures(delays[10:]))
            table.stalls("delay", f"veth, {packets}", sender)
            for path, mode in itertools.product((1, 10, 50), modes):
                lab = two_hosts(f'delay = "{path} ms"', modes[mode])
                receiver = [PROBE, "udp-receive", 9000, seconds]
                lab += program("sink", "b", receiver, 'ready = "udp port 9000"\nservice = false')
                lab += program("source", "a", [PROBE, "udp-send", "b:9000", rate, seconds], AFTER)
                run = labs.run(lab)
                arrived, sent = run.result("sink")["delays_ns"], run.result("source")
                what = f"{path} ms, {packets}, {mode}"
                if len(arrived) < 0.9 * sent["sent"]:
                    raise Failure(f"{what}: {len(arrived)} of {sent['sent']} packets arrived")
                errors = figures([one - path * 1_000_000 for one in arrived[10:]])
                must = {"ordinary": {"p50": 50}, "real-time": {"p99": 150}}
                table.ours_all("delay", what, "us", errors, must.get(mode, {}))
                table.stalls("delay", what, sent)


def wake_ups(table, seconds):
    """Lateness of a thread, and of the first of two on two CPUs, in pairs."""
    for threads, what in ((1, "one thread"), (2, "first of two threads")):
        found = last_json(run([PROBE, "wake-ups", threads, seconds]))
        cpu = found.pop("cpu_s")
        late = {name: nanos / 1000 for name, nanos in found.items()}
        table.ours_all("delay", f"wake-up, {what}", "us", late)
        table.ours("delay", f"wake-up, {what}", "CPU", "s", cpu)


# By Mbit/s: receive buffer (0: the kernel's choice) and queue in packets. The window lies between
# the bandwidth-delay product and that plus the queue: always busy, never a loss.
RATES = {
    1: (32_768, 2000),
    10: (131_072, 2000),
    100: (262_144, 2000),
    1000: (524_288, 2000),
    5000: (0, 4000),
}
QUEUE = 2000


def rate(table, repetitions, short):
    """Goodput of one CUBIC flow, as a share of the exact value."""
    seconds = 4 if short else 7
    warm_up = 1 if short else 2

    def figures(logs, bits):
        goodput = Goodput(logs, warm_up)
        return goodput.mean / exact(bits) * 100, goodput.deviation * 100

    for _ in range(repetitions):
        for megabits, (window, queue) in RATES.items():
            bits = megabits * 1_000_000
            what = f"{megabits} Mbit/s"
            link = f'rate = "{megabits} Mbit/s"\ndelay = "1 ms"\nqueue = "{queue} packets"'
            run = labs.run(two_hosts(link) + sink(seconds, window) + source(seconds))
            ours = figures([run.result("sink")["log"]], bits)
            others = {"TBF": lambda: peers.tbf(bits, seconds, window, 1, queue * 1538)}
            if megabits <= 1000 or not short:
                others["Rattan"] = lambda: peers.rattan_tcp(bits, "1ms", seconds, window, queue)
            for name, measure in others.items():
                values = table.attempt(name, lambda: figures(measure(), bits))
                for value, part in zip(values or (), ("share", "deviation")):
                    table.peer("rate", f"{what} {name}", part, "%", value)
            beside = [(f"{what} {name}", "share") for name in others]
            table.ours("rate", what, "share", "%", ours[0], *beside, within=(99.5, 100.5))
            beside = [(f"{what} {name}", "deviation") for name in others]
            table.ours("rate", what, "deviation", "%", ours[1], *beside, at_most=1)
            table.ours("rate", what, "data path", "cores", run.cores())


def round_trip(table, repetitions, short):
    """ping over 20 ms in each direction: jitter."""
    count = 50 if short else 200
    ping = ["ping", "-q", "-c", count, "-i", "0.01"]

    def figures(text):
        times = re.search(r"= [\d.]+/([\d.]+)/[\d.]+/([\d.]+) ms", text)
        if not times:
            raise Failure("ping: " + text.strip())
        return float(times[1]), float(times[2])

    for _ in range(repetitions):
        run = labs.run(two_hosts('delay = "20 ms"') + program("ping", "a", [*ping, "b"]))
        line = " ".join(str(word) for word in ping)
        values = table.attempt(
            "Rattan", lambda: figures(peers.rattan(f"{line} $RATTAN_BASE", "20ms")[0])
        )
        for value, part in zip(values or (), ("mean", "spread")):
            table.peer("rtt", "Rattan", part, "ms", value)
        mean, spread = figures(run.outputs["ping"])
        table.ours("rtt", "20 ms each way", "mean", "ms", mean, ("Rattan", "mean"))
        table.ours(
            "rtt", "20 ms each way", "spread", "ms", spread, ("Rattan", "spread"), at_most=0.07
        )


def throughput(table, repetitions, short):
    """Max throughput of TCP: super-packets compared with veth, single segments with a loop."""
    seconds = 2 if short else 4
    words = [sys.executable, PROBES / "offloads_off.py", "eth0"]
    single = "".join(program(f"single-{node}", node, words) for node in "ab")
    kinds = {
        "no limit": ("", "", "veth"),
        "split to single MTUs": ('rate = "100 Gbit/s"\nqueue = "100000 packets"', "", "loop"),
        "single MTUs in and out": ("", single, "loop"),
    }
    for _ in range(repetitions):
        value = table.attempt("veth", lambda: Goodput(peers.veth_tcp(seconds), 0.9).mean / 1e9)
        if value:
            table.peer("throughput", "veth", "goodput", "Gbit/s", value)
        loop = table.attempt("loop", lambda: peers.copy_loop(seconds))
        if loop:
            value = Goodput(loop[0], 0.9).mean / 1e9
            table.peer("throughput", "loop", "goodput", "Gbit/s", value)
            table.peer(
                "throughput", "loop", "relay", "us/packet", loop[1]["cpu_ns"] / loop[1]["packets"] / 1e3
            )
        for what, (link, more, peer) in kinds.items():
            # Time to change the devices before the first connection.
            later = 'start = "200 ms"\n' if more else ""
            run = labs.run(two_hosts(link) + more + sink(seconds) + source(seconds) + later)
            value = Goodput([run.result("sink")["log"]], 0.9).mean / 1e9
            # With offloads off in the hosts, most of the cost is that of their network stacks.
            must = {} if more else {"ratio": 0.9}
            table.ours("throughput", what, "goodput", "Gbit/s", value, (peer, "goodput"), **must)
            packets = sum(link["sent_packets"] for link in run.record["links"])
            table.ours(
                "throughput", what, "data path", "us/packet",
                run.record["host"]["cpu_s"] / packets * 1e6, ("loop", "relay"),
            )


def chain(hops, core):
    """Two pairs of hosts at the ends of a chain of links: the first and last are fast."""
    text = '[lab]\nname = "bench"\nduration = "60 s"\n'
    routers = [f"r{n}" for n in range(1, hops)]
    text += "".join(f'[node.{name}]\nkind = "router"\n' for name in routers)
    for pair in (1, 2):
        text += f"[node.a{pair}]\n[node.b{pair}]\n"
        for ends in ((f"a{pair}", routers[0]), (routers[-1], f"b{pair}")):
            text += f'[[link]]\nends = ["{ends[0]}", "{ends[1]}"]\nrate = "10 Gbit/s"\n'
            text += 'delay = "100 us"\nqueue = "4000 packets"\n'
    for ends in zip(routers, routers[1:]):
        text += f'[[link]]\nends = ["{ends[0]}", "{ends[1]}"]\n{core}\n'
    return text


def dumbbell(table, repetitions, short):
    """Two CUBIC flows over four hops with a core of 1 Gbit/s."""
    seconds = 4 if short else 7
    warm_up = 1 if short else 2
    bits, window = 1_000_000_000, 524_288
    core = f'rate = "1 Gbit/s"\ndelay = "500 us"\nqueue = "{QUEUE} packets"'
    flows = ""
    for pair in (1, 2):
        flows += sink(seconds, window, f"b{pair}", f"sink{pair}")
        flows += source(seconds, f"b{pair}", f"a{pair}", f"source{pair}", f"sink{pair}")

    def logs(run):
        return [run.result(f"sink{pair}")["log"] for pair in (1, 2)]

    def packets(run):
        """Packets delivered to hosts."""
        links = run.record["links"]
        return sum(link["sent_packets"] for link in links if link["to"][0] in "ab")

    for _ in range(repetitions):
        costs = {}
        for hops in (4, 2):
            text = chain(hops, core)
            if hops == 2:
                text = text.replace('"10 Gbit/s"', '"500 Mbit/s"')
            before = cpu_seconds()[0]
            began = time.monotonic()
            run = labs.run(text + flows)
            busy = (cpu_seconds()[0] - before) / (time.monotonic() - began)
            costs[hops] = run.record["host"]["cpu_s"] / packets(run) * 1e6
            if hops == 4:
                share = Goodput(logs(run), warm_up).mean / exact(bits) * 100
                ours, whole = run, busy

        def kernel():
            before, began = cpu_seconds()[0], time.monotonic()
            found = Goodput(peers.tbf(bits, seconds, window, 2, QUEUE * 1538), warm_up)
            busy = (cpu_seconds()[0] - before) / (time.monotonic() - began)
            return found.mean / exact(bits) * 100, busy

        values = table.attempt("TBF", kernel)
        for value, (part, unit) in zip(values or (), (("share", "%"), ("whole machine", "cores"))):
            table.peer("dumbbell", "TBF", part, unit, value)
        what = "four hops, 1 Gbit/s"
        table.ours("dumbbell", what, "share", "%", share, ("TBF", "share"), at_least=99.5)
        table.ours("dumbbell", what, "data path", "cores", ours.cores(), at_most=0.7)
        table.ours("dumbbell", what, "whole machine", "cores", whole, ("TBF", "whole machine"))
        table.ours("dumbbell", what, "data path", "us/packet", costs[4])
        table.ours("dumbbell", what, "per hop", "us", (costs[4] - costs[2]) / 2)


def hosts(table, repetitions, short):
    """A star of a thousand hosts: up, down, memory."""
    count = 200 if short else 1000
    few = 20 if short else 100
    scale = count / few
    for _ in range(repetitions):
        up, down, kernel, slab, own = star(count)
        for name, measure in (("Mininet", peers.mininet), ("ip netns", peers.ip_loop)):
            settle()
            found = table.attempt(name, lambda: measure(few))
            if found:
                beside = f"{name} ({few} hosts x {scale:.0f})"
                table.peer("hosts", beside, "up", "s", found["up_s"] * scale)
                table.peer("hosts", beside, "down", "s", found["down_s"] * scale)
                if "memory_kb" in found:
                    table.peer("hosts", beside, "kernel", "MB/host", found["memory_kb"] / few / 1024)
        names = [f"{name} ({few} hosts x {scale:.0f})" for name in ("Mininet", "ip netns")]
        what = f"{count} hosts"
        limits = {"up": (up, "s", 2), "down": (down, "s", 1), "kernel": (kernel, "MB/host", 0.4)}
        limits["own"] = (own, "MB/host", 0.1)
        limits["slab alone"] = (slab, "MB/host", None)
        for part, (value, unit, must) in limits.items():
            table.ours("hosts", what, part, unit, value, *[(name, part) for name in names], at_most=must)


def star(count):
    """Seconds up and down; MB a host of the kernel's, of its slab's and of our own memory."""
    text = f"""
[lab]
name = "bench"
duration = "60 s"
[[generate]]
kind = "star"
hosts = {count}
hub = "router"
link = {{ rate = "100 Mbit/s", delay = "1 ms" }}
"""
    last = ["sh", "-c", "date +%s%N; exec sleep 60"]
    text += program("last", f"h{count}", last, 'exit = "any"')
    with folder() as place:
        lab = Path(place) / "lab.toml"
        lab.write_text(text)
        runs = Path(place) / "runs"
        settle()
        free, slab = memory_kb("MemAvailable", "Slab")
        began = time.time_ns()
        process = start(labs.command(lab, runs), cwd=place)
        try:
            stamp = ""
            while not stamp.endswith("\n"):
                if process.poll() is not None or time.time_ns() - began > 60e9:
                    raise Failure(f"the star did not come up: {process.stderr.read()[-300:]}")
                time.sleep(0.005)
                for path in runs.glob("*/programs/last/stdout"):
                    stamp = path.read_text()
            time.sleep(1)
            free_now, slab_now = memory_kb("MemAvailable", "Slab")
            own = sum(private_kb(pid) for pid in family(process.pid))
            ended = time.monotonic()
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
            down = time.monotonic() - ended
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    sizes = (free - free_now - own, slab_now - slab, own)
    return (int(stamp) - began) / 1e9, down, *(size / count / 1024 for size in sizes)


ROWS = {
    "delay": delay,
    "rate": rate,
    "rtt": round_trip,
    "throughput": throughput,
    "dumbbell": dumbbell,
    "hosts": hosts,
    **shares.ROWS,
    **virtual.ROWS,
    **ratecontrol.ROWS,
    **collector.ROWS,
    **bundle.ROWS,
    **multipath.ROWS,
    **cluster.ROWS,
    **trunk.ROWS,
    **package.ROWS,
    **watchers.ROWS,
}
