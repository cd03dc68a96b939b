"""BIRD as a collector: it has the BGP sessions, and dumps received messages."""

import os
import shutil
import sys
import time
from pathlib import Path

import bgpdata
from machine import PROBES, Failure, Namespace, folder, one_core, run, start

BIRD = shutil.which("bird") or "/usr/sbin/bird"
LOCAL = "10.9.0.1"

CONFIG = """
router id {local};
log stderr {{ error, fatal }};
mrtdump "{dump}";
protocol device {{ }}
"""

PEER = """
protocol bgp p{number} {{
    local {local} as 65000;
    neighbor {address} as {system};
    multihop;
    passive on;
    ipv4 {{ import all; export none; }};
    mrtdump {{ messages, states }};
}}
"""


def figures(pid):
    """Processor seconds and resident bytes."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    ticks = os.sysconf("SC_CLK_TCK")
    resident = int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
    return (int(fields[11]) + int(fields[12])) / ticks, resident


def load(archive):
    """Replays the streams of all peers to BIRD; its processor seconds, and the bytes by which it
    grew."""
    peers = bgpdata.streams(archive)
    with folder() as place:
        place = Path(place)
        dump = place / "dump.mrt"
        text = CONFIG.format(local=LOCAL, dump=dump)
        space = Namespace()
        speaker = bird = None
        try:
            words = []
            for number, (address, system, sent) in enumerate(peers):
                run(space.inside("ip", "address", "add", f"{address}/32", "dev", "lo"))
                text += PEER.format(number=number, local=LOCAL, address=address, system=system)
                # NOTIFICATION: the session must stay.
                stream = place / address
                stream.write_bytes(b"".join(one for one in sent if one[18] != 3))
                words.append(stream)
            run(space.inside("ip", "address", "add", f"{LOCAL}/32", "dev", "lo"))
            (place / "bird.conf").write_text(text)
            own = ["-c", place / "bird.conf", "-s", place / "control", "-P", place / "pid"]
            bird = start(space.inside(*one_core([BIRD, "-f", *own])))
            time.sleep(0.5)
            empty = figures(bird.pid)[1]
            speaker = start(space.inside(sys.executable, PROBES / "speakers.py", LOCAL, *words))
            if speaker.stdout.readline().strip() != "sent":
                raise Failure("the speakers ended: " + speaker.stderr.read().strip()[-300:])
            used, resident = settled(bird)
            if dump.stat().st_size < archive.stat().st_size * 0.9:
                raise Failure("BIRD has not dumped all messages")
            return used, resident - empty
        finally:
            for process in (speaker, bird):
                if process and process.poll() is None:
                    process.kill()
                    process.communicate()
            space.close()


def settled(bird):
    """Waits until BIRD is idle."""
    before = None
    for _ in range(60):
        time.sleep(0.5)
        if bird.poll() is not None:
            raise Failure("BIRD ended: " + bird.stderr.read().strip()[-300:])
        now = figures(bird.pid)
        if before and now[0] - before[0] < 0.03:
            return now
        before = now
    raise Failure("BIRD does not become idle")
