"""Measures Netarium and its peers in one run, and compares the results with the requirements."""

import argparse
import datetime
import itertools
import json
import signal
import sys
import time

import machine
import peers
from figures import spread
from machine import Failure
from rows import ROWS

RESULTS = machine.ROOT / "bench" / "results"


class Table:
    """Values by row, subject and part, with their requirements."""

    def __init__(self):
        self.entries = {}
        self.peers = {}
        self.notes = []

    def peer(self, row, subject, part, unit, value):
        key = (row, subject, part)
        self.peers.setdefault(key, {"unit": unit, "values": []})["values"].append(value)

    def ours(self, row, subject, part, unit, value, *beside, **must):
        fresh = {"unit": unit, "values": [], "beside": beside, "must": must}
        entry = self.entries.setdefault((row, subject, part, unit), fresh)
        entry["values"].append(value)

    def attempt(self, name, measure):
        """A peer's measurement; None and a note if it is not possible."""
        why = peers.absent(name.lower())
        if why is None:
            try:
                return measure()
            except (Failure, OSError, KeyError) as error:
                why = str(error)
        note = f"{name}: {why}"
        if note not in self.notes:
            self.notes.append(note)
        return None

    def ours_all(self, row, subject, unit, values, at_most=()):
        """Several parts of one subject, shown on one line."""
        for part, value in values.items():
            limit = {"at_most": at_most[part]} if part in at_most else {}
            self.ours(row, subject, part, unit, value, **limit)

    def stalls(self, row, subject, sender):
        """The stalls of a spinning sender: the machine was suspended, or another thread ran."""
        for part, key in (("stalls", "machine_stalls_ns"), ("preempted", "preemptions_ns")):
            longest = max(sender[key] or [0]) / 1000
            self.ours(row, subject, f"{part} up to", "us", longest)

    def verdicts(self):
        for (row, subject, part, _), entry in self.entries.items():
            middle = spread(entry["values"])[0]
            entry["median"] = middle
            found, wanted = [], None
            must = {name: value for name, value in entry["must"].items() if value is not None}
            others = []
            for other, other_part in entry["beside"]:
                peer = self.peers.get((row, other, other_part))
                if peer:
                    others.append((other, peer))
            if "at_most" in must:
                wanted, ok = f"<= {must['at_most']:g}", middle <= must["at_most"]
                found.append(ok)
            if "at_least" in must:
                wanted, ok = f">= {must['at_least']:g}", middle >= must["at_least"]
                found.append(ok)
            if "within" in must:
                low, high = must["within"]
                wanted, ok = f"{low:g}-{high:g}", low <= middle <= high
                found.append(ok)
            if "ratio" in must:
                wanted = f"ratio >= {must['ratio']:g}"
                if others:
                    found.append(paired(entry["values"], others[0][1]["values"]) >= must["ratio"])
            entry["wanted"] = wanted
            entry["pass"] = all(found) if found else None
            entry["others"] = others

    def write(self, out):
        self.verdicts()
        last = None
        for (row, subject), parts in itertools.groupby(
            self.entries.items(), lambda entry: entry[0][:2]
        ):
            if row != last:
                print(f"\n{row}: {ROWS[row].__doc__}", file=out)
                last = row
            if row == "delay":
                print(line(subject, list(parts)), file=out)
                continue
            for (_, _, part, unit), entry in parts:
                text = f"  {subject:<24} {part:<14} {show(entry['values'], unit):<34}"
                for name, peer in entry["others"]:
                    ratio = paired(entry["values"], peer["values"])
                    name = name.removeprefix(subject).strip()
                    text += f" | {name} {show(peer['values'], '')}, ratio {ratio:.3g}"
                print((text + judged(entry)).rstrip(), file=out)
        for note in self.notes:
            print(f"\nnote: {note}", file=out)

    def failed(self):
        return sum(entry["pass"] is False for entry in self.entries.values())

    def as_json(self):
        ours = [
            {
                "row": row, "subject": subject, "part": part, "unit": unit,
                "values": entry["values"], "must": entry["must"], "pass": entry["pass"],
            }
            for (row, subject, part, unit), entry in self.entries.items()
        ]
        others = [
            {"row": row, "peer": peer, "part": part, **entry}
            for (row, peer, part), entry in self.peers.items()
        ]
        return {"ours": ours, "peers": others, "notes": self.notes}


def line(subject, parts):
    """Several parts on one line."""
    text = f"  {subject:<32}"
    for (_, _, part, unit), entry in parts:
        value = show(entry["values"], unit)
        text += f" {part} {value}{judged(entry)};"
    return text.rstrip(";")


def judged(entry):
    """The requirement and whether it is met."""
    verdict = {True: "pass", False: "FAIL", None: "no peer to compare with"}[entry["pass"]]
    return f" | {entry['wanted']}: {verdict}" if entry["wanted"] else ""


def paired(ours, theirs):
    """Median of the ratios of values of the same repetition; if one failed, the ratio of
    the medians."""
    if len(ours) != len(theirs):
        return spread(ours)[0] / spread(theirs)[0]
    ratios = [a / b for a, b in zip(ours, theirs) if b]
    return spread(ratios)[0] if ratios else float("nan")


def show(values, unit):
    middle, least, most = (f"{value:.4g}" for value in spread(values))
    text = f"{middle} {unit}".rstrip()
    return text if len(values) == 1 else f"{text} ({least}-{most})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, prog="bench/run")
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"of {', '.join(ROWS)}; all")
    parser.add_argument("--repetitions", type=int, default=3, metavar="N")
    parser.add_argument("--short", action="store_true", help="shorter, to see that it works")
    options = parser.parse_args()
    unknown = [row for row in options.rows if row not in ROWS]
    if unknown:
        parser.error(f"no row {unknown[0]}; there are {', '.join(ROWS)}")
    # Deletes temporary folders.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    table, began = Table(), time.monotonic()
    for row in options.rows or ROWS:
        print(f"{row} ...", file=sys.stderr, flush=True)
        before, start = machine.cpu_seconds(), time.monotonic()
        try:
            ROWS[row](table, options.repetitions, options.short)
        except Failure as error:
            table.notes.append(f"{row} could not be measured: {error}")
            table.broken = True
        elapsed = time.monotonic() - start
        stolen = machine.cpu_seconds()[1] - before[1]
        print(f"{row}: {elapsed:.0f} s, {stolen:.2f} s stolen", file=sys.stderr, flush=True)
    about = machine.description()
    print(f"{about['cpu']}, {about['cores']} cores, {about['kernel']}; "
          f"median (least-greatest) of {options.repetitions}; "
          f"{time.monotonic() - began:.0f} s")
    table.write(sys.stdout)
    RESULTS.mkdir(exist_ok=True)
    now = datetime.datetime.now(datetime.timezone.utc)
    path = RESULTS / f"{now:%Y-%m-%dT%H%M%SZ}.json"
    path.write_text(json.dumps({"machine": about, **table.as_json()}, indent=1) + "\n")
    failed = table.failed()
    print(f"\n{failed} requirements missed; all values in {path.relative_to(machine.ROOT)}")
    return 1 if failed or getattr(table, "broken", False) else 0


if __name__ == "__main__":
    sys.exit(main())
