# %% [markdown]
# # Bufferbloat and queue management
#
# A home connection sends 10 Mbit/s, and its modem has a large buffer. You upload a file while you
# use a web application. This tutorial shows why the application becomes slow, and what a better
# queue changes. All labs run on the virtual clock.

# %%
import matplotlib.pyplot as plt
import netarium as nt

net = nt.Lab("bufferbloat", duration="20 s", seed=1)
home, server = net.hosts("home", "server")
net.link(home, server, name="uplink", rate="10 Mbit/s", delay="20 ms", queue="400 packets")
net.flow(home, server, name="upload", control="cubic", start="1 s")
request = {"request": "100 B", "response": "1 kB", "interval": "100 ms"}
net.flow(home, server, name="app", control="cubic", **request)
run = net.sim()
run

# %% [markdown]
# The upload starts after 1 s. Plot the queue of the link and the round-trip time of the upload:

# %%
figure, (left, right) = plt.subplots(1, 2)
run.plot.queue(ax=left)
run.plot.rtt(ax=right)
right.set_title("A full buffer delays each packet");

# %% [markdown]
# CUBIC reduces its rate only after a loss, and a droptail queue drops only when it is full. So the
# upload fills the buffer, and each packet waits for all packets before it. The delay of a full
# buffer is its size divided by the rate:

# %%
rate = 10e6
print(f"400 packets of 1514 B: {400 * 1514 * 8 / rate * 1e3:.0f} ms")
rtts = [row.rtt_ns / 1e6 for row in run.flows if row.flow == "upload" and row.rtt_ns]
print(f"largest smoothed RTT: {max(rtts):.0f} ms, without a queue: 40 ms")

# %% [markdown]
# ## A smaller buffer
#
# A small buffer is no remedy: the queue has to absorb bursts. Compare buffer sizes, with five
# seeds for each. `nt.summary` computes the mean over the seeds and its 95 % confidence interval:

# %%
sizes = ["10 packets", "40 packets", "100 packets", "400 packets"]
table = nt.sweep(net, {"link.uplink.queue": sizes}, seeds=range(5))
goodput, latency = "flow.upload.goodput.mean", "flow.app.latency.p50"
for row in nt.summary(table, goodput, latency):
    value = f"{row.mean:.4g} {row.unit}, from {row.low:.4g} to {row.high:.4g}"
    print(f"{row['link.uplink.queue']:12} {row.metric:25} {value}")

# %% [markdown]
# The smallest buffer costs goodput, the largest one costs time: there is no right size for all
# rates and delays.

# %% [markdown]
# ## A queue that measures delay
#
# CoDel drops a packet when all packets of the last 100 ms have waited more than 5 ms, independent
# of the buffer's size. FQ-CoDel also has a queue for each flow, so that the application does not wait behind the
# upload.

# %%
queues = ["400 packets", "codel", "fq-codel"]
table = nt.sweep(net, {"link.uplink.queue": queues}, seeds=range(5))
for queue in queues:
    rows = table.where({"link.uplink.queue": queue})
    upload, waiting = (nt.Interval.of(rows.column(name)) for name in (goodput, latency))
    print(f"{queue:12} {upload.mean / 1e6:.2f} Mbit/s, median {waiting.mean * 1e3:.1f} ms")

# %% [markdown]
# Is the difference real? Compare runs with the same seed, so that the variation which the seed
# causes in both cancels out. The difference is significant if its interval does not contain 0:

# %%
plain, fair = (table.where({"link.uplink.queue": queue}) for queue in ("codel", "fq-codel"))
found = nt.paired(plain, fair, latency)
mean, low, high = (1e3 * value for value in (found.mean, found.low, found.high))
print(f"FQ-CoDel minus CoDel: {mean:.2f} ms, from {low:.2f} to {high:.2f} ms")
print(f"seeds for ±1 % of the latency: {nt.Interval.of(plain.column(latency)).needed('1 %')}")

# %%
figure, axis = plt.subplots()
for queue in queues:
    run = nt.Run(table.where({"link.uplink.queue": queue})[0].folder)
    rows = [row for row in run.flows if row.flow == "app" and row.latency_max_ns]
    axis.plot([r.time_ns / 1e9 for r in rows], [r.latency_max_ns / 1e6 for r in rows], label=queue)
axis.set(xlabel="time [s]", ylabel="latency [ms]", yscale="log")
axis.legend()
axis.set_title("Longest latency of requests beside an upload");
