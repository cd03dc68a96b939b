"""Settings of the figure `harm`: fixed ones that once did harm, and random ones around them."""

from __future__ import annotations

from typing import Mapping, NamedTuple, Sequence

from netarium_papers import RandomStream

ALONE, BESIDE = "bundler/harm.toml", "bundler/harm-cross.toml"
QUEUE = "link.bottleneck.queue"
SIZES = (
    '{ table = [["0 B", "0 %"], ["10 kB", "97.6 %"], ["100 kB", "99.5 %"], ["1 MB", "99.9 %"], '
    '["5 MB", "99.98 %"], ["20 MB", "100 %"]] }'
)
RANDOM_SETTINGS = 180


class Setting(NamedTuple):
    """A lab with values of fields."""

    name: str
    fields: Mapping[str, str]
    lab: str = ALONE


def path(name: str, properties: str) -> Setting:
    """Impairments behind the bottleneck, in the direction to the clients."""
    return Setting(name, {"link.path.up": f"{{ {properties} }}"})


def cross(name: str, fields: Mapping[str, str]) -> Setting:
    """Cross traffic that passes no gateway."""
    return Setting(name, {f"flow.cross.{key}": value for key, value in fields.items()}, BESIDE)


def elastic(name: str, control: str, streams: int = 1, start: int = 0) -> Setting:
    return cross(name, {"control": control, "streams": str(streams), "start": f"{start} s"})


def requests(percent: int) -> Setting:
    """Short transfers of other sites with a share of the bottleneck's rate."""
    fields = {"from": "outside2", "to": "outside1", "request": "40 B", "response": SIZES}
    fields["arrivals"] = f'{{ load = "{percent} %", of = "bottleneck" }}'
    return cross(f"requests-{percent}", {**fields, "streams": "50"})


def kinds(mbits: float) -> list[Setting]:
    """The impairments and kinds of cross traffic at a rate of the bottleneck."""
    udp = {"transport": "udp", "rate": f"{round(0.6 * mbits * 1e3)} kbit/s"}
    on_off_random = '{ on = "4 s", off = "4 s", exponential = true }'
    video = {"size": f"{round(mbits * 90)} kB", "arrivals": '{ every = "2 s" }'}
    correlated = '{ distribution = "normal", deviation = "5 ms", correlation = "80 %" }'
    burst = f"{round(mbits * 3)} kB"
    policer = {
        "link.bottleneck.rate": f"{2 * mbits:g} Mbit/s",
        "flow.requests.arrivals.load": "12.5 %",
        QUEUE: f'{{ kind = "policer", rate = "{mbits:g} Mbit/s", burst = "{burst}" }}',
    }
    return [
        Setting("alone", {}),
        *(path(f"loss-{percent}", f'loss = "{percent} %"') for percent in (0.1, 1, 2, 3, 5)),
        path("loss-bursts", 'loss = { model = "gilbert-elliott", p = "0.1 %", r = "10 %" }'),
        *(path(f"jitter-{ms}", f'jitter = "{ms} ms"') for ms in (1, 5, 8, 15)),
        path("jitter-uniform", 'jitter = { distribution = "uniform", spread = "5 ms" }'),
        path("jitter-pareto", 'jitter = { distribution = "pareto", mean = "3 ms" }'),
        path("jitter-correlated", f"jitter = {correlated}"),
        elastic("cubic", "cubic"),
        elastic("cubic-later", "cubic", start=8),
        elastic("reno", "reno"),
        elastic("bbr", "bbr"),
        elastic("site", "cubic", streams=5),
        elastic("site-later", "cubic", streams=5, start=8),
        cross("constant", {**udp, "pattern": "constant"}),
        cross("on-off", {**udp, "pattern": '{ on = "1 s", off = "1 s" }'}),
        cross("on-off-random", {**udp, "pattern": on_off_random}),
        cross("video", video),
        requests(20),
        requests(50),
        Setting("codel", {QUEUE: "codel"}),
        Setting("fq-codel", {QUEUE: '{ kind = "fq-codel", ecn = false }'}),
        Setting("policer", policer),
        Setting("ack-loss", {"bundle.site.feedback": '{ loss = "30 %" }'}),
    ]


def bottleneck(mbits: float, rtt_ms: float, buffer: float) -> dict[str, str]:
    """Rate, RTT and buffer of the bottleneck; the buffer in bandwidth-delay products."""
    delay = f"{round(rtt_ms * 250)} us"
    rate, queue = f"{mbits:g} Mbit/s", f"{2 * buffer:g} bdp"
    delays = {"link.bottleneck.delay": delay, "link.path.delay": delay}
    return {"link.bottleneck.rate": rate, **delays, QUEUE: queue}


def fixed() -> list[Setting]:
    """Settings at 33 Mbit/s, 60 ms and 2 bandwidth-delay products, and three other paths."""
    others = (("slow", 7, 5, 2), ("fast", 100, 20, 1), ("shallow", 33, 60, 0.25))
    return kinds(33) + [Setting(name, bottleneck(*of)) for name, *of in others]


def named(names: Sequence[str]) -> list[Setting]:
    """Fixed settings by name."""
    return [setting for setting in fixed() if setting.name in names]


def random(index: int, stream: RandomStream) -> Setting:
    """A kind on a path with random rate, RTT and buffer."""

    def between(low: float, high: float) -> float:
        return float(low * (high / low) ** stream.unit())

    # Rates are limited so that a run takes seconds.
    mbits, rtt_ms = round(between(5, 300)), round(between(2, 300))
    buffer = round(between(0.25, 8) * 100) / 100
    every = kinds(mbits)
    name, fields, lab = every[index % len(every)]
    # Values of the kind replace those of the path.
    fields = {**bottleneck(mbits, rtt_ms, buffer), **fields}
    return Setting(f"{name}-{mbits}-{rtt_ms}-{buffer:g}", fields, lab)


def design() -> list[Setting]:
    """All settings, the same on each machine."""
    stream = RandomStream(19, "bundler/harm")
    return fixed() + [random(index, stream) for index in range(RANDOM_SETTINGS)]
