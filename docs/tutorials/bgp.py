# %% [markdown]
# # BGP from a capture
#
# A router sends you a copy of its packets. From them you can rebuild its BGP sessions, without a
# session of your own. This tutorial collects a capture into an archive and queries it. The capture
# is in the [repository](https://github.com/netarium/netarium/tree/main/data/bgp/pcap); set
# `NETARIUM_DATA` to its folder `data`.

# %%
import collections
import json
import os
import subprocess

import matplotlib.pyplot as plt
import netarium as nt

capture = os.path.join(os.environ["NETARIUM_DATA"], "bgp/pcap/addpath-extmsg-as4-v6-md5.pcap")
words = [nt.binary(), "collect", "--read", capture, "--out", "archive", "--json", "--quiet"]
summary = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
archive = nt.collector.open("archive")
print(f"gaps: {summary['gaps']}, missing bytes: {summary['missing_bytes']}")

# %% [markdown]
# The collector finds the sessions and their parameters in the OPEN messages. Nothing is missing.
# Who are the peers, and what did they send?

# %%
for peer in archive.peers():
    counts = f"{peer['announced']} announced, {peer['withdrawn']} withdrawn"
    print(f"{peer['peer']:10} AS {peer['peer_as']}: {counts}")

# %% [markdown]
# ## Updates
#
# `updates` has a row for each announcement, withdrawal and change of a session. How did each
# session end?

# %%
for row in archive.updates(types=["state"]):
    if row.old == "Established":
        print(f"{row.peer:10} {row.reason}")

# %% [markdown]
# Count the updates over time. The sessions begin with their whole tables:

# %%
updates = archive.updates(types=["announce", "withdraw"])
begin = updates[0].time
counts = collections.Counter((row.type, int(row.time - begin)) for row in updates)
figure, axis = plt.subplots()
seconds = range(int(updates[-1].time - begin) + 1)
for kind in ("announce", "withdraw"):
    axis.step(seconds, [counts[kind, second] for second in seconds], where="mid", label=kind)
axis.set(xlabel="time [s]", ylabel="updates per second")
axis.legend()
axis.set_title("Updates of all peers");

# %% [markdown]
# ## Routes at a time
#
# A route is the last announcement that was not withdrawn. Because the archive has all of them, it
# can answer for each time. One peer uses ADD-PATH: it sends several routes for a prefix, each with
# a path identifier.

# %%
prefix = updates[0].prefix
for row in archive.rib(prefix, at=begin + 5):
    print(f"{row.peer:10} {row.prefix} identifier {row.path_id}, AS path {row.path}")

# %% [markdown]
# Which routes were there five seconds after the begin, and not any more at the end?

# %%
changes = archive.rib(at=begin + 5, until=updates[-1].time + 5)
print(collections.Counter((row.change, row.peer) for row in changes))

# %% [markdown]
# ## Large archives
#
# An archive of a day does not fit into a list. `batches` reads it as Arrow record batches while
# the program decodes the files, several times as fast as rows:

# %%
print(sum(batch.num_rows for batch in archive.batches()))
