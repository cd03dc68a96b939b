"""Tests of dev/check: `python3 -B -m unittest discover -s dev`."""

import unittest
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

LOADER = SourceFileLoader("check", str(Path(__file__).parent / "check"))
check = module_from_spec(spec_from_loader("check", LOADER))
LOADER.exec_module(check)


def package(name, place, *dependencies, tests=()):
    return {
        "name": name,
        "manifest_path": f"/r/{place}/Cargo.toml",
        "dependencies": [{"name": dependency} for dependency in dependencies],
        "targets": [{"name": name, "kind": ["lib"]}]
        + [{"name": test, "kind": ["test"]} for test in tests],
    }


PACKAGES = [
    package("netarium-base", "crates/base/base", "libc"),
    package("netarium-bgp-codec", "crates/bgp/codec", "netarium-base", tests=["bmp"]),
    package("netarium-lab-file", "crates/lab/file", "netarium-base"),
    package("netarium-lab-emu", "crates/lab/emu", "netarium-lab-file", tests=["labs"]),
    package("netarium", "crates/app/cli", "netarium-lab-emu", tests=["programs", "workspace"]),
]


class Check(unittest.TestCase):
    def owners(self, *files):
        return check.owners(files, PACKAGES, Path("/r"))

    def test_finds_the_crate_of_a_file(self):
        self.assertEqual(self.owners("crates/lab/file/src/lib.rs"), {"netarium-lab-file"})
        self.assertEqual(self.owners("crates/lab/filed/a.rs", "crates/new/a.rs"), set())
        self.assertEqual(self.owners("examples/a.toml"), {"netarium", "netarium-lab-file"})
        self.assertEqual(len(self.owners("Cargo.lock")), len(PACKAGES))

    def test_changes_of_documents_run_script_tests_only(self):
        crates = self.owners("README.md", "docs/src/gallery.md", "dev/test")
        self.assertEqual(crates, set())
        programs = [command[0] for command in check.commands(crates, [])]
        self.assertEqual(programs, ["cargo", "python3"])

    def test_finds_indirect_dependents(self):
        self.assertEqual(check.dependents({"netarium"}, PACKAGES), {"netarium"})
        expected = {"netarium-lab-file", "netarium-lab-emu", "netarium"}
        self.assertEqual(check.dependents({"netarium-lab-file"}, PACKAGES), expected)
        self.assertEqual(len(check.dependents({"netarium-base"}, PACKAGES)), len(PACKAGES))

    def test_leaves_out_tests_on_the_wall_clock(self):
        crates = {"netarium", "netarium-lab-emu", "netarium-bgp-codec"}
        wall = ["netarium-lab-emu::labs", "netarium::programs"]
        self.assertEqual(check.test_targets(crates, PACKAGES), (["bmp", "workspace"], wall))
        everything = ["bmp", "labs", "programs", "workspace"]
        self.assertEqual(check.test_targets(crates, PACKAGES, True), (everything, []))

    def test_selects_features_of_the_whole_workspace(self):
        *_, clippy, tests = check.commands({"netarium", "netarium-base"}, ["workspace"])
        self.assertIn("--workspace", clippy)
        self.assertIn("--workspace", tests)
        self.assertNotIn("-p", tests)
        expected = "(package(=netarium) | package(=netarium-base)) - group(wall-clock)"
        self.assertEqual(tests[-1], expected)
        *_, tests = check.commands({"netarium"}, [], True)
        self.assertEqual(tests[-1], "package(=netarium)")

    def test_readers_are_packages(self):
        names = {name for readers in check.READERS.values() for name in readers or []}
        found = {
            line.split('"')[1]
            for manifest in check.ROOT.glob("crates/*/*/Cargo.toml")
            for line in manifest.read_text(encoding="utf-8").splitlines()
            if line.startswith("name = ")
        }
        self.assertLessEqual(names, found)
        for place in check.READERS:
            self.assertTrue((check.ROOT / place).exists(), place)


if __name__ == "__main__":
    unittest.main()
