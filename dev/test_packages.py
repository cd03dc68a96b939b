"""Programs that tests, examples and scripts start are in dev/packages, or on each minimal Debian.

The search is by patterns: it finds programs named in the source, not those computed at run time.
"""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Programs that need no line in dev/packages, by reason.
KNOWN = {
    "required packages of Debian": """
        apt-cache apt-config apt-get awk base64 basename bash cat chmod chown cp cut date diff dirname dpkg
        dpkg-deb dpkg-query du echo false find getent grep gunzip gzip head hostname id kill ls mkdir
        mkfifo mknod mktemp mount mv nsenter od pivot_root printf pwd readlink realpath rm rmdir sed seq
        setpriv setsid sh sha256sum sleep sort stat tail tar tee test timeout tr true umount
        uname useradd wc""",
    "words of the shell": """
        break case cd continue done esac exit export fi for hash jobs read return set shift
        trap umask unset wait""",
    "installed by dev/setup.sh or the script that starts it": """
        cargo mmdebstrap node npm pip rustc rustup""",
    "built here": "exe netarium run",
    "only started where it is installed": "kubectl man sudo systemctl systemd-sysusers wget xdg-open",
    "recipes that dev/examples otherwise only checks": "etcd etcdctl",
    "a subcommand in $( )": "pkgnames ulimit",
}
FOLDERS = [".ci", "crates", "dev", "examples", "labs", "packaging", "reproduce"]
# Their labs are read, not run.
READ_ONLY = ("crates/cluster/placement/", "crates/lab/file/", "crates/lab/report/")
STRING = re.compile(r"""'[^']*'|"(?:\\.|[^"\\])*\"""", re.DOTALL)
PROGRAM = re.compile(r"[\w./][\w.+/-]*[a-z][\w.+/-]*")
# What can precede a command on its line.
WORDS = "if|elif|then|else|do|while|until|exec|command|env|as_root|retry"
BEFORE = re.compile(rf"^(?:(?:!|\{{|\(|{WORDS})\s+|\w+=\S*\s+|[\w|*.=_ -]*\)\s+)*")


def listed():
    """The programs of dev/packages, without their folders."""
    lines = (ROOT / "dev/packages").read_text(encoding="utf-8").splitlines()
    return {name(line.split()[0]) for line in lines if line and line[0] != "#"}


def name(path):
    return path.rpartition("/")[2]


def commands(script):
    """The first words of commands of a shell script."""
    script = re.sub(r"(?ms)<<-?\s*['\"]?(\w+)['\"]?(.*?\n)\s*\1$", "", script)
    script = re.sub(r"^\s*#.*|\\\n", " ", script, flags=re.MULTILINE)
    parts = []
    while match := re.search(r"\$\(([^()]*)\)", script):
        parts.append(match[1])
        script = f"{script[:match.start()]}_{script[match.end():]}"
    functions = set(re.findall(r"(?m)^\s*(\w+)\(\)", script))
    for part in [script, *parts]:
        part = re.sub(r"\s#.*|\$\(\(.*?\)\)|\d*[<>]+&?\s*[^\s;|)]+", " ", STRING.sub("_", part))
        for command in re.split(r"[;\n|&]+|\(\)\s*\{|\s\(", part):
            word = BEFORE.sub("", command.strip() + " ").split(" ")[0]
            if PROGRAM.fullmatch(word) and word not in functions:
                yield name(word)


def in_rust(text):
    """Programs that Rust code starts or looks for, and those of labs within it."""
    text = re.sub(r"^\s*//.*", "", text, flags=re.MULTILINE)
    yield from re.findall(r'Command::new\("([^"]+)"\)', text)
    yield from re.findall(r'\b(?:at|client|job|server)\.command\(&\["([^"]+)', text)
    lists = r"\binstalled\([^,]+, &\[([^\]]*)|for program in\s*\[([^\]]*)\] \{\s*let found"
    for words in re.findall(lists, text):
        yield from re.findall(r'"([^"]+)"', "".join(words))
    for line in re.findall(r'\.(?:try_)?run\(\s*"((?:\\.|[^"\\])*)"', text):
        yield from commands(line)
    if "no-such" not in text:
        yield from in_lab(text.replace(r"\"", '"').replace(r"\n", "\n"))


def in_lab(text):
    """Programs that a lab file starts."""
    yield from re.findall(r'\brun = \[\s*"([^"]+)"', text)
    quotes = r"'''(.*?)'''", r'"((?:\\.|[^"\\\n])*)"', r"'([^'\n]*)'"
    for script in re.findall(rf"\brun = (?:{'|'.join(quotes)})", text, re.DOTALL):
        yield from commands("".join(script))


def in_python(text):
    """Programs that a Python script starts."""
    return re.findall(r"""\b(?:run|Popen|check_output|check_call)\(\s*\[\s*["']([^"']+)""", text)


def in_scripts(texts):
    """Programs that shell scripts start; they share functions."""
    functions = {f for text in texts.values() for f in re.findall(r"(?m)^\s*(\w+)\(\)", text)}
    for path, text in texts.items():
        yield path, set(commands(text)) - functions


def found():
    """The programs, each with the files that start it."""
    files, scripts = [], {}
    for path in (path for folder in FOLDERS for path in (ROOT / folder).rglob("*")):
        place = str(path.relative_to(ROOT))
        if path.suffix not in READERS or place.startswith(READ_ONLY) or not path.is_file():
            continue
        text = path.read_bytes().decode("utf-8", "replace")
        if path.suffix == ".sh" or text.startswith("#!/bin/sh"):
            scripts[place] = text
        elif read := READERS[path.suffix]:
            files.append((place, read(text)))
    programs = {}
    for place, words in [*files, *in_scripts(scripts)]:
        for word in words:
            programs.setdefault(name(word), set()).add(place)
    return programs


READERS = {".rs": in_rust, ".toml": in_lab, ".py": in_python, ".sh": None, "": None}

class Packages(unittest.TestCase):
    def test_lists_each_program_that_tests_and_examples_start(self):
        known = {program for words in KNOWN.values() for program in words.split()}
        programs = found()
        self.assertGreater(len(programs), 80)
        missing = {p: sorted(places) for p, places in programs.items() if p not in known | listed()}
        self.assertEqual(missing, {}, "add them to dev/packages, or to KNOWN with the reason")
        self.assertEqual(known - set(programs), set(), "nothing starts these")

    def test_finds_programs_of_a_script(self):
        script = """\
            # don't start this
            set -eu
            f() { A=1 one "two; $(two -x | three)" >/dev/null 2>&1 || ! four; }
            case $1 in a | b) five ;; esac
            while six <in; do exec /usr/sbin/seven; done; printf 'eight; nine'
            f; as_root env B=c ten <<-EOF
            no
            EOF
        """
        programs = set(commands(script)) - {"case", "done", "esac", "f", "printf", "set"}
        expected = {"one", "two", "three", "four", "five", "six", "seven", "ten"}
        self.assertEqual(programs, expected)

    def test_finds_programs_of_rust(self):
        code = r"""
            // Command::new("no")
            Command::new("one"); installed("test", &["two", "three"]);
            for program in ["four", "five"] { let found = 1; }
            client.run("six -x; seven"); client.command(&["eight", "no"]);
            let lab = "[[program]]\nrun = \"nine | ten\"\nrun = [\"eleven\", \"-x\"]";
            let more = r#"run = '''exec twelve'''"#;
        """
        expected = {
            *["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"],
            *["eleven", "twelve"],
        }
        self.assertEqual(set(in_rust(code)), expected)


if __name__ == "__main__":
    unittest.main()
