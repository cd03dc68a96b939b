"""A command of netarium on a pseudoterminal: `SCRIPT NETARIUM …`."""

import fcntl, os, pty, select, struct, sys, termios

NETARIUM = sys.argv[1]
ECHO_AND_LINES = termios.ECHO | termios.ICANON


def set_size(fd, rows, columns):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


class Session:
    """A command on a terminal of 33 rows and 111 columns. `files` replace descriptors."""

    def __init__(self, *command, files={}):
        self.output = b""
        prepared, prepare = os.pipe()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.read(prepared, 1)
            for fd, path in files.items():
                os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), fd)
            os.execv(NETARIUM, [NETARIUM, *command])
        set_size(self.fd, 33, 111)
        self.before = termios.tcgetattr(self.fd)
        assert not self.is_raw()
        os.write(prepare, b"x")
        os.close(prepare)
        os.close(prepared)

    def read(self):
        ready, _, _ = select.select([self.fd], [], [], 100)
        assert ready, f"timeout after {self.output}"
        try:
            data = os.read(self.fd, 4096)
        except OSError:
            data = b""
        self.output += data
        return data

    def until(self, text, count=1):
        while self.output.count(text) < count:
            assert self.read(), f"ended without {text}: {self.output}"
        return self.output

    def write(self, data):
        os.write(self.fd, data)

    def is_raw(self):
        return termios.tcgetattr(self.fd)[3] & ECHO_AND_LINES == 0

    def end(self, status):
        """Waits for the end; the terminal has its settings again."""
        while self.read():
            pass
        _, ended = os.waitpid(self.pid, 0)
        assert os.waitstatus_to_exitcode(ended) == status, (ended, self.output)
        assert termios.tcgetattr(self.fd) == self.before
        os.close(self.fd)
        return self.output.decode()
