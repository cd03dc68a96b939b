"""Archives of the passive route collector, of RIPE RIS and of RouteViews, and captures.

    archive = netarium.collector.open("archive")
    archive.rib("193.0.0.0/21", at="2026-11-21 12:00")
    archive.updates(prefix="193.0.0.0/21")

The program reads the files, as `netarium collect show` does. Times are in UTC: a text such as
`2026-11-21 12:00`, a `datetime` or seconds since 1970. Answers have them in seconds since 1970.
"""

from __future__ import annotations

import datetime
import os
from pathlib import Path
from typing import Any, Iterator, Sequence

from . import _binary
from ._run import UNTRUSTED, PathLike
from ._table import Column, Table, extra

Time = str | float | datetime.datetime
BATCH_BYTES = 8 << 20

SESSION = ("peer", "peer_as", "router")
ROUTE = ("prefix", "family", "path_id", "path", "next_hop", "communities", "large_communities")
UPDATE = ("time", "type", *SESSION, "mirror", *ROUTE, "old", "new", "reason", "event")
ORIGIN = ("origin_as", "origin", "med", "local_pref")
RIB = (*SESSION, "mirror", "mirror_name", *ROUTE, "since", "stale", *ORIGIN)
CHANGE = ("change", "version", *RIB)
# The fields of a line of `bgpdump -m`. Formats that end with `_AP` have a path identifier.
BGPDUMP = (
    "format time type peer peer_as prefix path_id path origin next_hop local_pref med communities "
    "atomic_aggregate aggregator"
).split()
# Other columns are texts.
TYPES: dict[str, type] = {
    **dict.fromkeys(("peer_as", "path_id", "mirror", "origin_as", "med", "local_pref"), int),
    **dict.fromkeys(("time", "since"), float),
    **dict.fromkeys(("communities", "large_communities"), list),
    "stale": bool,
}


def open(*paths: PathLike) -> Archive:
    """An archive: a folder, or files of MRT; `updates` also takes captures (pcap, pcapng).

    Raises LabError at the first query if a file cannot be read.
    """
    return Archive([os.fspath(path) for path in paths])


def moment(time: Time | None) -> str | None:
    if isinstance(time, datetime.datetime):
        # Without a time zone it is in UTC, like texts.
        time = time.replace(tzinfo=time.tzinfo or datetime.timezone.utc).timestamp()
    return time if time is None or isinstance(time, str) else f"{time:.6f}"


def options(**values: Any) -> list[str]:
    """Options of a subcommand: `at=…` is `--at …`, and `True` an option without value."""
    words: list[str] = []
    for name, value in values.items():
        if value is not None and value is not False:
            words += [f"--{name.rstrip('_')}", *([] if value is True else [str(value)])]
    return words


def listed(name: str, names: Sequence[str], objects: list[dict[str, Any]]) -> Table:
    types = [(key, TYPES.get(key, str)) for key in names]
    columns = [Column(key, "s" if of is float else "", of) for key, of in types]
    return Table.of_objects(name, columns, objects)


class Archive:
    """An archive, whose files are read anew for each query."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = list(paths)

    def rib(
        self,
        prefix: str = "all",
        *,
        at: Time | None = None,
        until: Time | None = None,
        peer: str | None = None,
        more: bool = False,
        less: bool = False,
        path: str | None = None,
        community: str | None = None,
    ) -> Table:
        """The routes at a time, a row for each; with `until`, the changes from `at` until then.

        Arguments:
            prefix: A prefix, an address for its longest match, or `all`.
            at: Default: the end of the archive.
            until: The table then has the columns `change` (`added`, `removed`, `changed`) and
                `version` (`old` or `new`; a changed route has a row for each).
            peer: Only routes of the peer with this address.
            more, less: Include more specific or less specific prefixes.
            path: A pattern for AS paths, as on routers: `_3333$`.
            community: Only routes with this community, such as `64500:1`.
        """
        words = options(at=moment(at), diff=moment(until), peer=peer, more=more, less=less)
        words += options(path=path, community=community)
        # The prefix is after the options, as the first of the other words.
        (found,) = self._show("rib", *words, "--", prefix)
        if until is None:
            return listed("rib", RIB, [flat(route) for route in found["routes"]])
        rows = [
            {"change": change["change"], "version": version, **flat(change[version])}
            for change in found["changes"]
            for version in ("old", "new")
            if version in change
        ]
        return listed("changes", CHANGE, rows)

    def updates(
        self,
        *,
        prefix: str | None = None,
        peer: str | None = None,
        asn: int | None = None,
        since: Time | None = None,
        until: Time | None = None,
        types: Sequence[str] = (),
    ) -> Table:
        """Announcements, withdrawals and changes of sessions, a row for each, in their order.

        Arguments:
            prefix: Only routes to this prefix and more specific ones, or to prefixes with this
                address.
            peer: Only those of the peer with this address.
            asn: Only paths with this AS, and withdrawals and states of peers in it.
            since, until: Only from and until a time.
            types: Only those of these types: `announce`, `withdraw`, `state`.
        """
        times = {"since": moment(since), "until": moment(until)}
        words = options(prefix=prefix, peer=peer, as_=asn, **times)
        words += [word for kind in types for word in ("--type", kind)]
        return listed("updates", UPDATE, self._show("updates", *words, "--"))

    def batches(self) -> Iterator[Any]:
        """All updates as objects of `pyarrow.RecordBatch`, read while the program runs.

        This is the fast reader for files that do not fit into memory: it has no filters, and the
        columns of `bgpdump -m`. `type` is `A`, `W`, or `STATE` with the numbers of the old and new
        state as `prefix` and `path`. Raises ImportError without polars and pyarrow.
        """
        for path in map(Path, self.paths):
            files = path.rglob("updates.*") if path.is_dir() else [path]
            # The order of their names is that of their times.
            for file in sorted(files, key=lambda file: (file.name, file)):
                yield from batches_of(file)

    def peers(self) -> list[dict[str, Any]]:
        """The peers, an object for each: AS, state, numbers of messages and routes."""
        (found,) = self._show("peers", "--")
        return [peer for collector in found["collectors"] for peer in collector["peers"]]

    def gaps(self) -> list[dict[str, Any]]:
        """Missing data, an object for each collector, with its peers and hours."""
        (found,) = self._show("gaps", "--")
        return list(found["collectors"])

    def _show(self, *words: str) -> list[dict[str, Any]]:
        return _binary.call("collect", "show", *words, *self.paths)

    def __repr__(self) -> str:
        return f"Archive({', '.join(self.paths)})"


def flat(route: dict[str, Any]) -> dict[str, Any]:
    return {**route.pop("peering"), **route}


def batches_of(file: Path) -> Iterator[Any]:
    extra("pyarrow", "frames")
    words = ["--quiet", "collect", "convert", "--to", "bgpdump", "--", str(file), "-"]
    with _binary.start(words) as child:
        assert child.stdout is not None
        try:
            pipe = os.fdopen(child.stdout.fileno(), "rb", closefd=False)
            rest = b""
            while block := pipe.read(BATCH_BYTES):
                lines, newline, rest = (rest + block).rpartition(b"\n")
                if newline:
                    yield from frame_of(lines).to_arrow().to_batches()
        except BaseException:
            child.kill()
            raise
        _, notes = child.communicate()
    # Warnings have an exit code of their own.
    if child.returncode not in (0, UNTRUSTED):
        _binary.fail(_binary.Result(child.returncode, [], notes))


def frame_of(lines: bytes) -> Any:
    """A polars.DataFrame of lines of `bgpdump -m`."""
    polars = extra("polars", "frames")
    # Lines end with an empty field.
    names = [*BGPDUMP, "end"]
    # Withdrawals and states have fewer fields; the head has all.
    frame = polars.read_csv(
        "|".join(names).encode() + b"\n" + lines,
        separator="|",
        quote_char=None,
        schema=dict.fromkeys(names, polars.String),
        truncate_ragged_lines=True,
    )
    types = {int: polars.Int64, float: polars.Float64}
    has_id, place = polars.col("format").str.ends_with("_AP"), names.index("path_id")
    some, every = frame.select(some=has_id.any(), every=has_id.all()).row(0)
    columns = {}
    for number, name in enumerate(BGPDUMP):
        column, before = polars.col(name), names[max(number - 1, 0)]
        if number >= place and not every:
            without = polars.lit(None) if number == place else polars.col(before)
            column = polars.when(has_id).then(column).otherwise(without) if some else without
        columns[name] = column.cast(types.get(TYPES.get(name, str), polars.String))
    return frame.select(**columns).drop("format")
