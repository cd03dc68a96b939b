"""The machine: processes, namespaces, veth pairs, counters."""

import ctypes
import json
import os
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT / "bench" / "peers"
PROBES = ROOT / "bench" / "probes"
BUILD = (ROOT / os.environ.get("NETARIUM_BUILD", "target/release")).resolve()
NETARIUM = BUILD / "netarium"
PROBE = BUILD / "netarium-bench"

_libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1


class Failure(Exception):
    """The reason why a measurement failed."""


def _die_with_parent():
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def start(command, **options):
    """Starts a process that the kernel kills when this one ends."""
    options.setdefault("stdout", subprocess.PIPE)
    options.setdefault("stderr", subprocess.PIPE)
    return subprocess.Popen(
        [str(word) for word in command], text=True, preexec_fn=_die_with_parent, **options
    )


def finish(process, timeout, text=None):
    """Waits for a process, which may read a text; its standard output."""
    try:
        output, errors = process.communicate(text, timeout=timeout)
    except subprocess.TimeoutExpired as error:
        process.kill()
        try:
            process.communicate(timeout=5)
        except subprocess.TimeoutExpired:
            pass  # A child process holds its output open.
        raise Failure(f"{process.args[0]} took longer than {timeout} s") from error
    if process.returncode != 0:
        last = (errors or output or "").strip().splitlines()[-3:]
        raise Failure(f"{' '.join(process.args)}: exit {process.returncode}: {' / '.join(last)}")
    return output


def run(command, timeout=60):
    """Runs a command; its standard output."""
    return finish(start(command), timeout)


def one_core(command):
    """The command on one processor, with all its threads."""
    return ["taskset", "--cpu-list", max(os.sched_getaffinity(0)), *command]


def last_json(text):
    """The last line that is a JSON object."""
    for line in reversed(text.strip().splitlines()):
        if line.startswith("{"):
            return json.loads(line)
    raise Failure("no result was printed")


class Processor:
    """Processor time of the programs that were started and waited for within."""

    def __enter__(self):
        self.seconds = -self._all()
        return self

    def __exit__(self, *_):
        self.seconds += self._all()

    @staticmethod
    def _all():
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime


def have(program):
    return shutil.which(program) is not None


class Namespace:
    """A network namespace held by a process, which ends with the process."""

    def __init__(self):
        own = os.readlink("/proc/self/ns/net")
        self.holder = start(["unshare", "--net", "--", "sleep", "infinity"])
        self.pid = self.holder.pid
        for _ in range(2000):
            if self.holder.poll() is not None:
                raise Failure("no network namespace: " + self.holder.stderr.read().strip())
            try:
                if os.readlink(f"/proc/{self.pid}/ns/net") != own:
                    break
            except OSError:
                pass
            time.sleep(0.001)
        run(self.inside("ip", "link", "set", "lo", "up"))

    def inside(self, *command):
        return ["nsenter", f"--net=/proc/{self.pid}/ns/net", "--", *command]

    def close(self):
        self.holder.kill()
        self.holder.communicate()


class Pair:
    """Two namespaces with an address each: `a` 10.99.0.1, `b` 10.99.0.2."""

    ADDRESS = "10.99.0.2"

    def __init__(self):
        self.a, self.b = Namespace(), Namespace()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.a.close()
        self.b.close()

    def join_by_veth(self):
        ends = ["ip", "link", "add", "v0", "netns", self.a.pid, "type", "veth"]
        run([*ends, "peer", "name", "v0", "netns", self.b.pid])
        self.address("v0")

    def address(self, device):
        for end, last in ((self.a, 1), (self.b, 2)):
            ip = [*end.inside("ip")]
            run([*ip, "address", "add", f"10.99.0.{last}/24", "dev", device])
            run([*ip, "link", "set", device, "up"])

    def limit(self, bits_per_s, limit_bytes):
        """The kernel's token bucket on a's end, with Ethernet's overhead (24 B beside the
        header that the kernel counts itself)."""
        burst = max(int(bits_per_s / 8 * 0.001), 16_000)
        tbf = ["tbf", "rate", f"{bits_per_s}bit", "burst", burst, "limit", limit_bytes]
        add = ["tc", "qdisc", "add", "dev", "v0", "root", *tbf, "overhead", "24"]
        run(self.a.inside(*add))


def folder(place=None):
    """A temporary folder, which is deleted after its last use."""
    return tempfile.TemporaryDirectory(prefix="netarium-bench-", dir=place)


def cpu_seconds():
    """Processor time of the whole machine since boot: busy, and stolen by its host."""
    ticks = os.sysconf("SC_CLK_TCK")
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    user, nice, system, _idle, _wait, irq, soft, steal = (int(f) for f in fields[:8])
    return (user + nice + system + irq + soft) / ticks, steal / ticks


def memory_kb(*names):
    """Fields of /proc/meminfo."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    fields = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    return [fields[name] for name in names]


def settle():
    """Waits until the kernel has cleaned up after the previous measurement, in the background."""
    before = memory_kb("Slab")[0]
    for _ in range(30):
        time.sleep(1)
        now = memory_kb("Slab")[0]
        if abs(now - before) < 1024:
            return
        before = now


# `ip netns` and Rattan keep names in this folder: use a separate one in a mount namespace.
OWN_NAMES = ["sh", "-c", 'mkdir -p /run/netns && mount -t tmpfs none /run/netns && exec "$@"', "sh"]


def family(pid):
    """A process and all its descendants."""
    found = [pid]
    for one in found:
        try:
            for task in Path(f"/proc/{one}/task").iterdir():
                found += [int(child) for child in (task / "children").read_text().split()]
        except OSError:
            pass
    return found


def private_kb(pid):
    """Memory of a process; shared pages are divided among the sharing processes (PSS)."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def description():
    """The properties of the machine that affect the results."""
    model = "unknown"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    uname = os.uname()
    return {
        "kernel": f"{uname.sysname} {uname.release}",
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)),
        "memory_mb": memory_kb("MemTotal")[0] // 1024,
        "commit": run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"]).strip()
        if (ROOT / ".git").exists()
        else None,
    }
