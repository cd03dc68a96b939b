"""Archives of the collector: routes, updates, peers, gaps."""

import collections
import datetime
import importlib.util
import subprocess
import unittest

from kit import ROOT, Case, nt

CAPTURE = ROOT / "data" / "bgp" / "pcap" / "addpath-extmsg-as4-v6-md5.pcap"
# The sessions of the capture are up, and all routes are announced.
UP = 1795229375.0


class Archives(Case):
    def setUp(self) -> None:
        super().setUp()
        words = [nt.binary(), "collect", "--read", str(CAPTURE), "--out", "archive", "--quiet"]
        subprocess.run(words, check=True, capture_output=True)
        self.archive = nt.collector.open("archive")

    def test_routes_at_a_time(self):
        self.assertEqual(len(self.archive.rib()), 0)
        aware = datetime.datetime.fromtimestamp(UP, datetime.timezone.utc)
        for at in (UP, aware, aware.replace(tzinfo=None), "2026-11-21 02:49:35"):
            routes = self.archive.rib("20.2.34.0/24", at=at, peer="10.9.1.2")
            self.assertEqual({row.prefix for row in routes}, {"20.2.34.0/24"})
        row = routes[0]
        self.assertEqual((row.peer_as, row.origin, row.stale), (4200000001, "IGP", False))
        self.assertIsInstance(row.path_id, int)
        self.assertEqual(row.communities, ["64501:1"])
        every = self.archive.rib(at=UP)
        self.assertEqual(set(every.column("peer")), {"10.9.1.2", "10.9.2.2", "fd09:1::2"})
        self.assertEqual(len(self.archive.rib("20.0.0.0/8", at=UP, more=True, path="_1_")), 0)
        with self.assertRaisesRegex(nt.LabError, "invalid time `noon`"):
            self.archive.rib(at="noon")

    def test_changes_between_two_times(self):
        changes = self.archive.rib("20.2.34.0/24", at=UP, until=UP + 3600)
        self.assertEqual(set(changes.column("change")), {"removed"})
        self.assertEqual(set(changes.column("version")), {"old"})

    def test_updates_are_those_of_the_capture(self):
        for archive in (self.archive, nt.collector.open(CAPTURE)):
            updates = archive.updates()
            count = collections.Counter(updates.column("type"))
            self.assertEqual((count["announce"], count["withdraw"]), (21000, 3000))
        some = archive.updates(prefix="20.2.34.0/24", types=["withdraw"], since=UP, asn=4200000001)
        self.assertEqual(set(some.column("type")), {"withdraw"})
        self.assertTrue(all(row.time > UP and row.path is None for row in some))
        self.assertEqual(len(archive.updates(peer="192.0.2.1")), 0)
        self.assertEqual(len(archive.updates(until=1e9)), 0)
        with self.assertRaisesRegex(nt.LabError, "none.mrt"):
            nt.collector.open("none.mrt").updates()

    @unittest.skipUnless(importlib.util.find_spec("pyarrow"), "pyarrow is not installed")
    @unittest.skipUnless(importlib.util.find_spec("polars"), "polars is not installed")
    def test_batches_have_all_updates(self):
        import polars

        updates = self.archive.updates(types=["announce", "withdraw"]).to_polars()
        batches = list(self.archive.batches())
        found = polars.from_arrow(batches).filter(polars.col("type") != "STATE")
        for column in ("time", "peer", "peer_as", "prefix", "path_id", "path", "next_hop"):
            left, right = found[column].to_list(), updates[column].to_list()
            self.assertEqual(left, right, column)
        self.assertEqual(updates["communities"].dtype, polars.List(polars.String))
        self.assertEqual(found["communities"][0], " ".join(updates["communities"][0]))
        with self.assertRaisesRegex(nt.LabError, "none.mrt"):
            list(nt.collector.open("none.mrt").batches())

    def test_peers_and_gaps(self):
        peers = {peer["peer"]: peer for peer in self.archive.peers()}
        self.assertEqual(peers["10.9.2.2"]["peer_as"], 4200000002)
        (collector,) = self.archive.gaps()
        self.assertEqual({hour["verdict"] for hour in collector["hours"]}, {"whole"})


if __name__ == "__main__":
    unittest.main()
