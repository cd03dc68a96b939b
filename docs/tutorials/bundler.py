# %% [markdown]
# # Bundler: moving a queue to where you control it
#
# Your site sends requests and a backup to another site. The bottleneck is somewhere in the
# provider's network, where you cannot configure a queue. [Bundler](../concepts/bundler.md) limits
# the traffic of the site to just below the rate of the bottleneck, so that the queue builds up at
# your edge. There you schedule it.

# %%
import matplotlib.pyplot as plt
import netarium as nt

net = nt.Lab("bundler", duration="12 s", seed=1)
net.hosts("office", "backup", "branch")
net.sendbox("send")
net.receivebox("receive")
net.routers("r1", "r2")
for a, b in (("office", "send"), ("backup", "send"), ("send", "r1")):
    net.link(a, b, rate="1 Gbit/s")
for a, b in (("r2", "receive"), ("receive", "branch")):
    net.link(a, b, rate="1 Gbit/s")
net.link("r1", "r2", name="middle", rate="24 Mbit/s", delay="25 ms", queue="2 bdp")
net.bundle("send", "receive", name="sites", scheduler="sfq")
net.flow("backup", "branch", name="backup", control="cubic", start="1 s")
net.flow("office", "branch", name="requests", control="cubic", think={"exponential": "20 ms"});

# %% [markdown]
# In mode `observe` the gateways only measure: this is the network without Bundler. Compare it with
# mode `enforce`:

# %%
runs = {mode: net.sim(set={"bundle.sites.mode": mode}) for mode in ("observe", "enforce")}
for mode, run in runs.items():
    value = {name: metric.value for name, metric in run.metrics.items()}
    print(
        f"{mode:8} requests: median {value['flow.requests.latency.p50'] * 1e3:.0f} ms,"
        f" p90 {value['flow.requests.latency.p90'] * 1e3:.0f} ms;"
        f" backup {value['flow.backup.goodput.mean'] / 1e6:.1f} Mbit/s"
    )

# %% [markdown]
# The RTT without queues is 50 ms. The queue has not disappeared. It has moved from the router in
# the middle to the sendbox:

# %%
figure, axes = plt.subplots(1, 2, sharey=True)
for axis, (mode, run) in zip(axes, runs.items()):
    middle = [row for row in run.links if row.link == "middle" and row.direction == "up"]
    for rows, column, label in (
        (middle, "queue_max_bytes", "bottleneck"),
        (run.bundles, "backlog_bytes", "sendbox"),
    ):
        axis.plot([r.time_ns / 1e9 for r in rows], [r[column] / 1e3 for r in rows], label=label)
    axis.set(xlabel="time [s]", ylabel="queue [kB]")
    axis.legend()
    axis.set_title(f"Queues in mode {mode}")

# %% [markdown]
# A queue at the edge alone helps no one: a first-in, first-out queue there delays requests as much
# as one in the middle. The scheduler makes the difference:

# %%
for row in nt.sweep(net, {"bundle.sites.scheduler": ["droptail", "sfq", "fq-codel"]}):
    median, p90 = (row[f"flow.requests.latency.{name}"] * 1e3 for name in ("p50", "p90"))
    print(f"{row['bundle.sites.scheduler']:9} median {median:.0f} ms, p90 {p90:.0f} ms")

# %% [markdown]
# The gateways measure the rate of the bottleneck; nobody configures it. Halve it while the lab
# runs, and watch the sendbox follow:

# %%
changing = net.copy()
changing.at("6 s", link="middle", set={"rate": "12 Mbit/s"})
run = changing.sim()
figure, axis = plt.subplots()
for column in ("rate_bps", "receive_rate_bps"):
    points = [(r.time_ns / 1e9, r[column] / 1e6) for r in run.bundles if r[column] is not None]
    axis.plot(*zip(*points), label=column.removesuffix("_bps"))
axis.set(xlabel="time [s]", ylabel="rate [Mbit/s]")
axis.legend()
axis.set_title("Rates of the bundle, bottleneck halved at 6 s");
