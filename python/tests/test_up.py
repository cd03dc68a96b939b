"""Labs on the wall clock: runs with programs, labs that stay up."""

import os
import subprocess
import sys
import time
import unittest
from unittest import mock

from kit import PYTHON, LabCase, nt, pair

from netarium import _binary, _up


def unique() -> nt.Lab:
    """Labs that stay up have different names on one machine."""
    return pair(f"pair-{os.getpid()}")


class Conditions(unittest.TestCase):
    def test_conditions_are_those_of_the_lab_file(self):
        self.assertEqual(nt.port(80), "port 80")
        self.assertEqual(nt.udp_port(53), "udp port 53")
        self.assertEqual(nt.output('a "b"'), 'output "a \\"b\\""')
        self.assertEqual(nt.file("/tmp/x"), 'file "/tmp/x"')

    def test_conditions_have_a_test(self):
        kind, line = _up.probe(nt.port(6379))
        self.assertEqual(kind, "probe")
        self.assertIn(":18EB [0-9A-F]+:0000 0A", line)
        self.assertEqual(_up.probe(nt.output('a "b"')), ("output", 'a "b"'))
        self.assertEqual(_up.probe(nt.file("/tmp/a b")), ("probe", "test -e '/tmp/a b'"))
        self.assertEqual(_up.probe('command "true"'), ("probe", "true"))
        self.assertEqual(_up.probe("2 s"), ("time", "2 s"))
        with self.assertRaisesRegex(ValueError, "not a time"):
            _up.probe("prot 80")


class Wall(LabCase):
    def test_run_has_programs(self):
        net = pair()
        net.program("b", "echo out; echo err >&2; exit 3", name="bad")
        net.program("a", "sleep 60", name="service", service=True)
        run = net.run(duration="5 s")
        self.assertEqual((run.outcome, run.exit_code), ("failed", 5))
        bad, service = run.programs["bad"], run.programs["service"]
        self.assertEqual((bad.stdout, bad.stderr, bad.exit_code), ("out\n", "err\n", 3))
        self.assertEqual((service.end, service.as_expected), ("stopped", True))
        with self.assertRaises(nt.ProgramError) as raised:
            run.check()
        self.assertEqual((raised.exception.exit_code, raised.exception.stderr), (3, "err\n"))

    def test_program_that_cannot_start(self):
        net = unique()
        net.program("a", ["/none/such"])
        with self.assertRaises(nt.LabError) as raised:
            net.up()
        self.assertEqual(raised.exception.code, "lab::E0019")
        net = unique()
        net.program("a", "echo no >&2; exit 1", ready=nt.port(80))
        with self.assertRaisesRegex(nt.ProgramError, "ready") as raised:
            net.up()
        error = raised.exception
        self.assertEqual((error.exit_code, error.stderr), (1, "no\n"))
        self.assertEqual((error.run.outcome, list(error.run.programs)), ("failed", ["a.sh"]))

    def test_interrupt_of_the_start_leaves_no_lab(self):
        wait, codes = _binary.wait, iter([_binary.INTERRUPTED])

        def interrupted_once(child):
            result = wait(child)
            return result._replace(exit_code=next(codes, result.exit_code))

        with mock.patch.object(_binary, "wait", interrupted_once):
            self.assertRaises(KeyboardInterrupt, unique().up)
        (path,) = self.folder.glob("runs/*/run.json")
        self.assertNotEqual(nt.Run(path).outcome, "running")

    def test_lab_ends_with_a_killed_process_unless_it_is_kept(self):
        code = (
            "import os, sys, time; sys.path[:0] = sys.argv[1:3]\n"
            "from test_up import unique\n"
            "lab = unique().up(keep=sys.argv[3] == 'keep')\n"
            "print(lab.folder, lab.id, flush=True)\n"
            "time.sleep(600)\n"
        )
        for keep in ("end", "keep"):
            words = [sys.executable, "-B", "-c", code, str(PYTHON / "tests"), str(PYTHON), keep]
            with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as child:
                folder, identifier = child.stdout.readline().split()
                child.kill()
            if keep == "keep":
                self.assertEqual(nt.Run(folder).outcome, "running")
                _binary.call("down", identifier)
            while nt.Run(folder).outcome == "running":
                time.sleep(0.05)

    def test_work_in_a_lab_that_is_up(self):
        with unique().up() as lab:
            self.commands(lab["a"])
            self.processes(lab)
            self.changes(lab)
            lab.mark("healed")
            self.assertEqual(lab.result.outcome, "running")
            self.assertFalse(lab.result.verdict.trusted)
            with self.assertRaisesRegex(KeyError, "no host c; hosts: a, b"):
                lab["c"]
        run = lab.result
        self.assertNotEqual(run.outcome, "running")
        self.assertIn("mark: healed", run.events.column("text"))
        self.assertIs(lab.down(), run)
        with self.assertRaisesRegex(nt.LabError, "no running lab"):
            lab["a"].run("true")
        self.assertEqual([path.name for path in self.folder.iterdir()], ["runs"])

    def commands(self, host: nt.Host) -> None:
        done = host.run("cat; echo err >&2; exit 3", input="in")
        self.assertEqual((done.exit_code, done.stdout, done.stderr), (3, "in", "err\n"))
        self.assertEqual(host.run(["hostname"], check=True).stdout, "a\n")
        with self.assertRaises(nt.ProgramError) as raised:
            host.run("echo err >&2; exit 3", check=True)
        self.assertEqual((raised.exception.exit_code, raised.exception.stderr), (3, "err\n"))
        with self.assertRaisesRegex(TimeoutError, "more than 100 ms"):
            host.run("sleep 600.25; true", timeout="100 ms")
        # Child processes of the shell have ended too.
        self.assertNotIn("600.25", host.run("cat /proc/[0-9]*/cmdline | grep -c 600.2[5]").stdout)
        with self.assertRaisesRegex(TypeError, "bare number has no unit"):
            host.run("true", timeout=5)

    def processes(self, lab: nt.RunningLab) -> None:
        web = "python3 -m http.server 80"
        server = lab["b"].start(web, ready=nt.port(80))
        self.assertEqual((lab.processes, server.host), ([server], lab["b"]))
        fetch = ["python3", "-c", "import urllib.request as u; u.urlopen('http://b/').read()"]
        lab["a"].run(fetch, check=True)
        self.assertIsNone(server.exit_code)
        server.stop()
        self.assertNotEqual(lab["a"].run(fetch).exit_code, 0)
        self.assertEqual(server.exit_code, -9)
        greeter = lab["b"].start("echo hello; exec sleep 600", ready=nt.output("hello"))
        self.assertEqual(greeter.stdout, "hello\n")
        with self.assertRaisesRegex(TimeoutError, "more than 10 ms"):
            greeter.wait("10 ms")
        with self.assertRaisesRegex(nt.ProgramError, "status 4 before it was ready") as raised:
            lab["b"].start("echo bad >&2; exit 4", ready=nt.port(81))
        self.assertEqual((raised.exception.exit_code, raised.exception.stderr), (4, "bad\n"))
        with self.assertRaisesRegex(nt.ProgramError, "not ready in time"):
            lab["b"].start("sleep 600", ready=nt.port(81), ready_timeout="10 ms")

    def changes(self, lab: nt.RunningLab) -> None:
        link = lab.link("b", "a")
        self.assertEqual(link.name, "core")
        with link.set(loss="100 %", up={"delay": "7 ms"}):
            lost = lab["a"].run(["ping", "-c", "1", "-W", "1", "b"])
            self.assertNotEqual(lost.exit_code, 0)
        lab["a"].run(["ping", "-c", "1", "-W", "5", "b"], check=True)
        link.set(rate="1 Mbit/s")
        with link.set(rate="2 Mbit/s"), lab.link("core").set(state="down"):
            pass
        values = {
            key: value for key, value in lab._changed.items() if "up" in key or "state" in key
        }
        self.assertEqual(
            values,
            {
                "link.core.up.loss": "0 %",
                "link.core.up.delay": "5 ms",
                "link.core.up.rate": "1 Mbit/s",
                "link.core.state": "up",
            },
        )
        with self.assertRaises(nt.LabError) as raised:
            link.set(loss="5 ms")
        self.assertEqual(raised.exception.code, "lab::E0005")
        with self.assertRaisesRegex(LookupError, "0 links named x; links: core"):
            lab.link("x")


if __name__ == "__main__":
    unittest.main()
