"""The testbed: a lab with a real router, and the files that its programs write."""

import dataclasses
import json
import os
import shutil
from pathlib import Path
from typing import Any, Mapping, NamedTuple

import netarium as nt
from netarium_papers import Job, PaperError, Run, Stage
from netarium_papers.collector import Traffic, traffic

PEERS = range(1, 6)
PAYLOAD = 1472 / 1538  # Payload of a full datagram, over its bytes on the wire
LINE_MBIT = 100  # Rate of the lines to the traffic generators
SHORT_PREFIXES = 20_000


class Daemon(NamedTuple):
    """A BGP daemon: its name in the lab, its title, and its program."""

    name: str
    title: str
    program: str


def installed() -> list[Daemon]:
    """The installed daemons. Raises PaperError if there is none."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/lib/frr"])
    daemons = [Daemon("bird", "BIRD", "bird"), Daemon("frr", "FRR", "bgpd")]
    found = [daemon for daemon in daemons if shutil.which(daemon.program, path=path)]
    if not found:
        raise PaperError("no real router: install bird2 or frr (`apt-get install bird2 frr`)")
    return found


@dataclasses.dataclass
class Testbed:
    """A run on the wall clock.

    Speakers follow `script` (times in s since they start, about 4 s after the run, and actions)
    with the first `prefixes` of the table, or all (0). `regular` is the rate of the regular traffic
    in each direction in % of the lines' rate, its start and its duration in s.
    """

    stage: Stage
    name: str
    daemon: Daemon
    script: str
    regular: tuple[float, float, float]
    duration: str
    prefixes: int = 0
    is_cloned: bool = True
    settings: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def run(self) -> Run:
        job = Job("collector/router.toml", self.name, "wall", None, self._settings())
        return self.stage.run([job])[0]

    @property
    def out(self) -> Path:
        """The folder of the archive, the router's dump and the summary of the collector."""
        return self.stage.scratch(f"{self.name}-out")

    def collected(self) -> dict[str, Any]:
        """The summary of the collector."""
        path = self.out / "collected.json"
        try:
            return dict(json.loads(path.read_text()))
        except (OSError, ValueError) as error:
            raise PaperError(f"cannot read {path}: {error}") from error

    def traffic(self, run: Run) -> Traffic:
        bgp = sum(run.link(f"p{peer}", "up")["sent_packets"] for peer in PEERS)
        return traffic(run, bgp, self.collected()["segments"] if self.is_cloned else None)

    def _settings(self) -> dict[str, str]:
        tables, binary = self.stage.scratch("table"), Path(nt.binary()).absolute()
        variables: dict[str, dict[str, Any]] = {
            "router": {"ROUTER": self.daemon.name, "OUT": self.out},
            "collect": {"OUT": self.out, "NETARIUM": binary},
            "table": {"TABLES": tables, "NETARIUM": binary},
            "speaker": {"TABLES": tables, "SCRIPT": self.script, "PREFIXES": self.prefixes},
        }
        folders = json.dumps([str(tables), str(self.out)], ensure_ascii=False)
        found = {"lab.duration": self.duration, "lab.writable": folders}
        for program, values in variables.items():
            for name, value in values.items():
                text = json.dumps(str(value), ensure_ascii=False)
                found[f"program.{program}.env.{name}"] = text
        share, start, duration = self.regular
        rate = f"{LINE_MBIT * share / 100 * PAYLOAD * 1e6:.0f} bit/s"
        for flow in ("east", "west"):
            values = {"rate": rate, "start": f"{start} s", "duration": f"{duration} s"}
            found.update({f"flow.{flow}.{key}": value for key, value in values.items()})
        # No packet has this port.
        mirror = {} if self.is_cloned else {"mirror.clones.filter": "tcp port 9"}
        return {**found, **mirror, **self.settings}


def announced(run: Run) -> tuple[int, int]:
    """UPDATEs that the speakers sent, and their bytes."""
    outputs = [run.programs[f"speaker.p{peer}"].stdout for peer in PEERS]
    actions = [json.loads(line) for output in outputs for line in output.splitlines()]
    return sum(of.get("messages", 0) for of in actions), sum(of.get("bytes", 0) for of in actions)
