# %% [markdown]
# # TCP fairness and round-trip times
#
# Two TCP connections share a link. Do they get the same rate? The answer depends on their
# round-trip times (RTT) and on their congestion control.

# %%
import matplotlib.pyplot as plt
import netarium as nt


def lab(near, far, queue="1 bdp"):
    """Two senders with different round-trip times share a link of 10 Mbit/s."""
    net = nt.Lab("fairness", duration="30 s", interval="1 s")
    net.hosts("near", "far", "receiver")
    net.router("r")
    net.link("near", "r", delay="1 ms")
    net.link("far", "r", name="distance", delay="31 ms")
    net.link("r", "receiver", name="shared", rate="10 Mbit/s", delay="9 ms", queue=queue)
    net.flow("near", "receiver", name="near", control=near)
    net.flow("far", "receiver", name="far", control=far)
    return net


goodput = ["flow.near.goodput.mean", "flow.far.goodput.mean"]


def goodputs(run):
    return [run.metrics[name].value / 1e6 for name in goodput]


# %% [markdown]
# The RTT without a queue is 20 ms for `near` and 80 ms for `far`. Reno adds one packet to its
# window in each round trip, so that the connection with the shorter RTT grows faster:

# %%
reno = lab("reno", "reno").sim(seed=1)
near, far = goodputs(reno)
print(f"near {near:.1f} Mbit/s, far {far:.1f} Mbit/s: {near / far:.1f} to 1")
figure, axis = plt.subplots()
reno.plot.goodput(ax=axis)
axis.set_title("Reno: the nearer sender wins");

# %% [markdown]
# ## Congestion controllers
#
# CUBIC's window grows with time instead of round trips, and BBR estimates the rate of the link.
# Compare them with three seeds each:

# %%
for control in ("reno", "cubic", "bbr"):
    runs = nt.sweep(lab(control, control), {}, seeds=range(3))
    near, far = (row.mean / 1e6 for row in nt.summary(runs, *goodput))
    print(f"{control:6} near {near:5.2f}, far {far:5.2f} Mbit/s, ratio {near / far:.2f}")

# %% [markdown]
# ## The queue decides too
#
# The queueing delay is a part of both RTTs. The longer the queue, the more similar the RTTs and
# the fairer is Reno. The price is delay:

# %%
sizes = ["0.25 bdp", "1 bdp", "4 bdp"]
table = nt.sweep(lab("reno", "reno"), {"link.shared.queue": sizes}, seeds=range(3))
for size in sizes:
    rows = table.where({"link.shared.queue": size})
    means = {row.metric: row.mean for row in nt.summary(rows)}
    near, far, rtt = (means[name] for name in (*goodput, "flow.near.rtt.p50"))
    print(f"{size:9} ratio {near / far:.2f}, median RTT of near {rtt * 1e3:.0f} ms")

# %% [markdown]
# ## Different controllers on one link
#
# Fairness between equal controllers says nothing about different ones. Here both have the same
# RTT, and one of them uses BBR:

# %%
figure, axes = plt.subplots(1, 2, sharey=True)
for axis, queue in zip(axes, ("0.5 bdp", "8 bdp")):
    net = lab("cubic", "bbr", queue)
    run = net.sim(seed=1, set={"link.distance.delay": "1 ms"})
    cubic, bbr = goodputs(run)
    print(f"{queue}: CUBIC {cubic:.1f} Mbit/s, BBR {bbr:.1f} Mbit/s")
    run.plot.goodput(ax=axis)
    axis.set_title(f"near: CUBIC, far: BBR, queue {queue}")

# %% [markdown]
# A queue for each flow ends the contest. Stochastic fair queueing serves both in turn, whatever
# their RTT or controller:

# %%
near, far = goodputs(lab("reno", "reno", "sfq").sim(seed=1))
print(f"SFQ: near {near:.2f} Mbit/s, far {far:.2f} Mbit/s")
