"""Tests of packaging/ci with a substitute for netarium: `python3 -B -m unittest discover -s dev`."""

import hashlib
import os
import subprocess
import tarfile
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path

CI = Path(__file__).resolve().parent.parent / "packaging" / "ci"

# Exits with the number in the name of the lab, such as `lab-5.toml`, and writes a run folder unless
# that is 2. Records its arguments.
SUBSTITUTE = r"""#!/bin/sh
printf '%s\n' "$*" >>"$CALLS"
case $1 in
    run | sim)
        code=${2##*-}
        code=${code%.toml}
        if [ "$code" = 2 ]; then
            printf 'bad <lab> & \033[31m"quotes" ::error::x 50 %%\n' >&2
            exit 2
        fi
        mkdir -p "$4/lab-abc123"
        echo '{}' >"$4/lab-abc123/run.json"
        echo page >"$4/lab-abc123/report.html"
        exit "$code"
        ;;
    report) case "$*" in *junit*) echo '<testsuites/>' ;; *) echo "summary of $#" ;; esac ;;
    diff) echo "goodput differs"; exit 1 ;;
    check) exit 2 ;;
    --version) echo netarium 1 ;;
esac
"""


class Scripts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.command = self.folder / "bin" / "netarium"
        self.command.parent.mkdir()
        self.command.write_text(SUBSTITUTE, encoding="utf-8")
        self.command.chmod(0o755)
        self.calls = self.folder / "calls"

    def script(self, name, *arguments, **variables):
        kept = {n: v for n, v in os.environ.items() if not n.startswith(("GITHUB_", "NETARIUM"))}
        path = f"{self.command.parent}:{os.environ['PATH']}"
        env = {**kept, "CALLS": str(self.calls), "PATH": path, **variables}
        command = ["sh", str(CI / name), *map(str, arguments)]
        return subprocess.run(command, cwd=self.folder, env=env, capture_output=True, text=True)

    def run_labs(self, *arguments, **variables):
        return self.script("run-labs", "--out", "out", *arguments, **variables)

    def test_exits_with_most_severe_code(self):
        cases = [
            (["a-0.toml"], "sim", 0),
            (["a-0.toml", "b-1.toml"], "sim", 1),
            (["a-1.toml", "b-3.toml"], "sim", 1),
            (["a-5.toml", "b-1.toml"], "run", 5),
            (["a-2.toml", "b-5.toml"], "run", 2),
            (["a-2.toml", "b-4.toml"], "run", 4),
            (["a-70.toml", "b-130.toml"], "sim", 70),
            (["a-3.toml"], "sim", 3),
            (["a-3.toml"], "run", 0),
            (["a-3.toml", "b-1.toml"], "run", 1),
        ]
        for index, (labs, clock, code) in enumerate(cases):
            with self.subTest(labs=labs, clock=clock):
                ended = self.script("run-labs", "--clock", clock, "--out", f"out{index}", *labs)
                self.assertEqual(ended.returncode, code, ended.stderr)

    def test_untrusted_result_fails_on_request_only(self):
        for value, code in [("true", 3), ("false", 0)]:
            for clock in ["run", "sim"]:
                out = f"out-{clock}-{value}"
                ended = self.script(
                    "run-labs", "--clock", clock, "--fail-on-untrusted", value, "--out", out, "a-3.toml"
                )
                self.assertEqual(ended.returncode, code)

    def test_writes_outputs_even_if_a_lab_fails(self):
        files = {name: str(self.folder / name) for name in ["GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"]}
        ended = self.run_labs("a-0.toml", "b-2.toml", **files)
        self.assertEqual(ended.returncode, 2)
        outputs = Path(files["GITHUB_OUTPUT"]).read_text(encoding="utf-8")
        self.assertEqual(outputs, "outcome=failed\nexit-code=2\nreports=out/reports\n")
        summary = Path(files["GITHUB_STEP_SUMMARY"]).read_text(encoding="utf-8")
        self.assertIn("summary of", summary)
        self.assertIn("bad &lt;lab&gt; &amp; [31m&quot;quotes&quot;", summary)
        self.assertTrue((self.folder / "out/reports/lab-abc123/report.html").is_file())
        # An annotation has one line, in which the text of a lab starts no other command.
        notes = [line for line in ended.stdout.splitlines() if line.startswith("::error")]
        self.assertEqual(notes, ['::error file=b-2.toml::bad <lab> & [31m"quotes" ::error::x 50 %25'])

    def test_report_of_a_lab_error_is_xml(self):
        self.run_labs("b-2.toml")
        tree = ElementTree.parse(self.folder / "out/junit-error-1.xml")
        self.assertEqual(tree.find(".//error").get("message"), "exit code 2")
        self.assertIn('bad <lab> & [31m"quotes"', tree.find(".//error").text)

    def test_passes_each_argument_unchanged(self):
        self.run_labs("--arg", "--set=link.a.delay=10 ms", "--arg", "*", "--arg", "", "a-0.toml")
        first = self.calls.read_text(encoding="utf-8").splitlines()[0]
        self.assertEqual(first, "sim a-0.toml --runs out/runs/1 --set=link.a.delay=10 ms *")

    def test_difference_from_baseline_fails(self):
        (self.folder / "base").mkdir()
        ended = self.run_labs("--baseline", "base", "--tolerance", "5 %", "a-0.toml")
        self.assertEqual(ended.returncode, 1)
        calls = self.calls.read_text(encoding="utf-8")
        expected = "diff --baseline base/a-0.json out/runs/1/lab-abc123 --tolerance 5 %"
        self.assertIn(expected, calls.splitlines())
        self.assertIn("goodput differs", (self.folder / "out/summary.md").read_text("utf-8"))

    def test_rejects_wrong_use(self):
        cases = [[], ["--clock", "both", "a-0.toml"], ["--fly", "a-0.toml"], ["--clock"]]
        for arguments in cases:
            ended = self.run_labs(*arguments)
            self.assertEqual((ended.returncode, ended.stderr[:10]), (2, "run-labs: "))
        ended = self.run_labs("a-0.toml", NETARIUM="no-such-command")
        self.assertIn("`no-such-command` is not installed", ended.stderr)
        self.run_labs("a-0.toml")
        self.assertIn("results of other runs", self.run_labs("a-0.toml").stderr)

    def install(self, **variables):
        return self.script("install-netarium", "installed", **variables)

    def test_installs_from_file_archive_and_package(self):
        archive = self.folder / "netarium.tar.gz"
        with tarfile.open(archive, "w:gz") as tar:
            tar.add(self.command, "netarium-1/netarium")
        digest = hashlib.sha256(archive.read_bytes()).hexdigest()
        root = self.folder / "package"
        (root / "DEBIAN").mkdir(parents=True)
        control = "Package: netarium\nVersion: 1\nArchitecture: all\nMaintainer: a <a@b.c>\nDescription: a\n"
        (root / "DEBIAN/control").write_text(control, encoding="utf-8")
        (root / "usr/bin").mkdir(parents=True)
        (root / "usr/bin/netarium").write_bytes(self.command.read_bytes())
        package = self.folder / "netarium.deb"
        subprocess.run(["dpkg-deb", "-b", root, package], check=True, stdout=subprocess.DEVNULL)
        cases = [
            {"NETARIUM_BINARY": str(self.command)},
            {"NETARIUM_URL": self.command.as_uri()},
            {"NETARIUM_URL": archive.as_uri(), "NETARIUM_SHA256": digest},
            {"NETARIUM_URL": package.as_uri()},
            {},
        ]
        for variables in cases:
            with self.subTest(variables=variables):
                path = self.folder / "path"
                ended = self.install(GITHUB_PATH=str(path), **variables)
                self.assertEqual(ended.returncode, 0, ended.stderr)
                self.assertEqual(ended.stdout.strip(), f"{self.folder.resolve()}/installed/netarium")
                self.assertEqual(path.read_text("utf-8").strip(), f"{self.folder.resolve()}/installed")
                path.unlink()

    def test_rejects_other_download(self):
        ended = self.install(NETARIUM_URL=self.command.as_uri(), NETARIUM_SHA256="0" * 64)
        self.assertEqual(ended.returncode, 4)
        self.assertIn("digest", ended.stderr)
        ended = self.install(NETARIUM_BINARY="/no/such/file")
        self.assertIn("there is no file /no/such/file", ended.stderr)


if __name__ == "__main__":
    unittest.main()
