"""Replays recorded streams of BGP to a speaker: speakers.py TO STREAM... A stream's file is named
by its source address, and begins with an OPEN."""

import socket
import sys
import threading
from pathlib import Path

PORT = 179


def drain(connection):
    while connection.recv(65_536):
        pass


def speak(to, stream):
    data = stream.read_bytes()
    connection = socket.create_connection((to, PORT), source_address=(stream.name, 0))
    first = int.from_bytes(data[16:18], "big")
    connection.sendall(data[:first])
    threading.Thread(target=drain, args=(connection,), daemon=True).start()
    connection.sendall(data[first:])
    return connection


to, *streams = sys.argv[1:]
open_connections, threads = [], []
for stream in streams:
    work = lambda path=Path(stream): open_connections.append(speak(to, path))
    threads.append(threading.Thread(target=work))
    threads[-1].start()
for thread in threads:
    thread.join()
if len(open_connections) == len(streams):
    print("sent", flush=True)
    threading.Event().wait()
