# %% [markdown]
# # Multipath under failure
#
# A phone has Wi-Fi and a cellular connection. [MCTCP](../concepts/multipath.md) sends one stream
# over both. What happens when one of them fails?

# %%
import matplotlib.pyplot as plt
import netarium as nt

net = nt.Lab("multipath", duration="24 s", seed=1)
phone, server = net.hosts("phone", "server")
net.link(server, phone, name="wifi", rate="20 Mbit/s", delay="10 ms", queue="100 kB")
net.link(server, phone, name="cell", rate="10 Mbit/s", delay="30 ms", queue="100 kB")
net.flow(server, phone, name="video", transport="mctcp", control="cubic")
net.at("8 s", link="wifi", down=True)
net.at("16 s", link="wifi", up=True)
run = net.sim()

# %%
figure, axis = plt.subplots()
run.plot.goodput(ax=axis)
run.plot.throughput(ax=axis)
axis.set_title("Wi-Fi fails from 8 s to 16 s");

# %% [markdown]
# Before the failure the stream has the sum of both rates, less headers. During the failure it
# continues on the cellular path, and afterwards it returns by itself.

# %%
def mean(run, begin, end):
    """Goodput of an interval of time in Mbit/s."""
    rows = [row for row in run.flows if begin * 1e9 < row.time_ns <= end * 1e9]
    return 8e-6 * sum(row.received_bytes for row in rows) / (end - begin)


for text, begin, end in (("before", 2, 8), ("during", 10, 16), ("after", 18, 24)):
    print(f"{text:7} {mean(run, begin, end):.1f} Mbit/s")
print(f"longest gap in the stream: {run.metrics['flow.video.gap.max'].value * 1e3:.0f} ms")

# %% [markdown]
# ## One path
#
# TCP over Wi-Fi alone waits for its path. Its retransmission timeout doubles with each attempt,
# so that it also needs time after the path is back:

# %%
single = net.copy().remove("cell").sim(set={"flow.video.transport": "tcp"})
print(f"TCP, longest gap: {single.metrics['flow.video.gap.max'].value:.1f} s")

# %% [markdown]
# ## A path that loses all packets
#
# So far the link went down. A path can also lose all packets while its link stays up, for example
# in a broken radio cell. Only missing acknowledgements show it. Compare the gap:

# %%
silent = net.copy()
silent.data["at"] = []
silent.at("8 s", link="wifi", set={"loss": "100 %"})
silent.at("16 s", link="wifi", set={"loss": "0 %"})
run = silent.sim()
for text, begin, end in (("before", 2, 8), ("during", 10, 16), ("after", 18, 24)):
    print(f"{text:7} {mean(run, begin, end):.1f} Mbit/s")
print(f"longest gap in the stream: {run.metrics['flow.video.gap.max'].value * 1e3:.0f} ms")

# %% [markdown]
# ## Schedulers
#
# The scheduler chooses the path of each piece of data. A path with a long RTT can delay data that
# the application needs first. Compare the latency of requests:

# %%
requests = net.copy()
requests.data["at"], requests.data["flow"] = [], []
keys = {"transport": "mctcp", "control": "cubic", "response": "500 kB", "think": "100 ms"}
requests.flow(phone, server, name="video", **keys)
cell, wifi = (requests.copy().remove(name) for name in ("wifi", "cell"))
for paths, each in {"cell only": cell, "Wi-Fi only": wifi, "both": requests}.items():
    latency = each.sim().metrics["flow.video.latency.p50"].value
    print(f"{paths:10} median latency {latency * 1e3:.0f} ms")
