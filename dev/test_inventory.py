"""Tests of dev/inventory."""

import importlib.machinery
import importlib.util
import tempfile
import unittest
from pathlib import Path


def load():
    path = Path(__file__).with_name("inventory")
    loader = importlib.machinery.SourceFileLoader("inventory", str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("inventory", loader))
    loader.exec_module(module)
    return module


inventory = load()


class Files(unittest.TestCase):
    def crate(self, folder, **files):
        (Path(folder) / "src" / "a").mkdir(parents=True)
        for name, text in files.items():
            name = name.replace("__", "/")
            (Path(folder) / "src" / f"{name}.rs").write_text(text, encoding="utf-8")
        return Path(folder)

    def circles(self, **files):
        with tempfile.TemporaryDirectory() as folder:
            source = self.crate(folder, **files) / "src"
            circles = inventory.Crate(source).circles()
            return [[str(file.relative_to(source)) for file in circle] for circle in circles]

    def test_a_use_from_each_to_the_other_is_a_circle(self):
        files = {"lib": "mod a;\nmod b;\n", "b": "fn b() { super::a::a(); }\n"}
        self.assertEqual(self.circles(a="use crate::b;\n", **files), [["a.rs", "b.rs"]])
        text = '// crate::b\nconst A: &str = "crate::b";\npub(in crate::b) const B: u8 = 1;\n'
        self.assertEqual(self.circles(a=text, **files), [])

    def test_a_declared_child_counts_if_its_parent_uses_it(self):
        child = "use super::A;\n"
        used = "mod b;\npub struct A;\nfn a() { b::b(); }\n"
        declared = "mod b;\npub struct A;\n"
        found = self.circles(lib="mod a;\n", a=used, a__b=child)
        self.assertEqual(found, [["a/b.rs", "a.rs"]])
        self.assertEqual(self.circles(lib="mod a;\n", a=declared, a__b=child), [])

    def test_a_re_export_counts_if_the_file_uses_the_name_itself(self):
        files = {"a": "use crate::A;\npub struct B;\n"}
        lib = "mod a;\npub use a::B;\npub struct A;\n"
        self.assertEqual(self.circles(lib=lib, **files), [])
        # A declared module is no use of a function with its name; a comma at the end is no item.
        lib = "mod a;\npub use a::{\n    a,\n};\npub struct A;\n"
        self.assertEqual(self.circles(lib=lib, a="use crate::A;\npub fn a() {}\n"), [])
        lib = "mod a;\npub use a::B;\npub struct A;\n"
        used = self.circles(lib=f"{lib}fn b() -> B {{}}\n", **files)
        self.assertEqual(used, [["a.rs", "lib.rs"]])

    def test_a_path_leads_to_the_file_that_defines_the_item(self):
        lib = "mod a;\nmod b;\npub use a::{A, self as other};\npub use b::B;\n"
        a = "pub struct A;\n"
        self.assertEqual(self.circles(lib=lib, a=a, b="use crate::{A, other};\n"), [])
        both = self.circles(lib=lib, a=f"use crate::B;\n{a}", b="use crate::A;\npub struct B;\n")
        self.assertEqual(both, [["a.rs", "b.rs"]])

    def test_code_for_tests_makes_no_circle(self):
        a = "#[cfg(test)]\nmod tests {\n    use crate::b;\n}\n#[cfg(test)]\nuse crate::b;\n"
        self.assertEqual(self.circles(lib="mod a;\nmod b;\n", a=a, b="use crate::a;\n"), [])

    def test_counts_lines_by_kind(self):
        lib = "//! A.\n\nmod a;\n#[cfg(test)]\nmod b;\n#[cfg(test)]\nmod tests {\n    // B\n}\n"
        with tempfile.TemporaryDirectory() as folder:
            count = inventory.lines_of(self.crate(folder, lib=lib, a="fn a() {} // x\n", b="\n"))
        self.assertEqual(count, {"code": 2, "comments": 1, "blank": 1, "tests": 7})


class Compare(unittest.TestCase):
    def test_only_missing_and_changed_items_are_errors(self):
        old = {"tests": ["a a", "b::c b"], "traces": {"x": "1", "y": "2"}, "circles": [["f", "g"]]}
        new = {"tests": ["b::c b", "b c"], "traces": {"x": "1", "y": "3"}, "circles": []}
        lines, is_worse = inventory.compare(old, new)
        self.assertTrue(is_worse)
        expected = ["tests: 2, 1 missing, 1 new", "    missing: a a", "    new: b c"]
        expected += ["traces: 2, 0 missing, 0 new", "    changed: y: 2 -> 3", "circles: 1 -> 0"]
        self.assertEqual(lines, expected)
        self.assertFalse(inventory.compare(old, {**new, "traces": old["traces"]}, ["b"])[1])
        for traces in [{"x": "1"}, {"x": "1", "y": "3"}]:
            self.assertTrue(inventory.compare(old, {**old, "traces": traces})[1])


if __name__ == "__main__":
    unittest.main()
