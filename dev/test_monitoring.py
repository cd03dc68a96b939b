"""The dashboards and alerts of packaging/monitoring name metrics that the commands have."""

import json
import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "packaging/monitoring"
# The files that list the metrics of a command, by the prefix of their names.
SOURCES = {
    "netarium_bundle_": ["bundler/live/src/status.rs", "bundler/live/src/send.rs"],
    "netarium_mctcp_": ["mctcp/proxy/src/status.rs"],
    "netarium_agent_": ["cluster/live/src/agent/board.rs"],
    "netarium_lab_": ["app/watch/src/metrics.rs", "app/watch/src/metrics/elements.rs"],
    "netarium_": ["app/serve/src/metrics.rs"],
}


def has_metric(name):
    prefix = next(prefix for prefix in SOURCES if name.startswith(prefix))
    stem = name.removeprefix(prefix)
    texts = [(ROOT / "crates" / file).read_text() for file in SOURCES[prefix]]
    return any(f'"{word}"' in text for text in texts for word in (stem, stem.removesuffix("_total")))


def metrics(text):
    return set(re.findall(r"netarium_\w+", text))


class Monitoring(unittest.TestCase):
    def test_names_metrics_that_exist(self):
        self.assertFalse(has_metric("netarium_agent_memory"))
        self.assertFalse(has_metric("netarium_lab_queue_bytes"))
        for file in sorted(FOLDER.iterdir()):
            names = metrics(file.read_text())
            self.assertGreater(len(names), 5, file.name)
            self.assertEqual([name for name in names if not has_metric(name)], [], file.name)

    def test_guide_names_jobs_and_alerts(self):
        guide = (ROOT / "docs/src/guides/operations.md").read_text()
        alerts = (FOLDER / "alerts.yml").read_text()
        names = re.findall(r"^      - alert: (\w+)$", alerts, re.MULTILINE)
        self.assertGreater(len(names), 10)
        self.assertEqual([name for name in names if f"`{name}`" not in guide], [])
        for job in ("collect", "bundle", "mctcp", "agent", "lab"):
            self.assertIn(f"netarium-{job}", guide)

    def test_panels_do_not_overlap(self):
        for file in sorted(FOLDER.glob("*.json")):
            cells = set()
            for panel in json.loads(file.read_text())["panels"]:
                at = panel["gridPos"]
                own = {
                    (x, y)
                    for x in range(at["x"], at["x"] + at["w"])
                    for y in range(at["y"], at["y"] + at["h"])
                }
                self.assertFalse(own & cells, f"{file.name}: {panel['title']}")
                self.assertLessEqual(at["x"] + at["w"], 24)
                cells |= own


if __name__ == "__main__":
    unittest.main()
