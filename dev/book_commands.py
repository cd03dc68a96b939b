"""Runs the commands of README, guides and reference pages, literally and in order.

    python3 dev/book_commands.py NETARIUM [PAGE…]
    python3 dev/book_commands.py --examples          only print the example labs that they run

Each page has a clean folder with the repository's `examples` and `labs`. In blocks of the language
`console`, lines that begin with `$ ` are commands for the shell; other lines are sample output. A
command passes if it exits with 0, or with 3 (untrusted: that judges the machine). A comment in the
line before a block changes that:

    <!-- book: file NAME -->      the block is the content of file NAME; a lab must pass `check`
    <!-- book: background [N] --> the commands run while the page continues, and exit with N
    <!-- book: wait LAB -->       first wait until `netarium ps` lists the lab
    <!-- book: exit N -->         the last command exits with N
    <!-- book: given COMMAND -->  first run this command, for example to copy a file of $REPOSITORY
    <!-- book: skip REASON -->    the block does not run
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
COMMAND_TIMEOUT_SECONDS = 180
LAB_START_TIMEOUT_SECONDS = 60
UNTRUSTED = 3
BLOCK = re.compile(
    r"(?:<!-- book: (?P<directive>[^>]*?) -->\n)?^```(?P<language>[a-z]+)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


class Block(NamedTuple):
    """A fenced block that runs, or becomes a file."""

    line: int
    action: str
    argument: str
    text: str

    def commands(self):
        return commands(self.text)


def commands(text):
    """The commands among the lines of a console block; a backslash continues one."""
    found, continued = [], False
    for line in text.splitlines():
        if continued:
            found[-1] += "\n" + line
        elif line.startswith("$ "):
            found.append(line[2:])
        else:
            continue
        continued = line.endswith("\\")
    return found


def blocks(page):
    """The blocks of a page that are commands, or files for them."""
    found = []
    for match in BLOCK.finditer(page):
        action, _, argument = (match["directive"] or "run").partition(" ")
        if action == "file" or match["language"] == "console":
            line = page.count("\n", 0, match.start("text"))
            found.append(Block(line, action, argument, match["text"]))
    return found


class PageError(Exception):
    """A command or file of a page is wrong."""


class Page:
    """A page whose commands run in a separate folder."""

    def __init__(self, path, netarium, folder):
        self.path, self.folder = path, folder
        self.environment = {
            **os.environ,
            "PATH": f"{netarium.parent}:{os.environ['PATH']}",
            "COLUMNS": "80",
            "REPOSITORY": str(ROOT),
        }
        self.background = []
        for name in ("examples", "labs"):
            shutil.copytree(ROOT / name, folder / name)

    def run(self):
        """Runs all blocks; returns the number of commands."""
        count = 0
        try:
            for block in blocks(self.path.read_text()):
                count += self.execute(block)
            for command, child, expected in self.background:
                self.judge(command, child, expected)
        finally:
            for _, child, _ in self.background:
                child.output.close()
                if child.poll() is None:
                    os.killpg(child.pid, signal.SIGKILL)
                    child.wait()
        return count

    def execute(self, block):
        action, place = block.action, f"{self.path.name}:{block.line}"
        if action == "skip":
            if not block.argument:
                raise PageError(f"{place}: skip needs a reason")
            return 0
        if action == "file":
            (self.folder / block.argument).write_text(block.text)
            if "[lab]" in block.text:
                command = f"netarium check {block.argument}"
                self.judge(command, self.start(command), 0)
            return 0
        if action == "wait":
            self.wait_for_lab(block.argument)
        elif action == "given":
            self.judge(block.argument, self.start(block.argument), 0)
        elif action not in ("run", "background", "exit"):
            raise PageError(f"{place}: unknown directive `{action}`")
        for command in (listed := block.commands()):
            child = self.start(command)
            if action == "background":
                self.background.append((command, child, int(block.argument or 0)))
            else:
                last = command is listed[-1]
                self.judge(command, child, int(block.argument) if action == "exit" and last else 0)
        return len(listed)

    def start(self, command):
        output = tempfile.TemporaryFile()
        child = subprocess.Popen(
            ["sh", "-c", command],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        child.output = output
        return child

    def judge(self, command, child, expected):
        try:
            status = child.wait(COMMAND_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            status = f"no end within {COMMAND_TIMEOUT_SECONDS} s"
        with child.output:
            child.output.seek(0)
            text = child.output.read().decode(errors="replace")
        if status == expected or (status == UNTRUSTED and expected == 0):
            return
        raise PageError(f"$ {command}\nexit status {status}, expected {expected}\n{text}")

    def wait_for_lab(self, name):
        deadline = time.monotonic() + LAB_START_TIMEOUT_SECONDS
        while time.monotonic() < deadline:
            listed = subprocess.run(
                ["netarium", "ps", "--json"], env=self.environment, capture_output=True, text=True
            )
            if f'"{name}"' in listed.stdout:
                return
            time.sleep(0.2)
        raise PageError(f"no lab `{name}` within {LAB_START_TIMEOUT_SECONDS} s")


def pages():
    return [
        ROOT / "README.md",
        *sorted((ROOT / "docs/src/guides").glob("*.md")),
        *sorted((ROOT / "docs/src/reference").glob("*.md")),
    ]


def examples():
    """Example labs that a command of a page runs."""
    found = [block for path in pages() for block in blocks(path.read_text())]
    text = "\n".join("\n".join(b.commands()) for b in found if b.action in ("run", "background"))
    return sorted(set(re.findall(r"netarium (?:run|sim|sweep) (examples/\S+\.toml)", text)))


def main(arguments):
    if arguments == ["--examples"]:
        print(*examples(), sep="\n")
        return 0
    netarium = Path(arguments[0]).resolve()
    failed = False
    for path in [Path(page) for page in arguments[1:]] or pages():
        with tempfile.TemporaryDirectory() as folder:
            try:
                count = Page(path, netarium, Path(folder)).run()
            except PageError as error:
                print(f"FAILED     {path}\n{error}", flush=True)
                failed = True
            else:
                if count:
                    print(f"ok         {path}: {count} commands", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
