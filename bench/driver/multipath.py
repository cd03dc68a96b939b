"""MCTCP, TCP and the kernel's Multipath TCP on the loopback device of one namespace."""

import json
from pathlib import Path

from machine import BUILD, Failure, Namespace, Processor, finish, folder, last_json, start

LOOPBACK = BUILD / "examples" / "loopback"
ADDRESSES = ("127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4")
KINDS = ("tcp", "mptcp", "mctcp", "mctcp-tls")


class Space:
    """A namespace in which the kernel's Multipath TCP uses as many addresses as MCTCP."""

    def __enter__(self):
        self.space = Namespace()
        self.place = folder()
        self.certificate = Path(self.place.name) / "certificate"
        ip = self.space.inside("ip", "mptcp")
        limits = ["limits", "set", "subflows", len(ADDRESSES) - 1, "add_addr_accepted", 0]
        finish(start([*ip, *limits]), 5)
        for address in ADDRESSES[1:]:
            finish(start([*ip, "endpoint", "add", address, "dev", "lo", "subflow"]), 5)
        return self

    def __exit__(self, *_):
        self.space.close()
        self.place.cleanup()

    def run(self, verb, kind, *words):
        command = [LOOPBACK, verb, kind, self.certificate, *words]
        return start(self.space.inside(*command))

    def listening(self, verb, kind):
        """A listening process, and its address."""
        process = self.run(verb, kind)
        line = process.stdout.readline()
        if not line:
            raise Failure(f"{kind}: {process.stderr.read()[-300:]}")
        return process, json.loads(line)["addresses"]

    def bulk(self, kind, seconds):
        """Gbit/s, and seconds of processors for each GB, both ends and the kernel together."""
        with Processor() as processor:
            receiver, to = self.listening("receive", kind)
            try:
                finish(self.run("send", kind, seconds, *to), seconds + 15)
                result = last_json(finish(receiver, 10))
            finally:
                receiver.kill()
                receiver.communicate()
        return result["bytes"] * 8e-9 / result["seconds"], processor.seconds / result["bytes"] * 1e9

    def burst(self, kind, count):
        """The results of many sessions that are opened within 20 ms."""
        answerer, to = self.listening("answer", kind)
        try:
            return last_json(finish(self.run("burst", kind, count, *to), 60))
        finally:
            answerer.kill()
            answerer.communicate()

    def question(self, verb, kind, count):
        """Median of the microseconds for 1 KiB and its answer."""
        answerer, to = self.listening("answer", kind)
        try:
            return last_json(finish(self.run(verb, kind, count, *to), 60))["micros"]
        finally:
            answerer.kill()
            answerer.communicate()


def mctcp(table, repetitions, short):
    """MCTCP over four subflows of the loopback device: throughput and latency."""
    seconds, questions = (2, 1000) if short else (5, 5000)
    least = {"mctcp": 4, "mctcp-tls": 2}
    for _ in range(repetitions):
        with Space() as space:
            for kind in KINDS:
                rate, cost = space.bulk(kind, seconds)
                asked = space.question("ask", kind, questions)
                opened = space.question("open", kind, questions // 10)
                figures = (("rate", "Gbit/s", rate), ("processor", "s/GB", cost))
                figures += (("request", "us", asked), ("new session", "us", opened))
                for part, unit, value in figures:
                    if kind not in least:
                        table.peer("mctcp", kind, part, unit, value)
                        continue
                    must = {"at_least": least[kind]} if part == "rate" else {}
                    beside = (("tcp", part), ("mptcp", part))
                    table.ours("mctcp", kind, part, unit, value, *beside, **must)


def bursts(table, repetitions, short):
    """Sessions that are opened at once: time of the slowest, and number of failures."""
    for _ in range(repetitions):
        with Space() as space:
            for count in (100,) if short else (100, 1000):
                for kind in ("tcp", "mctcp-key"):
                    result = space.burst(kind, count)
                    part, value = f"{count:,} at once, p99", result["p99_micros"]
                    if kind == "tcp":
                        table.peer("mctcp bursts", kind, part, "us", value)
                        continue
                    table.ours("mctcp bursts", kind, part, "us", value, ("tcp", part))
                    failed = f"{count:,} at once, failed"
                    table.ours("mctcp bursts", kind, failed, "sessions", result["failed"], at_most=0)


ROWS = {"mctcp": mctcp, "mctcp bursts": bursts}
