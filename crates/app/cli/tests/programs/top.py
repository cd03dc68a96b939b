"""Runs `netarium top` on a pseudoterminal: `top.py NETARIUM (LAB | RUN)`."""

import os, signal, sys

from session import Session, set_size

NAME = sys.argv[2]
ENTER, LEAVE, SHOW = "\x1b[?1049h", "\x1b[?1049l", "\x1b[?25h"


def end(session, status):
    """Waits for the end; the terminal is as before."""
    output = session.end(status)
    assert output.count(ENTER) == 1, output
    after = output.split(LEAVE)[-1]
    assert LEAVE in output and SHOW in output, output
    assert "wire" not in after, after


# The link is shown. The delay of a running lab changes. A small terminal gets a message.
session = Session("top", NAME)
session.until(b"wire")
assert session.is_raw()
if "--live" in sys.argv:
    session.write(b"\r\t9 ms\r")
    session.until(b"applied")
    # The states of the lab and of the program.
    session.write(b"3")
    session.until(b"running", count=2)
    session.write(b"\r\r")
    session.until(b"stopped")
    # The default name is that of no file.
    session.write(b"w\r")
    session.until(b"saved")
set_size(session.fd, 12, 50)
session.until(b"small")
session.write(b"q")
end(session, 0)

# Ctrl-C is a key, and signals end the command too.
session = Session("top", NAME)
session.until(b"wire")
session.write(b"\x03")
end(session, 0)
session = Session("top", NAME)
session.until(b"wire")
os.kill(session.pid, signal.SIGTERM)
end(session, 130)

# The terminal is closed, as by the end of an SSH connection: a signal or an error ends the command.
session = Session("top", NAME)
session.until(b"wire")
os.close(session.fd)
_, ended = os.waitpid(session.pid, 0)
assert os.waitstatus_to_exitcode(ended) in (130, 4), ended

# Standard output is a file.
session = Session("top", NAME, files={1: "stdout"})
output = session.end(2)
for name in ["terminal", "netarium ps", "netarium watch", "report"]:
    assert name in output, output
