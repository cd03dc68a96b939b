"""Runs `netarium exec` and `shell` on a pseudoterminal: `terminal.py NETARIUM [--root]`."""

import os, select, signal, sys, termios

from session import Session, set_size


def run(*command, status=0, **more):
    return Session("exec", "terminals", "a", "--", *command, **more).end(status)


# The terminal has a name, and the exit status is that of the command.
assert run("tty").startswith("/dev/pts/")
assert "yes" in run("sh", "-c", "test -t 0 && test -t 1 && test -t 2 && : > $(tty) && echo yes")
run("sh", "-c", "exit 7", status=7)
run("sh", "-c", "kill -KILL $$", status=137)
assert "no-such-program: No such file" in run("no-such-program", status=127)

# All output arrives, also that just before the end.
lines = run("seq", "20000").split()
assert lines == [str(number) for number in range(1, 20001)], len(lines)

# Standard error may be elsewhere. Without a terminal as standard output, the command has none.
assert "yes" in run("sh", "-c", "test -t 1 && ! test -t 2 && echo yes", files={2: "stderr"})
run("tty", status=1, files={1: "stdout"})

# Size.
session = Session("exec", "terminals", "a", "--", "sh", "-c", "stty size; read x; stty size")
session.until(b"33 111")
assert session.is_raw()
set_size(session.fd, 40, 120)
session.write(b"x\r")
assert "40 120" in session.end(0)

# Keys that send signals reach the command only.
trap = "trap 'exit 9' INT; echo ready; while :; do sleep 1; done"
session = Session("exec", "terminals", "a", "--", "sh", "-c", trap)
session.until(b"ready")
session.write(b"\x03")
session.end(9)

# A shell with job control, whose input is larger than the buffers of terminals.
os.environ["SHELL"] = "/bin/sh"
session = Session("shell", "terminals", "a")
session.write(b"echo $((6 * 7))\r")
session.until(b"42")
rest = b"cat > /dev/null\r" + (b"x" * 100 + b"\r") * 1000 + b"\x04exit 3\r"
os.set_blocking(session.fd, False)
while rest:
    readable, writable, _ = select.select([session.fd], [session.fd], [], 100)
    assert readable or writable
    if readable:
        session.read()
    elif writable:
        try:
            rest = rest[os.write(session.fd, rest[:100]):]
        except BlockingIOError:
            pass
assert "job control" not in session.end(3)

# Signals to the command `netarium` end it.
for number in [signal.SIGTERM, signal.SIGHUP]:
    session = Session("exec", "terminals", "a", "--", "sh", "-c", "echo ready; cat")
    session.until(b"ready")
    assert session.is_raw()
    os.kill(session.pid, number)
    session.end(128 + number)

# A shell changes the settings while the command is stopped.
session = Session("exec", "terminals", "a", "--", "sh", "-c", "echo ready; cat")
session.until(b"ready")
os.kill(session.pid, signal.SIGSTOP)
os.waitpid(session.pid, os.WUNTRACED)
termios.tcsetattr(session.fd, termios.TCSANOW, session.before)
os.kill(session.pid, signal.SIGCONT)
session.write(b"mark\n")
session.until(b"mark", count=2)
assert session.is_raw()
session.write(b"\x04")
session.end(0)

# The terminal is closed. The signal may come before or after the end of its input.
session = Session("exec", "terminals", "a", "--", "sh", "-c", "echo ready; cat")
session.until(b"ready")
os.close(session.fd)
_, ended = os.waitpid(session.pid, 0)
assert os.waitstatus_to_exitcode(ended) in (128 + signal.SIGHUP, -signal.SIGHUP), ended

if "--root" in sys.argv:
    as_user = ["exec", "--user", "nobody", "terminals", "a", "--"]
    assert "yes" in Session(*as_user, "sh", "-c", "echo yes > $(tty)").end(0)
print("passed")
