"""Messages to standard error, without newlines of their own."""

import functools
import sys
from typing import Any

LEVELS = dict(debug=10, info=20, output=25, warning=30, warn=30, error=40, critical=50)


class Log:
    """The messages of a level and above, `output` by default."""

    level = LEVELS["output"]

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
calls = {name: functools.partial(lg.log, name) for name in LEVELS}
vars(lg).update(calls)
debug, info, output, warning, warn, error, _critical = calls.values()
