"""The rows of the virtual clock: the speed of `netarium sim`, compared with simulators."""

import labs
import simulators
from machine import PROBE, Failure, last_json, run
from networks import Mesh, permutation

# Overhead of a packet on a point-to-point link in ns-3; ours is set to the same value.
OVERHEAD = "2 B"
# Ours is compared with the faster one, if it is installed.
NS3 = ("ns-3 optimized", "ns-3")
SHADOW = 12


def head(name, duration, more=""):
    return f'[lab]\nname = "{name}"\nduration = "{duration} s"\noverhead = "{OVERHEAD}"\n{more}\n'


def link(a, b, rate, delay, queue):
    return (
        f'[[link]]\nends = ["{a}", "{b}"]\nrate = "{rate} Mbit/s"\ndelay = "{delay}"\n'
        f'queue = "{queue} packets"\n'
    )


def flow(a, b, start="0 s"):
    return f'[[flow]]\nfrom = "{a}"\nto = "{b}"\ncontrol = "cubic"\nstart = "{start}"\n'


def beside_ns3(table, row, what, ours, source, words, text=None):
    """Packet-hops in a second, and goodput, of a lab, and of ns-3 for the same lab in fewer
    virtual seconds: its rate is the same in each of them."""
    mine, record = labs.simulate(ours)
    for name in NS3:
        found = table.attempt(name, lambda: simulators.simulate(name, source, *words, text=text))
        if found:
            table.peer(row, name, "packet-hops", "/s", found["packet_hops"] / found["wall_s"])
            table.peer(row, name, "of processor", "/s", found["packet_hops"] / found["cpu_s"])
            table.peer(row, name, "goodput", "Gbit/s", found["goodput_bits_per_s"] / 1e9)
            table.peer(row, name, "events", "/s", found["events"] / found["wall_s"])
            bits = found["goodput_bits_per_s"] * found["virtual_s"]
            share = hops_a_kilobyte(found["packet_hops"], bits)
            table.peer(row, name, "hops a kB", "", share)
    goodput = sum(one["received_bytes"] for one in record["flows"]) * 8
    hops = mine["packet_hops"] / mine["wall_s"]

    def others(part):
        return [(name, part) for name in NS3 if (row, name, part) in table.peers]

    table.ours(row, what, "packet-hops", "/s", hops, *others("packet-hops"), ratio=20)
    table.ours(row, what, "alone", "/s", hops, at_least=5e6)
    busy = mine["packet_hops"] / mine["cpu_s"]
    table.ours(row, what, "of processor", "/s", busy, *others("of processor"))
    table.ours(row, what, "events", "/s", mine["events_per_s"], *others("events"))
    seconds = record["elapsed_s"]
    table.ours(row, what, "goodput", "Gbit/s", goodput / seconds / 1e9, *others("goodput"))
    share = hops_a_kilobyte(mine["packet_hops"], goodput)
    table.ours(row, what, "hops a kB", "", share, *others("hops a kB"))
    table.ours(row, what, "speed", "x real time", mine["speed_factor"])


def hops_a_kilobyte(packet_hops, bits):
    """Equal if both sides simulate the same: packets of one size, paths of one length and the
    same number of acknowledgements."""
    return packet_hops / (bits / 8000)


def dumbbell(table, repetitions, short):
    """32 CUBIC flows over a simulated dumbbell, 1 Gbit/s, on one core."""
    count, queue = 32, 1000
    seconds, theirs = (5, 1) if short else (60, 10)
    lab = head("dumbbell", seconds)
    lab += '[node.r1]\nkind = "router"\n[node.r2]\nkind = "router"\n'
    lab += link("r1", "r2", 1000, "8 ms", queue)
    for n in range(count):
        lab += f"[node.a{n}]\n[node.b{n}]\n"
        lab += link(f"a{n}", "r1", 10_000, "1 ms", queue)
        lab += link("r2", f"b{n}", 10_000, "1 ms", queue)
        lab += flow(f"a{n}", f"b{n}", f"{n} ms")
    words = [count, theirs, "10Gbps", "1ms", "1Gbps", "8ms", queue]
    for _ in range(repetitions):
        what = f"{count} flows, {seconds} s"
        beside_ns3(table, "sim-dumbbell", what, lab, "dumbbell", words)


def fat_tree(table, repetitions, short):
    """A fat tree of 128 hosts, each sending to one other, on one core."""
    k, rate, queue = 8, 1000, 100
    seconds, theirs = (0.05, 0.01) if short else (1, 0.05)
    half = k // 2
    lab = head("fat-tree", seconds)
    spec = f'{{ rate = "{rate} Mbit/s", delay = "10 us", queue = "{queue} packets" }}'
    lab += f'[[generate]]\nkind = "fat-tree"\nk = {k}\nlink = {spec}\n'
    pairs = list(enumerate(permutation(k * half * half)))
    place = [
        f"h{pod}-{edge}-{host}"
        for pod in range(1, k + 1)
        for edge in range(1, half + 1)
        for host in range(1, half + 1)
    ]
    lab += "".join(flow(place[a], place[b]) for a, b in pairs)
    text = "".join(f"{a} {b}\n" for a, b in pairs)
    for _ in range(repetitions):
        words = [k, theirs, f"{rate}Mbps", "10us", queue]
        what = f"{len(pairs)} flows, {seconds} s"
        beside_ns3(table, "sim-fat-tree", what, lab, "fattree", words, text)


def one_flow(table, repetitions, short):
    """One flow at 100 Mbit/s over a round trip of 50 ms, for 20 virtual seconds."""
    lab = head("one-flow", 20) + "[node.a]\n[node.b]\n"
    lab += link("a", "b", 100, "25 ms", 1000) + flow("a", "b")
    for _ in range(repetitions):
        table.peer("sim-flow", "Shadow (as measured elsewhere)", "speed", "x", SHADOW)
        mine, record = labs.simulate(lab)
        goodput = record["flows"][0]["received_bytes"] * 8 / record["elapsed_s"]
        beside = ("Shadow (as measured elsewhere)", "speed")
        speed = mine["speed_factor"]
        table.ours("sim-flow", "20 s", "speed", "x real time", speed, beside, at_least=500)
        table.ours("sim-flow", "20 s", "of processor", "x", 20 / mine["cpu_s"])
        table.ours("sim-flow", "20 s", "goodput", "Mbit/s", goodput / 1e6)
        table.ours("sim-flow", "20 s", "packet-hops", "/s", mine["packet_hops"] / mine["wall_s"])


def fluid(table, repetitions, short):
    """10,000 flows that start and end on 1,000 routers, as rates."""
    flows = 2000 if short else 10_000
    loads = {"some dozens at once": (1000, 5e6, None), "some hundreds at once": (1000, 1e7, 5)}
    for what, (per_second, size, ratio) in loads.items():
        mesh = Mesh(1000, flows, per_second, size)
        lab, text = mesh.lab(), mesh.simgrid(PAYLOAD)
        for _ in range(repetitions):
            mine, record = labs.simulate(lab)
            theirs = table.attempt("SimGrid", lambda: simulators.simulate(
                "simgrid", "fluid", text=text))
            for part, unit, key in (("flows", "/s", None), ("until", "virtual s", "virtual_s")):
                if theirs:
                    value = theirs[key] if key else flows / theirs["wall_s"]
                    table.peer("sim-fluid", f"{what} SimGrid", part, unit, value)
            beside = f"{what} SimGrid"
            rate = flows / mine["wall_s"]
            table.ours("sim-fluid", what, "flows", "/s", rate, (beside, "flows"), ratio=ratio)
            until = record["elapsed_s"]
            table.ours("sim-fluid", what, "until", "virtual s", until, (beside, "until"))


# Ratio of a segment's payload to its bytes on the wire.
PAYLOAD = 1448 / 1538


def memory(table, repetitions, short):
    """Memory of an idle flow and of a packet in flight."""
    limits = {"flows": (1024, "idle flow", 5_000), "packets": (128, "packet in flight", 300_000)}
    for _ in range(repetitions):
        for verb, (limit, what, theirs) in limits.items():
            count = theirs // 5 if short else theirs
            found = table.attempt(
                "ns-3", lambda: simulators.simulate("ns-3", "memory", verb, count))
            if found:
                table.peer("sim-memory", "ns-3", what, "B", found["bytes_each"])
            mine = last_json(run([PROBE, "memory", verb, 10 * count]))
            beside = [("ns-3", what)] if found else []
            table.ours("sim-memory", "each", what, "B", mine["bytes_each"], *beside, at_most=limit)


def models(table, repetitions, short):
    """The cost of a hop, and the savings of a collapsed path: UDP over lines of routers."""
    packets = 100_000 if short else 1_000_000
    for _ in range(repetitions):
        for links in (1, 4, 16):
            lab = "".join(f'[node.n{n}]\nkind = "{"router" if 0 < n < links else "host"}"\n'
                          for n in range(links + 1))
            lab += "".join(link(f"n{n}", f"n{n + 1}", 1000, "1 ms", 1000) for n in range(links))
            lab += (
                f'[[flow]]\nfrom = "n0"\nto = "n{links}"\ntransport = "udp"\npacket = "1000 B"\n'
                f'rate = "800 Mbit/s"\nsize = "{packets} kB"\n'
            )
            for model in ("hop", "collapsed"):
                mine, record = labs.simulate(head("line", 60, f'model = "{model}"') + lab)
                arrived = record["flows"][0]["received_bytes"] // 1000
                if arrived != packets:
                    raise Failure(f"{arrived} of {packets} packets arrived")
                each = mine["cpu_s"] / packets * 1e9
                what = f"{links} link{'s' if links > 1 else ''}, {model}"
                table.ours("sim-models", what, "a packet", "ns", each)


def start(table, repetitions, short):
    """Time to read a lab of 10,000 nodes and to route the packets of one of its flows."""
    routers = 500 if short else 5_000
    lab = (
        f'[[generate]]\nkind = "barabasi-albert"\nrouters = {routers}\nlinks = 2\nhosts = 1\n'
        + flow("h1", f"h{routers}") + 'size = "10 kB"\n'
    )
    for _ in range(repetitions):
        mine, _ = labs.simulate(head("start", 1) + lab)
        what = f"{2 * routers} nodes"
        table.ours("sim-start", what, "processor time", "s", mine["cpu_s"], at_most=1)


ROWS = {
    "sim-dumbbell": dumbbell,
    "sim-flow": one_flow,
    "sim-fat-tree": fat_tree,
    "sim-fluid": fluid,
    "sim-memory": memory,
    "sim-models": models,
    "sim-start": start,
}
