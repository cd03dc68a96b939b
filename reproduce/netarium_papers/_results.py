"""The folder of a paper's results: `results.json`, pictures, points, and `index.html`."""

from __future__ import annotations

import html
import json
import os
from pathlib import Path
from typing import Any

import netarium as nt

from ._evidence import points_csv
from ._figure import Figure, Paper
from ._result import WORDS, FigureResult
from ._stage import PaperError

SCHEMA = "netarium.reproduction/1"
STYLE = """
:root { color-scheme: light dark; --good: light-dark(#1a7f37, #4ac26b);
  --bad: light-dark(#b42318, #ff8a80); --line: light-dark(#d8dee4, #3d444d) }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1100px; margin: 0 auto; padding: 16px }
h1 { font-size: 24px } h2 { font-size: 19px; margin-top: 40px } h3 { font-size: 15px }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { text-align: left; padding: 4px 10px; border-bottom: 1px solid var(--line) }
td { vertical-align: top } .scroll { overflow-x: auto } .good { color: var(--good) }
.bad { color: var(--bad) } pre { overflow-x: auto; font-size: 13px }
figure { margin: 16px 0; background: #fff; color: #000; display: inline-block; max-width: 100% }
figure svg { max-width: 100%; height: auto; display: block } figcaption { padding: 0 12px 8px }
"""


def replace(path: Path, content: str) -> None:
    """Replaces a file at once: readers see the old content or the new."""
    new = path.with_suffix(".new")
    new.write_text(content, encoding="utf-8")
    os.replace(new, path)


class Results:
    """The results of a paper in a folder, where earlier results of other figures stay.

    Raises PaperError if the folder has other content.
    """

    def __init__(self, out: Path, paper: Paper) -> None:
        self.out, self.paper = out, paper
        path = out / "results.json"
        self.figures: dict[str, Any] = {}
        if path.is_file():
            found = self._read(path)
            if (found.get("schema"), found.get("paper")) != (SCHEMA, paper.name):
                raise self._refused(path, f"{found.get('schema')} of {found.get('paper')}")
            self.figures = found["figures"]
        elif out.is_dir() and any(out.iterdir()):
            raise self._refused(path, "its folder has other files and no such list")
        out.mkdir(parents=True, exist_ok=True)
        self._write()

    def _read(self, path: Path) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise self._refused(path, str(error)) from None
        return found

    def _refused(self, path: Path, reason: str) -> PaperError:
        text = f"{path} is no list of results: {reason}; `--out DIR` names another folder"
        return PaperError(text, 2)

    def add(self, result: FigureResult) -> None:
        """Writes the pictures (SVG, PNG) and points (CSV) of a figure, and adds it to the list."""
        for old in self.out.glob(f"figure-{result.id}*"):
            if old.stem == f"figure-{result.id}" or old.stem.startswith(f"figure-{result.id}-"):
                old.unlink()
        for place, plot in enumerate(result.plots):
            name = f"figure-{result.id}" + (f"-{place + 1}" if place else "")
            for suffix in ("svg", "png"):
                plot.save(self.out / f"{name}.{suffix}")
        if result.plots:
            replace(self.out / f"figure-{result.id}.csv", points_csv(result.plots))
        self.figures[result.id] = {**result.to_json(self.out), "html": result._repr_html_()}
        self._write()

    def _write(self) -> None:
        head = {
            "schema": SCHEMA,
            "version": nt.__version__,
            "paper": self.paper.name,
            "title": self.paper.title,
        }
        text = json.dumps({**head, "figures": self.figures}, indent=1, ensure_ascii=False)
        replace(self.out / "results.json", text + "\n")
        replace(self.out / "index.html", self._page())

    def _page(self) -> str:
        order = [figure.id for figure in self.paper.figures]
        known = [of for of in order if of in self.figures]
        ids = known + [of for of in self.figures if of not in order]
        rows = "".join(summary(self.figures[of]) for of in ids)
        title = html.escape(self.paper.title)
        return (
            '<!doctype html><html lang="en"><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width">'
            f"<title>{title}: Netarium reproduction</title><style>{STYLE}</style>"
            f"<h1>{title}</h1><p>{html.escape(self.paper.citation)}</p>"
            '<div class="scroll"><table><tr><th>figure</th><th>shows</th><th>claims</th>'
            f"<th>verdict</th></tr>{rows}</table></div>"
            + "".join(section(self.figures[of]) for of in ids)
        )


def summary(figure: dict[str, Any]) -> str:
    held = sum(claim["holds"] for claim in figure["claims"])
    word = WORDS[figure["status"]] + (" (short)" if figure["short"] else "")
    tone = "good" if figure["status"] == "holds" else "bad"
    name, title = html.escape(figure["id"]), html.escape(figure["title"])
    return (
        f'<tr><td><a href="#{name}">{name}</a></td><td>{title}</td>'
        f'<td>{held} of {len(figure["claims"])}</td><td class="{tone}">{word}</td></tr>'
    )


def section(figure: dict[str, Any]) -> str:
    name, escape = html.escape(figure["id"]), html.escape
    items = []
    for run in figure["runs"]:
        doubt = "" if run["trusted"] else f", not trusted: {escape('; '.join(run['reasons']))}"
        link = f'<a href="{escape(run["folder"])}/report.html">{escape(run["name"])}</a>'
        items.append(f"<li>{link}{doubt}<pre>{escape(run['repeat'])}</pre></li>")
    runs = f"<details><summary>Runs</summary><ul>{''.join(items)}</ul></details>" if items else ""
    return (
        f'<section id="{name}"><h2>{name}: {escape(figure["title"])}</h2>{figure["html"]}{runs}'
        f"<p>Made in {figure['took_s']:.0f} s. Again:</p><pre>{escape(figure['repeat'])}</pre>"
        "</section>"
    )


def known(paper: Paper, ids: Any) -> list[Figure]:
    """The figures with these numbers, each once; all without any. Raises PaperError."""
    figures = {figure.id: figure for figure in paper.figures}
    for name in ids:
        if name not in figures:
            text = f"`{paper.name}` has no figure `{name}`; figures: {', '.join(figures)}"
            raise PaperError(text, 2)
    return [figures[name] for name in dict.fromkeys(ids)] or list(figures.values())
