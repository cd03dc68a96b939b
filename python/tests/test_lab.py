"""Labs: sections, TOML, checks and errors."""

import os
import pickle
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from kit import PYTHON, ROOT, Case, nt, pair

from netarium import _toml

# A value that TOML writes in a special way for each kind.
ODD_TEXT = 'quote " backslash \\ tab \t line \n bell \x07 delete \x7f µs 漢'


def parse(text):
    try:
        return _toml.reader()(text)
    except ImportError as error:
        raise unittest.SkipTest(str(error)) from None


class Toml(unittest.TestCase):
    def test_reads_back_each_kind_of_value(self):
        data = {
            "lab": {"name": ODD_TEXT, "record": True, "seed": 7, "odd key.": 1.5},
            "node": {"a": {}, "b": {"address": ["10.0.0.1/24"]}},
            "link": [{"ends": ["a", "b"], "up": {"queue": {"kind": "codel"}, "loss": "1 %"}}],
            "program": [{"node": "a", "run": [ODD_TEXT, ""], "env": {"A B": "c"}, "exit": [0, 1]}],
        }
        self.assertEqual(parse(_toml.write(data)), data)

    def test_rejects_values_that_no_lab_has(self):
        with self.assertRaisesRegex(TypeError, "no values like"):
            _toml.write({"lab": {"name": object()}})

    def test_examples_round_trip(self):
        paths = sorted((ROOT / "examples").glob("**/*.toml")) + sorted(ROOT.glob("labs/**/*.toml"))
        self.assertGreater(len(paths), 20)
        for path in paths:
            lab = nt.Lab.from_toml(path)
            self.assertEqual(nt.Lab.from_toml(lab.to_toml()).data, lab.data, path)


class Sections(unittest.TestCase):
    def test_sections_have_the_given_keys(self):
        net = nt.Lab("kv", seed=7, tolerance={"delay": "1 %"})
        client, *db = net.hosts("client", "db1", "db2", user="nobody")
        sw = net.switch("sw")
        names = [net.link(h, sw, rate="1 Gbit/s") for h in net.nodes("db*")]
        net.link(client, sw, name="access", queue={"kind": "codel", "target": "5 ms"})
        flow = net.flow("db*", client, control="cubic")
        net.program("db1", ["sleep", "1"], ready="port 80").update(service=True)
        net.generate("line", routers=3, prefix="x-")
        net.import_("wan.graphml", hosts=1)
        net.at("1 s", link="access", set={"loss": "5 %"})
        net.expect("run.trusted == true")
        net.control(protocol="slbn")
        self.assertEqual(db, ["db1", "db2"])
        self.assertEqual(net.links(), ["db1-sw", "db2-sw", "access"])
        self.assertEqual(names, net.links("db?-sw"))
        self.assertEqual(flow, {"from": "db*", "to": "client", "control": "cubic"})
        self.assertEqual(
            parse(net.to_toml()),
            {
                "lab": {"name": "kv", "seed": 7, "tolerance": {"delay": "1 %"}},
                "node": {
                    "client": {"user": "nobody"},
                    "db1": {"user": "nobody"},
                    "db2": {"user": "nobody"},
                    "sw": {"kind": "switch"},
                },
                "link": [
                    {"ends": ["db1", "sw"], "rate": "1 Gbit/s"},
                    {"ends": ["db2", "sw"], "rate": "1 Gbit/s"},
                    {
                        "ends": ["client", "sw"],
                        "name": "access",
                        "queue": {"kind": "codel", "target": "5 ms"},
                    },
                ],
                "flow": [{"from": "db*", "to": "client", "control": "cubic"}],
                "program": [
                    {"node": "db1", "run": ["sleep", "1"], "ready": "port 80", "service": True}
                ],
                "generate": [{"kind": "line", "routers": 3, "prefix": "x-"}],
                "import": [{"file": "wan.graphml", "hosts": 1}],
                "at": [{"time": "1 s", "link": "access", "set": {"loss": "5 %"}}],
                "expect": [{"that": "run.trusted == true"}],
                "control": {"protocol": "slbn"},
            },
        )

    def test_bare_number_is_an_error_that_names_the_unit(self):
        net = pair()
        for wrong in (
            lambda: net.link("a", "b", delay=10),
            lambda: net.link("a", "b", rate=1e6),
            lambda: nt.Lab("x", duration=30),
            lambda: nt.bulk("a", "b", size=1000),
            lambda: net.host("c", memory=5),
        ):
            with self.assertRaisesRegex(
                TypeError, 'bare number has no unit; .*="[0-9]+ [A-Za-z/]+"'
            ):
                wrong()

    def test_numbers_and_falsehoods_are_values(self):
        net = nt.Lab("x", seed=0, realtime=False)
        self.assertEqual(net.data["lab"], {"name": "x", "seed": 0, "realtime": False})

    def test_second_node_of_a_name_is_an_error(self):
        with self.assertRaisesRegex(ValueError, "node a already"):
            pair().router("a")

    def test_copy_is_independent(self):
        net = pair()
        other = pickle.loads(pickle.dumps(net.copy().add(nt.bulk("a", "b"))))
        other.data["link"][0]["rate"] = "1 Mbit/s"
        self.assertEqual(net.data, pair().data)
        self.assertEqual(other.data["flow"], [{"from": "a", "to": "b"}])

    def test_file_gives_name_and_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "shop.toml"
            path.write_text("[node.a]\n")
            for source in (path, str(path)):
                lab = nt.Lab.from_toml(source)
                self.assertEqual((lab.name, lab.folder), ("shop", Path(folder)))

    def test_remove_takes_links_with_their_node(self):
        net = pair()
        net.host("c")
        net.link("b", "c")
        self.assertEqual(net.copy().remove("c").data, pair().data)
        self.assertEqual(net.copy().remove("core").links(), ["b-c"])
        self.assertEqual(net.copy().remove("b").links(), [])
        with self.assertRaises(KeyError):
            net.remove("d")

    def test_text_that_is_not_toml_gives_the_place(self):
        with self.assertRaises(nt.LabError) as raised:
            nt.Lab.from_toml('[lab]\nname = "x"\nseed = = 1\n')
        error = raised.exception
        self.assertEqual((error.code, error.line, error.file), ("lab::E0001", 3, None))
        self.assertIn("seed = = 1", str(error))

    def test_unknown_argument_of_a_run_is_named(self):
        with self.assertRaisesRegex(TypeError, r"sim\(\) has no argument 'duratio'"):
            nt.Lab("x").sim(duratio="1 s")


class Check(Case):
    def test_errors_of_a_file_name_its_lines(self):
        path = self.folder / "shop.toml"
        path.write_text("# A comment.\n\n[node.a]\n[node.b]\n[[link]]\nends = ['a', 'c']\n")
        lab = nt.Lab.from_toml(path)
        with self.assertRaises(nt.LabError) as raised:
            lab.check()
        self.assertEqual((raised.exception.file, raised.exception.line), (str(path), 6))
        lab.host("d")
        with self.assertRaises(nt.LabError) as raised:
            lab.check()
        self.assertIsNone(raised.exception.file)
        self.assertEqual(os.listdir(self.folder), ["shop.toml"])

    def test_check_returns_the_runs(self):
        net = pair()
        net.link("a", "b", name="second", delay={"sweep": ["1 ms", "2 ms"]})
        plans = net.check()
        self.assertEqual([plan["links"] for plan in plans], [2, 2])
        self.assertEqual(plans[1]["sweep"], [["link.second.delay", "2 ms"]])
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_errors_have_code_place_and_help(self):
        net = pair()
        net.flow("a", "c")
        net.data["link"][0]["queue"] = {"kind": "codel", "target": 5}
        with self.assertRaises(nt.LabError) as raised:
            net.check()
        error = raised.exception
        lines = net.to_toml().splitlines()
        places = {found.code: lines[found.line - 1] for found in error.errors}
        self.assertEqual(set(places), {"lab::E0005", "lab::E0010"})
        self.assertIn("target = 5", places["lab::E0005"])
        self.assertEqual(places["lab::E0010"], 'to = "c"')
        first = error.errors[0]
        self.assertEqual((error.code, error.line, error.help), (first.code, first.line, first.help))
        self.assertGreater(error.column, 1)
        self.assertIn(lines[error.line - 1], str(error))
        self.assertIn("help: ", str(error))
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_generated_module_is_current(self):
        words = [sys.executable, str(PYTHON / "generate.py"), nt.binary(), "--check"]
        done = subprocess.run(words, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, "run python/generate.py" + done.stderr)

    def test_all_sections_of_the_examples_have_a_method(self):
        for path in sorted((ROOT / "examples").glob("**/*.toml")):
            for section in nt.Lab.from_toml(path).data:
                name = {"node": "host", "lab": "name", "import": "import_"}.get(section, section)
                self.assertTrue(hasattr(nt.Lab, name), section)


class Binary(unittest.TestCase):
    def test_missing_binary_names_the_cure(self):
        with tempfile.TemporaryDirectory() as folder:
            empty = {"PATH": folder, "HOME": folder}
            with mock.patch.dict(os.environ, empty, clear=True):
                with mock.patch("netarium._binary.shutil.which", return_value=None):
                    with self.assertRaises(nt.CapabilityError) as raised:
                        nt.binary()
        self.assertIn("pip install netarium", str(raised.exception.cure))

    def test_order_is_variable_scripts_path(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for part in ("scripts", "path"):
                program = folder / part / "netarium"
                program.parent.mkdir()
                program.write_text("#!/bin/sh\n")
                program.chmod(0o755)
            scripts, path = folder / "scripts", folder / "path"
            with mock.patch.dict(os.environ, {"PATH": str(path)}, clear=True):
                self.assertEqual(nt.binary(), str(path / "netarium"))
                with mock.patch("netarium._binary.sys.executable", str(scripts / "python")):
                    self.assertEqual(nt.binary(), str(scripts / "netarium"))
                    os.environ["NETARIUM_BINARY"] = str(path / "netarium")
                    self.assertEqual(nt.binary(), str(path / "netarium"))
                    os.environ["NETARIUM_BINARY"] = str(folder / "none")
                    self.assertRaises(nt.CapabilityError, nt.binary)


if __name__ == "__main__":
    unittest.main()
