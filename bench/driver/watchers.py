"""The row of the live view: lateness of a lab with and without watchers."""

import json
import re
import socket
import threading
import time
from pathlib import Path
from statistics import median

from machine import NETARIUM, Failure, folder, run, start

WATCHERS = 5
SECONDS = 3

# 5,000 packets/s on 20 links.
LAB = """
[lab]
name = "bench"
[[generate]]
kind = "star"
hosts = 20
hub = "router"
link = { rate = "100 Mbit/s", delay = "5 ms" }
"""
LAB += "".join(
    f"""
[[flow]]
from = "h{host}"
to = "h{host + 10}"
transport = "udp"
rate = "4 Mbit/s"
packet = "1000 B"
"""
    for host in range(1, 11)
)


class View:
    """`netarium watch` with watchers that read everything. Closing it ends all."""

    def __init__(self, name, place):
        self.process = start([NETARIUM, "watch", name, "--no-open", "--json"], cwd=place)
        line = self.process.stdout.readline()
        if not line:
            raise Failure(f"netarium watch: {self.process.stderr.read()[-300:]}")
        self.host, path = re.match(r"http://([^/]+)(/.*)", json.loads(line)["url"]).groups()
        self.cookie = re.search(r"set-cookie: ([^;]+)", self.request(path)[1]).group(1)
        self.received = 0
        self.sockets = [self.connect() for _ in range(WATCHERS)]
        for each in self.sockets:
            threading.Thread(target=self.read, args=[each], daemon=True).start()

    def request(self, path, *headers):
        host, port = self.host.rsplit(":", 1)
        connection = socket.create_connection((host, int(port)))
        lines = [f"GET {path} HTTP/1.1", f"Host: {self.host}", *headers]
        connection.sendall("".join(f"{line}\r\n" for line in [*lines, ""]).encode())
        return connection, connection.recv(4096).decode(errors="replace")

    def connect(self):
        upgrade = ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13"]
        key = "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="
        own = [f"Origin: http://{self.host}", f"Cookie: {self.cookie}"]
        connection, answer = self.request("/ws", *upgrade, key, *own)
        if " 101 " not in answer.split("\r\n")[0]:
            raise Failure(f"the live view answered {answer[:100]!r}")
        return connection

    def read(self, connection):
        try:
            while data := connection.recv(1 << 20):
                self.received += len(data)
                # The work of the clients is not that of the lab.
                time.sleep(0.5)
        except OSError:
            pass  # The connection was closed.

    def close(self):
        for each in self.sockets:
            each.close()
        self.process.kill()
        self.process.communicate()


def watched_run(is_watched):
    """Lateness of a run in us, and the bytes that watchers received."""
    with folder() as place:
        lab, runs = Path(place) / "bench.toml", Path(place) / "runs"
        lab.write_text(LAB)
        run([NETARIUM, "up", lab, "--runs", runs, "--no-report", "--json"])
        view = None
        try:
            view = View("bench", place) if is_watched else None
            time.sleep(SECONDS)
        finally:
            if view:
                view.close()
            run([NETARIUM, "down", "bench", "--json"])
        (path,) = runs.glob("bench-*")
        late = json.loads((path / "run.json").read_text())["lateness"]["distribution"]
        shares = {share: late[f"{share}_ns"] / 1000 for share in ("p50", "p99")}
        return shares, view.received if view else 0


def watchers(table, repetitions, short):
    """Lateness of a lab with no watchers and with five, in turn; medians of five rounds."""
    rounds = 1 if short else 5
    what = f"{WATCHERS} watchers"
    for _ in range(repetitions):
        pairs = [[watched_run(is_watched) for is_watched in (False, True)] for _ in range(rounds)]
        found = {}
        for subject, runs in zip(("no watchers", what), zip(*pairs)):
            for share in ("p50", "p99"):
                found[subject, share] = median(late[share] for late, _ in runs)
                table.ours("watchers", subject, share, "us", found[subject, share])
        received = median(received for _, (_, received) in pairs)
        table.ours("watchers", what, "received", "kB/s", received / SECONDS / 1000)
        ratio = found[what, "p99"] / found["no watchers", "p99"]
        table.ours("watchers", what, "p99 ratio", "", ratio, at_most=1.05)


ROWS = {"watchers": watchers}
