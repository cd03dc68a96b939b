"""GF(2^8) on rows of bytes, and generations of packets that are coded over it.

The field is that of polynomials over GF(2) modulo x^8 + x^4 + x^3 + x^2 + 1, of which x is a
generator. Products of whole rows are one bytes.translate, sums one exclusive or of long integers,
so that plain Python reaches some 100 MB/s.
"""

from __future__ import annotations

import random

_EXP = [1] * 510
for _i in range(1, 510):
    _EXP[_i] = _EXP[_i - 1] << 1
    if _EXP[_i] & 0x100:
        _EXP[_i] ^= 0x11D
_LOG = {_EXP[_i]: _i for _i in range(255)}


def product(a: int, b: int) -> int:
    """a·b."""
    return _EXP[_LOG[a] + _LOG[b]] if a and b else 0


def inverse(a: int) -> int:
    """1/a; there is none of 0."""
    return _EXP[255 - _LOG[a]]


_TIMES = [bytes(product(a, b) for b in range(256)) for a in range(256)]


def combine(rows: list[bytes], factors: list[int]) -> bytes:
    """The sum of rows of equal length, each times its factor."""
    total = 0
    for row, factor in zip(rows, factors, strict=True):
        if factor:
            total ^= int.from_bytes(row.translate(_TIMES[factor]), "little")
    return total.to_bytes(len(rows[0]), "little")


def random_combination(rows: list[bytes], rng: random.Random) -> bytes:
    """A sum with random factors, none of which is 0: no packet is left out by chance."""
    return combine(rows, [rng.randrange(1, 256) for _ in rows])


def unit_rows(packets: list[bytes]) -> list[bytes]:
    """Packets with their coding vectors before them: (1, 0, 0, …), (0, 1, 0, …), …"""
    count = len(packets)
    return [bytes(i == j for j in range(count)) + packet for i, packet in enumerate(packets)]


class Decoder:
    """Gaussian elimination of rows as they arrive; each begins with its coding vector."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.rows: dict[int, bytes] = {}  # by the column of the leading 1

    @property
    def rank(self) -> int:
        """Independent rows so far."""
        return len(self.rows)

    def add(self, row: bytes) -> bool:
        """Takes a row; tells whether it was independent of those before."""
        for column in range(self.count):
            factor = row[column]
            if not factor:
                continue
            if column not in self.rows:
                self.rows[column] = combine([row], [inverse(factor)])
                return True
            row = combine([row, self.rows[column]], [1, factor])
        return False

    def packets(self) -> list[bytes]:
        """The packets, once the rank is full."""
        assert self.rank == self.count
        for column in reversed(range(self.count)):
            row = self.rows[column]
            later = [self.rows[at] for at in range(column + 1, self.count)]
            factors = [row[at] for at in range(column + 1, self.count)]
            self.rows[column] = combine([row, *later], [1, *factors])
        return [self.rows[column][self.count :] for column in range(self.count)]


def independent_vectors(count: int, rng: random.Random) -> list[bytes]:
    """As many random coding vectors as a generation has packets, together of full rank."""
    while True:
        vectors = [bytes(rng.randrange(1, 256) for _ in range(count)) for _ in range(count)]
        decoder = Decoder(count)
        if all(decoder.add(vector) for vector in vectors):
            return vectors


def self_test() -> None:
    """The laws of the field, and decoding of random generations."""
    rng = random.Random(7)
    for a in range(1, 256):
        assert product(a, inverse(a)) == 1 and product(a, 1) == a and product(a, 0) == 0
    assert len({_EXP[i] for i in range(255)}) == 255
    for _ in range(2000):
        a, b, c = (rng.randrange(256) for _ in range(3))
        assert product(a, b) == product(b, a)
        assert product(a, product(b, c)) == product(product(a, b), c)
        assert product(a, b ^ c) == product(a, b) ^ product(a, c)
    # Written out: (x^7 + x)·(x^2) = x^9 + x^3 = x^5 + x^4 + x^3 + x + x^3.
    assert product(0b10000010, 0b100) == 0b00110010
    for count in (1, 2, 5, 16):
        packets = [rng.randbytes(40) for _ in range(count)]
        rows = unit_rows(packets)
        decoder, taken = Decoder(count), 0
        while decoder.rank < count:
            decoder.add(random_combination(rows, rng))
            taken += 1
            assert taken < count + 6, "dependent far too often"
        assert not decoder.add(random_combination(rows, rng)), "beyond full rank"
        assert decoder.packets() == packets
        vectors = independent_vectors(count, rng)
        drawn = Decoder(count)
        assert all(drawn.add(combine(rows, list(vector))) for vector in vectors)
        assert drawn.packets() == packets
        plain = Decoder(count)
        assert all(plain.add(row) for row in reversed(rows)) and plain.packets() == packets


if __name__ == "__main__":
    self_test()
    print("ok")
