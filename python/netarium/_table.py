"""Tables of results: typed rows, and data frames with the extra `frames`."""

from __future__ import annotations

import functools
import html
import importlib
import shutil
from pathlib import Path
from typing import Any, Callable, Iterable, Mapping, NamedTuple, Sequence, overload

WIDTH = 80
CELL_WIDTH = 40
MAX_BLOCKS = 3
SHOWN_ROWS = 10
UNIT_NAMES = {"B": "bytes", "bit/s": "bps"}

Values = tuple[Any, ...]


class Column(NamedTuple):
    """A column: its name, its unit (empty for texts) and the type of its values.

    A value can also be None: it does not apply or was not measured.
    """

    name: str
    unit: str
    type: type


def plain_columns(**types: type) -> list[Column]:
    """Columns without units."""
    return [Column(name, "", of) for name, of in types.items()]


class Row(dict[str, Any]):
    """A row: `row["time_ns"]` and `row.time_ns` are the same value."""

    def __getattr__(self, name: str) -> Any:
        if name not in self:
            raise AttributeError(f"the row has no column {name}")
        return self[name]

    def __repr__(self) -> str:
        return "Row(" + ", ".join(f"{name}={value!r}" for name, value in self.items()) + ")"


class Table(Sequence[Row]):
    """A table: a sequence of rows. `columns` has names, units and types.

    Rows are read when they are first needed.
    """

    def __init__(
        self,
        name: str,
        columns: Iterable[Column],
        load: Callable[[], list[Values]],
        parquet: Path | None = None,
    ) -> None:
        self.name, self.columns = name, tuple(columns)
        self._places = {column.name: place for place, column in enumerate(self.columns)}
        self._load, self._parquet = load, parquet

    @classmethod
    def of(cls, name: str, columns: Iterable[Column], rows: list[Values]) -> Table:
        """A table of these rows."""
        return cls(name, columns, lambda: rows)

    @classmethod
    def of_objects(
        cls, name: str, columns: Iterable[Column], objects: Iterable[Mapping[str, Any]]
    ) -> Table:
        """A table with a row for each object, whose missing keys are None."""
        columns = list(columns)
        rows = [tuple(found.get(column.name) for column in columns) for found in objects]
        return cls.of(name, columns, rows)

    @functools.cached_property
    def _rows(self) -> list[Values]:
        return self._load()

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> Table: ...
    def __getitem__(self, index: int | slice) -> Row | Table:
        if isinstance(index, slice):
            return Table.of(self.name, self.columns, self._rows[index])
        return Row(zip(self._places, self._rows[index]))

    def column(self, name: str) -> list[Any]:
        """The values of a column. Raises KeyError if there is none."""
        place = self._places[name]
        return [values[place] for values in self._rows]

    def where(self, values: Mapping[str, Any]) -> Table:
        """The rows that have these values, such as `{"link.core.queue": "codel"}`.

        Raises KeyError if there is no such column, and ValueError if there is no such row.
        """
        wanted = [(self._places[name], value) for name, value in values.items()]
        rows = [row for row in self._rows if all(row[i] == value for i, value in wanted)]
        if not rows:
            known = {name: list(dict.fromkeys(self.column(name)))[:SHOWN_ROWS] for name in values}
            raise ValueError(f"no row has {dict(values)}; values of the table: {known}")
        return Table.of(self.name, self.columns, rows)

    def to_polars(self) -> Any:
        """A polars.DataFrame. Raises ImportError without the extra `frames`."""
        polars = extra("polars", "frames")
        if self._parquet is not None and self._parquet.is_file():
            return polars.read_parquet(self._parquet)
        types = {int: polars.Int64, float: polars.Float64, bool: polars.Boolean}
        types[list] = polars.List(polars.String)
        schema = {c.name: types.get(c.type, polars.String) for c in self.columns}
        return polars.DataFrame(self._rows, schema=schema, orient="row")

    def to_pandas(self) -> Any:
        """A pandas.DataFrame. Raises ImportError without the extra `frames`."""
        pandas = extra("pandas", "frames")
        if self._parquet is not None and self._parquet.is_file():
            extra("pyarrow", "frames")
            return pandas.read_parquet(self._parquet)
        return pandas.DataFrame(self._rows, columns=list(self._places))

    def _cells(self) -> tuple[list[str], list[list[str]], str]:
        """Heads, the first rows as texts, and a note on the other rows."""
        heads = [head(column) for column in self.columns]
        rows = [[shown(value) for value in values] for values in self._rows[:SHOWN_ROWS]]
        more = len(self) - len(rows)
        return heads, rows, f"{more} more rows" if more else ""

    def __repr__(self) -> str:
        heads, rows, note = self._cells()
        count = f"{self.name}: {len(self)} rows, {len(heads)} columns"
        return "\n".join(filter(None, [count, text_table(heads, rows), note]))

    def _repr_html_(self) -> str:
        heads, rows, note = self._cells()
        return html_table(heads, rows) + (f"<p>{note}</p>" if note else "")


def head(column: Column) -> str:
    """The name with the unit, unless the name ends with it."""
    name, unit = column.name, column.unit
    if not unit or name.endswith((f"_{unit}", f"_{UNIT_NAMES.get(unit, unit)}")):
        return name
    return f"{name} [{unit}]"


def shown(value: Any) -> str:
    if value is None:
        return "–"
    if not isinstance(value, float):
        return str(value)
    # Times since 1970 need their seconds.
    return f"{value:.6g}" if abs(value) < 1e6 else f"{value:.0f}"


def shortened(text: str, width: int = WIDTH) -> str:
    text = " ".join(text.split())
    return text if len(text) <= width else text[: width - 1] + "…"


def text_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of the width of the terminal. Columns that do not fit follow below, beside the
    numbers of the rows; `…` stands for those of very wide tables.
    """
    full = max(WIDTH, shutil.get_terminal_size((WIDTH, 0)).columns)
    columns = list(zip(heads, *rows))
    numbers = ["", *map(str, range(len(rows)))]
    blocks, rest = [fitting(columns, full)], columns
    if len(blocks[0]) < len(columns):
        first, blocks = blocks[0], []
        while rest and len(blocks) < MAX_BLOCKS:
            blocks.append(fitting([numbers, *rest], full))
            rest = rest[len(blocks[-1]) - 1 :]
        blocks = [[*first, ["…"] * len(numbers)]] if rest else blocks
    return "\n\n".join(
        "\n".join("  ".join(cells).rstrip() for cells in zip(*block)) for block in blocks
    )


def fitting(columns: Sequence[Sequence[str]], full: int) -> list[list[str]]:
    """The first columns, as many as fit into the width beside the sign for the others."""
    found, used = [], 0
    for place, column in enumerate(columns):
        is_last = place == len(columns) - 1
        limit = max(full - used, CELL_WIDTH) if is_last else CELL_WIDTH
        cells = [shortened(cell, limit) for cell in column]
        width = max(map(len, cells))
        if used + width + (0 if is_last else 3) > full:
            break
        found.append([cell.ljust(width) for cell in cells])
        used += width + 2
    return found


def html_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def line(kind: str, cells: Sequence[str]) -> str:
        return "<tr>" + "".join(f"<{kind}>{html.escape(c)}</{kind}>" for c in cells) + "</tr>"

    body = "".join(line("td", row) for row in rows)
    return f"<table><thead>{line('th', heads)}</thead><tbody>{body}</tbody></table>"


def extra(module: str, name: str) -> Any:
    """A module of an extra. Raises ImportError that names the extra."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        hint = f"{package} is not installed: pip install 'netarium[{name}]'"
        raise ImportError(hint, name=module) from error
