"""A Redis primary and a replica behind a link of 8 Mbit/s with a round trip of 100 ms."""

import time

import pytest
from recipes import needs, servers

pytestmark = [
    needs("redis-server", "redis-server"),
    pytest.mark.netarium(lab=servers("redis.toml", "primary", "replica")),
]


def replicas_with_write(lab, limit_ms):
    """Writes, and returns how many replicas confirm the write within the limit."""
    lines = f"incr counter\nwait 1 {limit_ms}\n"
    return int(lab["primary"].run("redis-cli", input=lines, check=True).stdout.split()[-1])


def test_replica_confirms_a_write_after_a_round_trip(netarium_lab):
    # The first write waits for the replica to connect.
    assert replicas_with_write(netarium_lab, 20000) == 1
    start = time.monotonic()
    assert replicas_with_write(netarium_lab, 20000) == 1
    assert time.monotonic() - start >= 0.1


def test_replica_catches_up_after_a_partition(netarium_lab):
    assert replicas_with_write(netarium_lab, 20000) == 1
    with netarium_lab.link("wan").set(state="down"):
        assert replicas_with_write(netarium_lab, 300) == 0
    assert replicas_with_write(netarium_lab, 20000) == 1
    for host in ("primary", "replica"):
        done = netarium_lab["primary"].run(["redis-cli", "-h", host, "get", "counter"])
        assert done.stdout == "3\n"
