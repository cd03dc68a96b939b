"""Nothing of a lab remains after its end: `cleanup` exists for scripts that call it."""

from .util import nothing as cleanup

__all__ = ["cleanup"]
