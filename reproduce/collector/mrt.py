"""MRT archives (RFC 6396): the UPDATEs and sessions of each peer, and how two of them compare."""

import dataclasses
import struct
from pathlib import Path
from typing import DefaultDict, Iterator, NamedTuple, Optional

from netarium_papers import PaperError

BGP4MP, BGP4MP_ET = 16, 17
# Subtypes, with the bytes of their AS numbers; messages of the local end are not among them.
STATE_CHANGES = {0: 2, 5: 4}
MESSAGES = {1: 2, 4: 4, 8: 2, 9: 4}
ADDRESS_BYTES = {1: 4, 2: 16}
ESTABLISHED = 6
TYPE, UPDATE = 18, 2  # Offset of the type in a BGP message, and that of an UPDATE


@dataclasses.dataclass
class Peer:
    """UPDATEs of a peer in order, and the times at which its sessions came up, in s."""

    updates: list[bytes] = dataclasses.field(default_factory=list)
    up: list[float] = dataclasses.field(default_factory=list)


class Comparison(NamedTuple):
    """The router's dump beside the archive of the collector.

    Of the peers with UPDATEs in either, `same` have the same in the same order in both; of `held`
    the archive has all of the dump in order, and possibly others. `updates` are those of the dump,
    `own_updates` those of the archive, `up` the sessions that came up in both, and `apart_s` is the
    maximum time between both for such a session (None if their numbers differ).
    """

    peers: int
    same: int
    held: int
    updates: int
    bytes: int
    own_updates: int
    own_bytes: int
    up: tuple[int, int]
    apart_s: Optional[float]


def records(data: bytes) -> Iterator[tuple[float, int, bytes]]:
    """Time in s, subtype and body of the BGP4MP records. Raises struct.error."""
    at = 0
    while at < len(data):
        time, kind, subtype, length = struct.unpack_from("!IHHI", data, at)
        body = data[at + 12 : at + 12 + length]
        at += 12 + length
        if at > len(data):
            raise struct.error("the last record is truncated")
        if kind == BGP4MP:
            yield time, subtype, body
        elif kind == BGP4MP_ET:
            yield time + struct.unpack_from("!I", body)[0] / 1e6, subtype, body[4:]


def add(data: bytes, peers: DefaultDict[bytes, Peer]) -> None:
    """Adds the UPDATEs and state changes of an MRT file to the peers."""
    for time, subtype, body in records(data):
        start = 2 * {**STATE_CHANGES, **MESSAGES}.get(subtype, 0) + 4
        if start == 4:
            continue
        size = ADDRESS_BYTES.get(struct.unpack_from("!H", body, start - 2)[0], 0)
        address, rest = body[start : start + size], body[start + 2 * size :]
        if not any(address):
            continue  # BIRD does not store the peer of a broken connection.
        if subtype in MESSAGES and rest[TYPE] == UPDATE:
            peers[address].updates.append(rest)
        elif subtype in STATE_CHANGES and struct.unpack("!HH", rest)[1] == ESTABLISHED:
            peers[address].up.append(time)


def read(path: Path) -> dict[bytes, Peer]:
    """The peers of a file, or of the files of updates below a folder, by address."""
    peers = DefaultDict[bytes, Peer](Peer)
    for file in sorted(path.rglob("updates.*")) if path.is_dir() else [path]:
        try:
            add(file.read_bytes(), peers)
        except (OSError, IndexError, struct.error) as error:
            raise PaperError(f"cannot read {file}: {error}") from error
    return peers


def compare(dump: Path, archive: Path) -> Comparison:
    """Compares the router's dump with the archive of the collector."""
    return compared(read(dump), read(archive))


def compared(router: dict[bytes, Peer], own: dict[bytes, Peer]) -> Comparison:
    every = router.keys() | own.keys()
    pairs = [(router.get(peer, Peer()), own.get(peer, Peer())) for peer in every]
    sending = [(theirs.updates, ours.updates) for theirs, ours in pairs]
    sending = [pair for pair in sending if any(pair)]
    ups = [(theirs.up, ours.up) for theirs, ours in pairs]
    apart = [abs(a - b) for theirs, ours in ups for a, b in zip(theirs, ours)]
    return Comparison(
        peers=len(sending),
        same=sum(theirs == ours for theirs, ours in sending),
        held=sum(holds(ours, theirs) for theirs, ours in sending),
        updates=sum(len(theirs) for theirs, _ in sending),
        bytes=sum(len(update) for theirs, _ in sending for update in theirs),
        own_updates=sum(len(ours) for _, ours in sending),
        own_bytes=sum(len(update) for _, ours in sending for update in ours),
        up=(sum(len(theirs) for theirs, _ in ups), sum(len(ours) for _, ours in ups)),
        apart_s=max(apart, default=0.0) if all(len(a) == len(b) for a, b in ups) else None,
    )


def holds(messages: list[bytes], wanted: list[bytes]) -> bool:
    """Whether all wanted messages are among the messages, in order."""
    rest = iter(messages)
    return all(message in rest for message in wanted)
