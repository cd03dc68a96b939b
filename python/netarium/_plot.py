"""Plots of the samples of a run, with the extra `plot`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Literal

from ._table import Row, Table, extra

if TYPE_CHECKING:
    from ._run import Run

Series = dict[str, tuple[list[float], list[float]]]
Value = Callable[[Row], float | None]


def rate(column: str) -> Value:
    """Mbit/s of the bytes of an interval. The last interval of a run can be empty."""
    return lambda row: 8e3 * row[column] / row.interval_ns if row.interval_ns else None


def scaled(column: str, factor: float) -> Value:
    return lambda row: None if row[column] is None else factor * float(row[column])


def series(table: Table, label: Callable[[Row], str], value: Value, idle: float | None) -> Series:
    """The points of each line, at the ends of intervals in s. Omitted intervals are `idle`."""
    lines: Series = {}
    for row in table:
        number = value(row)
        if number is None:
            continue
        times, numbers = lines.setdefault(label(row), ([], []))
        end, length = row.time_ns / 1e9, row.interval_ns / 1e9
        if times and idle is not None and end - times[-1] > 1.5 * length:
            times += [times[-1] + length, end - length]
            numbers += [idle, idle]
        times.append(end)
        numbers.append(number)
    return lines


class Plot:
    """Plots of a run. Each method returns a matplotlib.axes.Axes, and draws on `ax` if given.

    Raises ImportError without the extra `plot`.
    """

    def __init__(self, run: Run) -> None:
        self._run = run

    def goodput(self, by: Literal["flow"] = "flow", ax: Any = None) -> Any:
        """Received payload of each flow, in Mbit/s over s."""
        return self._draw(self._run.flows, by, rate("received_bytes"), 0, "goodput [Mbit/s]", ax)

    def rtt(self, by: Literal["flow"] = "flow", ax: Any = None) -> Any:
        """Smoothed round-trip time of each TCP flow, in ms over s."""
        return self._draw(self._run.flows, by, scaled("rtt_ns", 1e-6), None, "RTT [ms]", ax)

    def throughput(self, by: Literal["link"] = "link", ax: Any = None) -> Any:
        """Wire rate of each direction of the links, in Mbit/s over s."""
        return self._draw(self._run.links, by, rate("sent_bytes"), 0, "throughput [Mbit/s]", ax)

    def queue(self, by: Literal["link"] = "link", ax: Any = None) -> Any:
        """Longest queue of each direction of the links in an interval, in kB over s."""
        value = scaled("queue_max_bytes", 1e-3)
        return self._draw(self._run.links, by, value, 0, "queue [kB]", ax)

    def _draw(
        self, table: Table, by: str, value: Value, idle: float | None, name: str, ax: Any
    ) -> Any:
        def label(row: Row) -> str:
            return f"{row.link} {row.direction}" if by == "link" else str(row[by])

        lines = series(table, label, value, idle)
        if ax is None:
            _, ax = extra("matplotlib.pyplot", "plot").subplots()
        for text, (times, numbers) in lines.items():
            ax.plot(times, numbers, label=text)
        ax.set_xlabel("time [s]")
        ax.set_ylabel(name)
        ax.set_ylim(bottom=0)
        ax.set_title(self._run.name)
        if lines:
            ax.legend()
        return ax
