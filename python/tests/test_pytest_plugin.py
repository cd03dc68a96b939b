"""The plug-in of pytest, which runs tests in a process of its own."""

import importlib.util
import os
import re
import subprocess
import sys
import textwrap
import unittest
import xml.etree.ElementTree
from pathlib import Path

from kit import PYTHON, ROOT, Case, LabCase, nt

HEAD = """
import netarium as nt
import pytest

def pair():
    net = nt.Lab("pair", duration="2 s")
    a, b = net.hosts("a", "b")
    net.link(a, b, name="core", rate="10 Mbit/s", delay="5 ms")
    return net

def flow():
    net = pair()
    net.flow("a", "b", rate="1 Mbit/s", transport="udp")
    return net
"""
# The first runs get an outcome that only a busy machine causes.
UNTRUSTED = """
import netarium as nt
sim, left = nt.Lab.sim, [{runs}]
def distorted(lab, **keys):
    run = sim(lab, **keys)
    if left[0]:
        left[0] -= 1
        run.record.update(outcome="untrusted", reasons=["too busy"])
        run.record["verdict"].update(trusted=False, machine_fit={machine_fit})
    return run
nt.Lab.sim = distorted
"""


def missing(module: str, package: str) -> str:
    """The reason to skip a test without a module; empty if it is there."""
    there = importlib.util.find_spec(module)
    return "" if there else f"{module} is not installed\n  cure: pip install {package}"


NO_PYTEST = missing("pytest", "pytest==9.2.0")
NO_XDIST = missing("xdist", "pytest-xdist==3.8.0")


class Outcome:
    """A test in the JUnit file."""

    def __init__(self, case: xml.etree.ElementTree.Element) -> None:
        ends = [child for child in case if child.tag in ("failure", "error", "skipped")]
        self.outcome = ends[0].tag if ends else "passed"
        self.text = (ends[0].text or "") + "\n" + ends[0].get("message", "") if ends else ""
        self.properties = [(p.get("name"), p.get("value")) for p in case.iter("property")]

    def property(self, name: str) -> str:
        return dict(self.properties)[f"netarium_{name}"]


def run_pytest(folder: Path, *words, **environment):
    """Runs pytest in a folder; its output, and the tests by name."""
    variables = {"PYTHONPATH": str(PYTHON), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **environment}
    command = [sys.executable, "-B", "-m", "pytest", "-p", "netarium.pytest_plugin", "-rs"]
    command += ["-p", "no:cacheprovider", "--junit-xml=junit.xml", "--basetemp=temporary", *words]
    variables = {**os.environ, "COLUMNS": "200", **variables}
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True)
    cases = xml.etree.ElementTree.parse(folder / "junit.xml").iter("testcase")
    return done.stdout, {case.get("name"): Outcome(case) for case in cases}


class Plugin:
    """Runs tests of a text in the folder of the case."""

    def pytest(self, text: str, *words, **environment):
        """The output of pytest, and the tests by name."""
        Path("test_labs.py").write_text(HEAD + textwrap.dedent(text))
        return run_pytest(self.folder, *words, **environment)

    def one(self, text: str, *words, **environment) -> Outcome:
        """The only test."""
        ((_, found),) = self.pytest(text, *words, **environment)[1].items()
        return found


@unittest.skipIf(NO_PYTEST, NO_PYTEST)
class Virtual(Plugin, Case):
    def test_marker_names_a_file_a_lab_or_a_function(self):
        text = """
            @pytest.mark.netarium(flow(), set={"link.core.delay": "20 ms"}, duration="1 s")
            def test_lab(netarium_run):
                assert netarium_run.summary["links"][0]["to"] == "b"
                assert netarium_run.record["elapsed_s"] == 1
                assert netarium_run.metrics["flow.a-b.delay.p50"].value > 0.02

            @pytest.mark.netarium(lab=flow)
            class TestClass:
                @pytest.mark.netarium(seed=9)
                def test_function(self, netarium_run):
                    assert netarium_run.seed == 9
            """
        Path("labs").mkdir()
        lab = nt.Lab("file", duration="1 s")
        lab.hosts("a", "b")
        lab.link("a", "b", rate="1 Mbit/s")
        lab.flow("a", "b")
        Path("labs/flow.toml").write_text(lab.to_toml())
        Path("labs/test_file.py").write_text(textwrap.dedent("""
            import pytest

            @pytest.mark.netarium("flow.toml", name="named", seed=7)
            def test_file(netarium_run):
                assert (netarium_run.name, netarium_run.seed) == ("named-test_file", 7)
            """))
        output, found = self.pytest(text)
        self.assertEqual([test.outcome for test in found.values()], ["passed"] * 3, output)
        properties = [("netarium_attempts", "1"), ("netarium_outcome", "passed")]
        self.assertEqual(found["test_file"].properties, [*properties, ("netarium_seed", "7")])
        self.assertEqual(list(Path("temporary").glob("*/*")), [], "run folders are removed")

    def test_wrong_markers_are_errors(self):
        text = """
            def test_without(netarium_run): pass

            @pytest.mark.netarium(lab=flow, trust="retry")
            def test_trust(netarium_run): pass

            @pytest.mark.netarium(lab=flow, seeds=3)
            def test_argument(netarium_run): pass

            @pytest.mark.netarium("a.toml", "b.toml")
            def test_two(netarium_run): pass

            @pytest.mark.netarium("none.toml")
            def test_file(netarium_run): pass
            """
        found = self.pytest(text)[1]
        for name, error in {
            "test_without": "mark it with @pytest.mark.netarium",
            "test_trust": 'write "retry:2"',
            "test_argument": "unexpected keyword argument 'seeds'",
            "test_two": "one argument without a name",
            "test_file": "No such file",
        }.items():
            self.assertEqual(found[name].outcome, "error")
            self.assertIn(error, found[name].text)
            self.assertNotIn("pytest_plugin.py", found[name].text, "no traceback")

    def test_untrusted_run_of_a_passed_test(self):
        def outcome(runs, marker, *words, end="assert True", machine_fit=False):
            conftest = UNTRUSTED.format(runs=runs, machine_fit=machine_fit)
            Path("conftest.py").write_text(conftest)
            text = f"""
                @pytest.mark.netarium(lab=flow{marker})
                def test_run(netarium_run, record_property):
                    record_property("name", "once")
                    print("once")
                    {end}
                """
            return self.one(text, *words)

        found = outcome(2, "")
        self.assertEqual((found.outcome, found.property("attempts")), ("passed", "3"))
        self.assertEqual(found.properties.count(("name", "once")), 1)
        found = outcome(2, ", trust='retry:1'")
        self.assertEqual((found.outcome, found.property("attempts")), ("failure", "2"))
        self.assertIn("its run is untrusted in each of 2 attempts: too busy", found.text)
        self.assertIn("report.html", found.text)
        found = outcome(1, ", trust='fail'")
        self.assertEqual((found.outcome, found.property("attempts")), ("failure", "1"))
        found = outcome(1, ", trust='skip'")
        self.assertEqual((found.outcome, found.property("attempts")), ("skipped", "1"))
        report = Path(found.property("folder"), "report.html")
        self.assertIn(f"its run is untrusted: too busy\n  report: {report}", found.text)
        found = outcome(1, "", "--netarium-trust", "skip")
        self.assertEqual(found.outcome, "skipped")
        found = outcome(1, ", trust='retry:1'", "--netarium-trust", "skip")
        self.assertEqual((found.outcome, found.property("attempts")), ("passed", "2"))
        # Not the machine is the cause, or the test decides without the run.
        found = outcome(1, "", machine_fit=True)
        self.assertEqual((found.outcome, found.property("attempts")), ("failure", "1"))
        found = outcome(1, "", end="assert False")
        self.assertEqual((found.outcome, found.property("attempts")), ("failure", "1"))
        self.assertIn("assert False", found.text)
        self.assertIn("pair-test_run: untrusted", found.text)

    def test_summary_counts_repeated_tests(self):
        Path("conftest.py").write_text(UNTRUSTED.format(runs=1, machine_fit=False))
        text = """
            @pytest.mark.netarium(lab=flow)
            def test_run(netarium_run): pass
            """
        output, _ = self.pytest(text)
        self.assertIn("netarium: tests executed again, as their runs were untrusted: 1", output)
        self.assertNotIn("executed again", self.pytest(text, "-k", "none")[0])

    def test_run_is_part_of_the_test(self):
        text = """
            def failing():
                net = flow()
                net.expect("flow.a-b.goodput.mean >= 2 Mbit/s")
                return net

            @pytest.mark.netarium(lab=failing)
            def test_expectation(netarium_run): pass

            @pytest.mark.netarium(lab=failing, check=False)
            def test_unchecked(netarium_run):
                assert netarium_run.outcome == "failed"

            @pytest.mark.netarium(lab=flow)
            def test_assertion(netarium_run):
                assert netarium_run.seed == 0
            """
        output, found = self.pytest(text, "--netarium-runs", "kept")
        self.assertEqual(found["test_unchecked"].outcome, "passed", output)
        failed = found["test_expectation"]
        self.assertEqual(failed.outcome, "failure")
        self.assertIn("its lab failed: expected flow.a-b.goodput.mean >= 2 Mbit/s", failed.text)
        failed = found["test_assertion"]
        folder = failed.property("folder")
        self.assertIn("netarium_run.seed == 0", failed.text)
        self.assertIn(f"pair-test_assertion: passed (seed 1)\n  report: {folder}", failed.text)
        self.assertTrue(Path(folder, "report.html").is_file())
        self.assertEqual(len(list(Path("kept").iterdir())), 3)

    def test_machine_that_cannot_run_labs(self):
        text = """
            @pytest.mark.netarium(lab=flow)
            def test_run(netarium_run): pass
            """
        found = self.one(text, NETARIUM_BINARY="/none")
        self.assertEqual(found.outcome, "skipped")
        self.assertIn("NETARIUM_BINARY=/none is not a program\n  cure: unset it", found.text)
        found = self.one(text, "--netarium-require", NETARIUM_BINARY="/none")
        self.assertEqual(found.outcome, "error")
        self.assertIn("cure: unset it", found.text)


@unittest.skipIf(NO_PYTEST, NO_PYTEST)
class Wall(Plugin, LabCase):
    def test_programs_that_fail_are_in_the_text(self):
        text = """
            import time

            PING = ["ping", "-c", "1", "b"]

            def bad(**keys):
                net = pair()
                net.program("b", "seq 99 >&2; exit 7", name="bad", **keys)
                return net

            @pytest.mark.netarium(lab=bad, duration="2 s")
            def test_program(netarium_lab):
                netarium_lab["a"].run(PING, check=True)
                while netarium_lab.result.outcome == "running":
                    time.sleep(0.1)

            @pytest.mark.netarium(bad(ready=nt.port(80)))
            def test_start(netarium_lab): pass

            @pytest.mark.netarium(lab=pair)
            def test_command(netarium_lab):
                stopped = netarium_lab["b"].start("echo stopped >&2; sleep 60")
                stopped.stop()
                netarium_lab["a"].start("echo cause >&2; exit 3").wait()
                assert not "result"

            @pytest.fixture
            def server(netarium_lab):
                yield netarium_lab["b"].start("sleep 60")
                # The lab is up until the end of other fixtures.
                netarium_lab["a"].run(PING, check=True)

            @pytest.mark.netarium(lab=pair)
            def test_end(netarium_lab, server):
                assert server.exit_code is None

            @pytest.mark.netarium(lab=pair)
            def test_early_end(netarium_lab):
                netarium_lab["a"].run(PING, check=True)
                assert netarium_lab.down().outcome == "passed"
            """
        output, found = self.pytest(text)
        stderr = "  stderr, without its first 79 lines:\n    80\n"
        for name, outcome in {"test_program": "failure", "test_start": "error"}.items():
            self.assertEqual(found[name].outcome, outcome, output)
            self.assertIn("program bad on b: exit 7\n  seq 99 >&2; exit 7\n", found[name].text)
            self.assertIn(stderr, found[name].text)
        self.assertIn("its lab failed: program bad on b", found["test_program"].text)
        self.assertIn("the lab did not start: program bad ended", found["test_start"].text)
        text = found["test_command"].text
        self.assertIn("command on a: exit status 3\n  echo cause >&2; exit 3\n", text)
        self.assertIn("  stderr:\n    cause", text)
        self.assertEqual(text.count("command on"), 1, text)
        for name in ("test_end", "test_early_end"):
            self.assertEqual(found[name].outcome, "passed", output)
        labs = subprocess.run([nt.binary(), "ps"], capture_output=True, text=True)
        self.assertNotIn("pair-test_", labs.stdout)

    @unittest.skipIf(NO_XDIST, NO_XDIST)
    def test_each_worker_has_its_lab(self):
        text = """
            @pytest.mark.netarium(lab=pair)
            @pytest.mark.parametrize("number", range(2))
            def test_worker(netarium_lab, number, worker_id):
                assert netarium_lab.name == f"pair-{worker_id}-test_worker-{number}"
                netarium_lab["a"].run(["ping", "-c", "1", "b"], check=True)
            """
        words = ["-p", "xdist.plugin", "-n", "2", "--netarium-runs", "kept"]
        output, found = self.pytest(text, *words)
        self.assertEqual([test.outcome for test in found.values()], ["passed"] * 2, output)
        names = {Path(test.property("folder")).name[:8] for test in found.values()}
        self.assertEqual(names, {"pair-gw0", "pair-gw1"})

    def test_services_of_the_examples(self):
        folder = str(ROOT / "examples" / "pytest")
        output, found = run_pytest(self.folder, folder, "--netarium-trust", "skip")
        outcomes = {test.outcome for test in found.values()}
        self.assertLessEqual(outcomes, {"passed", "skipped"}, output)
        reasons = [test.text for test in found.values() if test.outcome == "skipped"]
        expected = "cure: apt-get install|its run is untrusted"
        self.assertEqual([r for r in reasons if not re.search(expected, r)], [], output)
        self.assertEqual(len(found), 5, output)


if __name__ == "__main__":
    unittest.main()
