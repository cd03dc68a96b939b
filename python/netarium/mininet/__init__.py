"""Mininet's Python interface over labs: `from netarium.mininet.net import Mininet`.

Modules, classes and calls have Mininet's names. `net.start()` brings a lab up, `net.stop()` ends
it, and `net.result` is then the finished run. `python -m netarium.mininet SCRIPT` runs a script
that imports `mininet`, unchanged.
"""

from .util import Unsupported

__all__ = ["Unsupported"]
