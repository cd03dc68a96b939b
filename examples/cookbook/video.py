"""A server of video chunks and a player that adapts its quality. Called by video.toml."""

import http.client
import http.server
import sys
import time

QUALITIES = [800_000, 2_000_000, 4_000_000]  # bit/s
CHUNK_SECONDS = 1
CHUNKS = 24
MAX_BUFFER_SECONDS = 4


class Chunks(http.server.BaseHTTPRequestHandler):
    """`/800000` is one chunk of the quality of 800 kbit/s."""

    protocol_version = "HTTP/1.1"  # the connection stays open

    def do_GET(self):
        size = int(self.path.lstrip("/")) * CHUNK_SECONDS // 8
        self.send_response(200)
        self.send_header("Content-Length", str(size))
        self.end_headers()
        self.wfile.write(bytes(size))


def play():
    connection = http.client.HTTPConnection("server")
    throughput, chosen, stalled = 0.0, [], 0.0
    buffered, last = 0.0, time.monotonic()
    for number in range(CHUNKS):
        # The highest quality that needs at most 80 % of the last chunk's throughput.
        quality = max([q for q in QUALITIES if q <= 0.8 * throughput], default=QUALITIES[0])
        start = time.monotonic()
        connection.request("GET", f"/{quality}")
        size = len(connection.getresponse().read())
        now = time.monotonic()
        throughput = size * 8 / (now - start)
        if number > 0:
            buffered -= now - last
            stalled += max(-buffered, 0.0)
        buffered = max(buffered, 0.0) + CHUNK_SECONDS
        last = now
        chosen.append(quality)
        print(f"{number}: {quality / 1e6} Mbit/s, {buffered:.1f} s buffered", flush=True)
        time.sleep(max(buffered - MAX_BUFFER_SECONDS, 0.0))
    print(f"stalled for {stalled:.1f} s")
    # One after the other: each search continues behind the chunk that it found.
    rest = iter(chosen)
    adapted = QUALITIES[2] in rest and QUALITIES[0] in rest and any(q > QUALITIES[0] for q in rest)
    return 0 if adapted and stalled < 2 else 1


if __name__ == "__main__":
    if sys.argv[1] == "server":
        http.server.ThreadingHTTPServer(("", 80), Chunks).serve_forever()
    sys.exit(play())
