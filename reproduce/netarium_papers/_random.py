"""The random streams of the binary, so that a figure draws the same settings on each machine."""

from __future__ import annotations

MASK = (1 << 64) - 1


def rotated(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (64 - bits))) & MASK


class RandomStream:
    """xoshiro256++ (Blackman and Vigna), seeded by SplitMix64 with FNV-1a of seed and path."""

    def __init__(self, seed: int, path: str) -> None:
        mixed = 0xCBF29CE484222325
        for byte in seed.to_bytes(8, "little") + path.encode():
            mixed = ((mixed ^ byte) * 0x100000001B3) & MASK
        self._state = []
        for _ in range(4):
            mixed = (mixed + 0x9E3779B97F4A7C15) & MASK
            word = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & MASK
            word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & MASK
            self._state.append(word ^ (word >> 31))

    def bits(self) -> int:
        """64 uniform bits."""
        a, b, c, d = self._state
        result = (rotated((a + d) & MASK, 23) + a) & MASK
        c, d = c ^ a, d ^ b
        self._state = [a ^ d, b ^ c, c ^ ((b << 17) & MASK), rotated(d, 45)]
        return result

    def below(self, bound: int) -> int:
        """Uniform in 0 to bound - 1."""
        return (self.bits() * bound) >> 64

    def unit(self) -> float:
        """Uniform in [0, 1) with 53 bits."""
        return (self.bits() >> 11) * 2.0**-53
