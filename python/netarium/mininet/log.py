"""Messages to standard error, without newlines of their own."""

import functools
import sys
from typing import Any

LEVELS = {"debug": 10, "info": 20, "output": 25, "warning": 30, "warn": 30, "error": 40}
LEVELS["critical"] = 50


class Log:
    """The messages of a level and above, `output` by default."""

    def __init__(self) -> None:
        self.level = LEVELS["output"]

    def setLogLevel(self, levelname: str = "output") -> None:
        if levelname not in LEVELS:
            raise ValueError(f"no log level {levelname}; levels: {', '.join(LEVELS)}")
        self.level = LEVELS[levelname]

    def log(self, levelname: str, *parts: Any) -> None:
        if LEVELS[levelname] >= self.level:
            sys.stderr.write(" ".join(map(str, parts)))
            sys.stderr.flush()


lg = Log()
setLogLevel = lg.setLogLevel
debug = functools.partial(lg.log, "debug")
info = functools.partial(lg.log, "info")
output = functools.partial(lg.log, "output")
warn = warning = functools.partial(lg.log, "warning")
error = functools.partial(lg.log, "error")
for _name in LEVELS:
    setattr(lg, _name, functools.partial(lg.log, _name))
