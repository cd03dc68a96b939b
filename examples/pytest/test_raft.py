"""Three etcd members, whose leader is cut off."""

import json

import pytest
from recipes import needs, servers

pytestmark = [
    needs("etcd-server", "etcd"),
    needs("etcd-client", "etcdctl"),
    pytest.mark.netarium(lab=servers("etcd.toml", "etcd")),
]
PUT = "etcdctl --command-timeout=2s put key"


def until(host, command):
    """Repeats a command until it succeeds."""
    host.run(f"until {command}; do sleep 0.1; done", check=True, timeout="30 s")


def is_leader(host):
    done = host.run("etcdctl endpoint status --write-out=json", check=True)
    status = json.loads(done.stdout)[0]["Status"]
    return status["leader"] == status["header"]["member_id"]


def test_majority_continues_without_the_leader(netarium_lab):
    members = [netarium_lab[name] for name in ("n1", "n2", "n3")]
    until(members[0], f"{PUT} old")
    (leader,) = [member for member in members if is_leader(member)]
    other = next(member for member in members if member is not leader)
    with netarium_lab.link(leader.name, "lan").set(state="down"):
        until(other, f"{PUT} new")
        assert leader.run(f"{PUT} lost").exit_code != 0
        # A serializable read does not ask the majority, and returns the earlier value.
        stale = leader.run("etcdctl get key --print-value-only --consistency=s", check=True)
        assert stale.stdout == "old\n"
    for member in members:
        until(member, '[ "$(etcdctl get key --print-value-only)" = new ]')
