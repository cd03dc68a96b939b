"""Claims of the collector's figures, and the comparison of MRT archives."""

import json
import sys
import tempfile
import unittest
from ipaddress import ip_address
from pathlib import Path
from typing import Any, List
from unittest import mock

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "reproduce"), str(ROOT / "python")]

try:
    from netarium_papers import Evidence, Options, Stage
    from netarium_papers.collector import MODES, Traffic, archive, cost
    from netarium_papers.collector import fig_7_8, fig_7_9, mrt, testbed
except ImportError as error:
    raise unittest.SkipTest(f"{error.name} is not installed") from None


def judged(claims: Any, *args: Any) -> List[bool]:
    evidence = Evidence()
    claims(*args, evidence)
    return [claim.holds for claim in evidence.claims]


class Claims(unittest.TestCase):
    """Each claim can fail."""

    def test_loss_by_rate(self) -> None:
        def of(loss: Any) -> List[bool]:
            points = {
                (mode, rate): Traffic(10**6, loss(mode, rate) * 10**4, 0, None)
                for mode in MODES
                for rate in fig_7_8.SHORT_RATES
            }
            return judged(fig_7_8.claims, "virtual", points)

        loss = fig_7_8.expected
        self.assertAlmostEqual(loss(100), 38)
        self.assertEqual(of(lambda mode, rate: loss(rate)), [True] * 4)
        early = of(lambda mode, rate: loss(rate) + (mode == MODES[0] and rate < 50))
        self.assertEqual(early, [False, True, False, True])
        cloned = of(lambda mode, rate: loss(rate) + 0.1 * (mode == MODES[2]))
        self.assertEqual(cloned, [True, True, True, False])
        self.assertEqual(of(lambda mode, rate: loss(rate) * 1.2), [True, False, True, True])

    def test_loss_during_bursts(self) -> None:
        def losses(lost: int, worst: float) -> fig_7_9.Losses:
            return fig_7_9.Losses([(1, 0.005), (3, worst)], Traffic(10**6, lost, 100, 100))

        def model(lost: int, worst: float) -> List[bool]:
            return judged(fig_7_9.model_claims, losses(150, 0.02), losses(lost, worst))

        self.assertEqual(model(250, 0.037), [True] * 3)
        self.assertEqual(model(250, 0.05), [True, False, True])
        self.assertEqual(model(350, 0.03), [True, True, False])
        wall = [judged(fig_7_9.wall_claims, losses(80, 1), losses(n, 1)) for n in (85, 150)]
        self.assertEqual(wall, [[True] * 2, [False] * 2])

    def test_archive(self) -> None:
        def of(counters: Any = (), **changed: Any) -> List[bool]:
            compared = mrt.Comparison(5, 5, 5, 10, 1000, 10, 1000, (15, 15), 0.1)
            collected = {**dict.fromkeys([*archive.COUNTERS, "bad_checksums"], 0), **dict(counters)}
            collected.update(peerings=5, stream_bytes=2000)
            sent = (10, 1000)
            return judged(archive.claims, "BIRD", compared._replace(**changed), collected, sent)

        self.assertEqual(of(), [True] * 4)
        self.assertEqual(of(same=4), [True] * 4)
        for changed in ({"held": 4}, {"peers": 6}):
            self.assertEqual(of(**changed), [False, True, True, True])
        self.assertEqual(of(own_bytes=999), [True, False, True, True])
        for counter in ("kernel_drops", "gaps", "missing_bytes", "bad_checksums"):
            self.assertEqual(of({counter: 1}), [True, True, False, True])
        self.assertEqual(of(up=(15, 14)), [True, True, True, False])

    def test_cost(self) -> None:
        def of(cpu_s: float, frames: int = cost.PACKETS, missing: int = 0) -> List[bool]:
            summary = {"frames": frames, "messages": cost.UPDATES + 20, "missing_bytes": missing}
            return judged(cost.claims, cpu_s, {**summary, "troubles": 0})

        self.assertEqual(of(0.07), [True] * 3)
        self.assertEqual(of(16), [False, False, True])
        self.assertEqual(of(0.07, frames=cost.PACKETS - 1), [True, True, False])
        self.assertEqual(of(0.07, missing=1), [True, True, False])


class Archives(unittest.TestCase):
    def test_compares_bytes_and_sessions(self) -> None:
        a = {b"1": mrt.Peer([b"a", b"b"], [1, 5]), b"2": mrt.Peer([b"d"], [2])}
        b = {b"1": mrt.Peer([b"a", b"c"], [1, 7]), b"2": mrt.Peer([b"d"], [2])}
        self.assertEqual(mrt.compared(a, a), mrt.Comparison(2, 2, 2, 3, 3, 3, 3, (3, 3), 0.0))
        self.assertEqual(mrt.compared(a, b), mrt.Comparison(2, 1, 1, 3, 3, 3, 3, (3, 3), 2.0))
        less = mrt.compared(a, {b"2": mrt.Peer([b"d"])})
        self.assertEqual((less.peers, less.same, less.up, less.apart_s), (2, 1, (3, 0), None))

    def test_dump_may_lack_messages_but_not_have_others(self) -> None:
        for dumped, held in (("abcabc", True), ("acb", True), ("", True), ("cca", False)):
            self.assertEqual(mrt.holds(list(b"abcabc"), list(dumped.encode())), held, dumped)

    def test_reads_dump_of_bird(self) -> None:
        name = "data/bgp/pcap/addpath-extmsg-as4-v6-md5.bird-truth.mrt"
        peers = mrt.read(ROOT / name)
        found = {str(ip_address(at)): len(peer.updates) for at, peer in peers.items()}
        self.assertEqual(found, {"fd09:1::2": 31, "10.9.1.2": 64, "10.9.2.2": 13})
        self.assertEqual([len(of.up) for of in peers.values()], [1, 1, 1])

    def test_rejects_truncated_record(self) -> None:
        with self.assertRaises(mrt.PaperError), mock.patch.object(Path, "read_bytes") as read:
            read.return_value = bytes(8) + b"\0\0\0\1"
            mrt.read(Path("x"))


class Labs(unittest.TestCase):
    def test_programs_may_write_to_the_folders_of_the_figure(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            stage = Stage(("wall",), Path(folder), Options(Path(folder)))
            daemon = testbed.Daemon("bird", "BIRD", "bird")
            with mock.patch.dict("os.environ", {"NETARIUM_BINARY": sys.executable}):
                bed = testbed.Testbed(stage, "a", daemon, "1 end", (40, 2, 10), "9 s")
                settings = bed._settings()
            for path in json.loads(settings["lab.writable"]):
                self.assertTrue(Path(path).is_dir())
                self.assertIn(json.dumps(path), settings.values())


class Daemons(unittest.TestCase):
    def test_missing_daemon_is_an_error(self) -> None:
        with mock.patch.object(testbed.shutil, "which", return_value=None):
            with self.assertRaisesRegex(testbed.PaperError, "install bird2"):
                testbed.installed()


if __name__ == "__main__":
    unittest.main()
