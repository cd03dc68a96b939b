# %% [markdown]
# # Max-min fairness and SLBN
#
# Which rates are fair if connections cross different links? *Max-min fairness* says: no connection
# can have more unless one with an equal or lower rate has less. This tutorial computes such rates,
# and lets the protocol SLBN find them with three numbers per link.

# %% [markdown]
# ## Water-filling
#
# All rates rise together. When a link is full, its connections keep their rate, and the others go
# on. This is the whole algorithm:

# %%
def max_min(capacity, paths):
    """The max-min fair rate of each connection; `paths` has the links of each."""
    rates, left = {}, dict(capacity)
    while len(rates) < len(paths):
        active = [name for name in paths if name not in rates]
        users = {link: [name for name in active if link in paths[name]] for link in left}
        share, link = min((left[link] / len(names), link) for link, names in users.items() if names)
        for name in users[link]:
            rates[name] = share
            for crossed in paths[name]:
                left[crossed] -= share
    return rates


capacity = {"west": 30.0, "east": 100.0}
paths = {"a": ["west"], "b": ["west"], "long": ["west", "east"], "c": ["east"]}
fair = max_min(capacity, paths)
print(fair)

# %% [markdown]
# The link `west` is full first; its three connections get a third each. Connection `c` gets what
# they leave at the link `east`.
#
# ## The same network as a lab
#
# [SLBN](../papers/slbn.md) is explicit rate control: sources send small control packets, and links
# answer with the rate that they can assign. A link stores three integers, independent of the number
# of sessions.

# %%
import matplotlib.pyplot as plt
import netarium as nt

net = nt.Lab("maxmin", duration="3 s", interval="20 ms", seed=1)
net.control(protocol="slbn")
net.routers("r1", "r2", "r3")
net.link("r1", "r2", name="west", rate="30 Mbit/s", delay="5 ms")
net.link("r2", "r3", name="east", rate="100 Mbit/s", delay="5 ms")
ends = {"a": ("r1", "r2"), "b": ("r1", "r2"), "long": ("r1", "r3"), "c": ("r2", "r3")}
for number, (name, (first, last)) in enumerate(ends.items()):
    for host, router in ((f"{name}-from", first), (f"{name}-to", last)):
        net.host(host)
        net.link(host, router, rate="1 Gbit/s", delay="1 ms")
    keys = {"transport": "udp", "control": "slbn", "start": f"{500 * number} ms"}
    net.flow(f"{name}-from", f"{name}-to", name=name, **keys)
run = net.sim()
for row in run.sessions:
    print(f"{row.population:5} {row.rate_bps / 1e6:.2f}, fair {row.fair_bps / 1e6:.2f} Mbit/s")

# %%
figure, axis = plt.subplots()
run.plot.goodput(ax=axis)
axis.set_title("SLBN: four sessions join one after the other");

# %% [markdown]
# The goodput is a few percent below the assigned rate: headers and control packets have their
# share. Each time a session joins, the others give way within a few round trips.
#
# ## Two thousand sessions
#
# The same on a random network of routers, with two thousand sessions of which half leave. The
# table `control` has the error of all assigned rates against the exact ones:

# %%
big = nt.Lab("many", duration="4 s", model="fluid", interval="20 ms", seed=1)
big.control(protocol="slbn")
big.generate("transit-stub", transit_domains=2, transit_routers=5, link={"queue": "unlimited"})
times = {"start": ["0 s", "500 ms"], "leave": ["2 s", "2.2 s"], "leave_count": 1000}
big.sessions("all", count=2000, routers="s*", **times)
run = big.sim()
figure, axis = plt.subplots()
rows = [row for row in run.control if row.source_error_abs is not None]
axis.plot([r.time_ns / 1e9 for r in rows], [100 * r.source_error_abs for r in rows])
axis.set(xlabel="time [s]", ylabel="mean error [%]")
axis.set_title("Assigned rates: sessions join until 0.5 s, half leave from 2 s")
print(f"converged {run.metrics['control.convergence'].value * 1e3:.0f} ms after the last change")
