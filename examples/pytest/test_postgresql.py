"""A PostgreSQL server, and a client behind a radio link with losses."""

import time

import pytest
from recipes import needs, servers

pytestmark = [
    needs("postgresql", "postgres"),
    pytest.mark.netarium(lab=servers("postgresql.toml", "server")),
]


def psql(lab, *statements, connect_timeout=30, check=True):
    """Sends statements, each when the one before is answered."""
    server = f"host=server user=lab dbname=postgres connect_timeout={connect_timeout}"
    words = ["psql", server, "--quiet", "--tuples-only", "--no-align"]
    lines = "".join(f"{statement};\n" for statement in statements)
    return lab["phone"].run(words, input=lines, check=check, timeout="60 s")


@pytest.mark.netarium(set={"link.radio.delay": "20 ms"})
def test_each_statement_takes_a_round_trip(netarium_lab):
    start = time.monotonic()
    done = psql(netarium_lab, *["select 1"] * 20)
    assert done.stdout.split() == ["1"] * 20
    assert time.monotonic() - start >= 20 * 0.04


def test_committed_rows_outlive_a_partition(netarium_lab):
    psql(netarium_lab, "create table notes (text text)", "insert into notes values ('before')")
    with netarium_lab.link("radio").set(state="down"):
        insert = "insert into notes values ('during')"
        done = psql(netarium_lab, insert, connect_timeout=2, check=False)
        assert done.exit_code == 2
        assert "timeout expired" in done.stderr
    assert psql(netarium_lab, "select text from notes").stdout == "before\n"
