"""Tests of dev/mutate: `python3 -B -m unittest discover -s dev`."""

import re
import tempfile
import unittest
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

from mutations import MUTATIONS, Mutation
from results import ROOT

LOADER = SourceFileLoader("mutate", str(Path(__file__).parent / "mutate"))
mutate = module_from_spec(spec_from_loader("mutate", LOADER))
LOADER.exec_module(mutate)


class Mutate(unittest.TestCase):
    def test_each_text_is_there_once_before_the_tests(self):
        for mutation in MUTATIONS:
            with self.subTest(mutation.name):
                text = (ROOT / mutation.file).read_text(encoding="utf-8")
                self.assertEqual(text.count(mutation.old), 1)
                self.assertNotEqual(mutation.old, mutation.new)
                self.assertNotIn("#[cfg(test)]\nmod tests {", text.partition(mutation.old)[0])

    def test_each_crate_and_at_least_30_lines_have_one(self):
        crates = {str(path.relative_to(ROOT)) for path in ROOT.glob("crates/*/*")}
        self.assertEqual({"/".join(m.file.split("/")[:3]) for m in MUTATIONS}, crates)
        self.assertGreaterEqual(len(MUTATIONS), 30)
        self.assertEqual(len({m.name for m in MUTATIONS}), len(MUTATIONS))

    def test_each_names_a_test(self):
        for mutation in MUTATIONS:
            with self.subTest(mutation.name):
                folder = ROOT / mutation.folder
                name = re.search(r"(\w+)\$?$", mutation.tests)[1]
                sources = (path.read_text(encoding="utf-8") for path in folder.rglob("*.rs"))
                self.assertTrue(any(f"fn {name}" in text for text in sources), name)
                if target := re.search(r"--test (\w+)", mutation.target):
                    files = [f"tests/{target[1]}.rs", f"tests/{target[1]}/main.rs"]
                    is_named = f'name = "{target[1]}"' in (folder / "Cargo.toml").read_text()
                    is_file = any((folder / file).exists() for file in files)
                    self.assertTrue(is_named or is_file, target[0])

    def test_restores_the_file_and_tells_results_apart(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a.rs"
            path.write_text("a < b\n", encoding="utf-8")
            swapped = Mutation("less", "a.rs", "a < b", "a > b", "compares")

            def verdict(before, after, mutation=swapped):
                def run(*_):
                    return after if ">" in path.read_text(encoding="utf-8") else before

                return mutate.judge(Path(folder), mutation, run)

            self.assertEqual(verdict(0, 100), "caught")
            self.assertEqual(verdict(0, 0), "missed")
            self.assertEqual(verdict(0, 101), "does not build")
            self.assertEqual(verdict(100, 100), "red before")
            self.assertEqual(verdict(4, 4), "no such test")
            gone = Mutation("gone", "a.rs", "a == b", "a != b", "compares")
            self.assertEqual(verdict(0, 100, gone), "text not found")
            self.assertEqual(path.read_text(encoding="utf-8"), "a < b\n")


if __name__ == "__main__":
    unittest.main()
