"""A host that spreads a message by gossip over UDP. Called by gossip.toml.

    python3 gossip.py HOSTS SECONDS

The hosts are h1 to hHOSTS; h1 has the message at the start. Exits with 1 if this host does not
receive it within SECONDS.
"""

import random
import socket
import sys
import time

PORT = 7000
INTERVAL_SECONDS = 0.5
FANOUT = 2


def main(hosts, seconds):
    name = socket.gethostname()
    others = [f"h{number}" for number in range(1, hosts + 1) if f"h{number}" != name]
    addresses = [socket.gethostbyname(other) for other in others]
    random.seed(name)
    messages = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    messages.bind(("", PORT))
    start = time.monotonic()
    received = name == "h1"
    next_send = start + INTERVAL_SECONDS
    while (now := time.monotonic()) < start + seconds:
        if now >= next_send:
            next_send += INTERVAL_SECONDS
            if received:
                for address in random.sample(addresses, FANOUT):
                    messages.sendto(b"message", (address, PORT))
            continue
        messages.settimeout(next_send - now)
        try:
            messages.recvfrom(64)
        except TimeoutError:
            continue
        if not received:
            received = True
            print(f"received after {time.monotonic() - start:.2f} s", flush=True)
    return 0 if received else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), float(sys.argv[2])))
