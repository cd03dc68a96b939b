"""Pages of the book with the figures of papers: pictures, and the papers' values beside ours."""

import json
import math
import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PAGES, IMAGES = ROOT / "docs/src/papers/figures", ROOT / "docs/src/images/papers"
HEADS = ("claim", "paper", "tolerance", "here", "verdict")
SVG = "{http://www.w3.org/2000/svg}"
ElementTree.register_namespace("", SVG[1:-1])
ElementTree.register_namespace("xlink", "http://www.w3.org/1999/xlink")
NUMBER = re.compile(r"-?\d+\.\d+")
FONT = "text{font-family: 'DejaVu Sans', Verdana, sans-serif}"
MAX_DISTANCE = 0.3  # Of an omitted point from the line, in units of 1/72 inch.
VERDICTS = {True: "✓ holds", False: "✗ differs"}
# Where the text of a claim has our tolerance.
TOLERANCE = re.compile(r"(.*?) ?\((?:here|expected|check): (.*)\)|required: (.*)", re.S)
MISSING = "This page has no result of it yet."
# Begins of the notes that say what speaks against a run.
DOUBTS = ("Run ", "The machine's processors")
INTRODUCTION = """\
After this page you can compare the figures of this paper, as Netarium makes them, with the paper.

*{citation}*

The command of each figure is above its claims. Figures with `--short` have smaller sizes, which
show that all works, not what the paper shows. Results on the virtual clock are the same on each
machine. Those on the wall clock are from a machine with two cores that also ran other programs; for
some minutes the runs had a raised process priority. Some are untrusted: see
[fidelity](../../concepts/fidelity.md). The tolerance is that of the claim where it differs from the
paper's value. `dev/gallery --papers` makes this page.
"""


class Shown(NamedTuple):
    """A figure on a page: options of its command, what speaks against its runs, rows of claims, and
    titles and notes of pictures. All texts are Markdown.
    """

    options: str
    doubts: list
    claims: list
    pictures: list


def escaped(text):
    return re.sub(r"([|<*_\\])", r"\\\1", text).replace("\n", " ")


def shown(figure):
    """A figure of `results.json`."""
    clocks = {run["clock"] for run in figure["runs"]}
    options = [f"--clock {clock}" for clock in clocks if len(clocks) == 1]
    options += ["--short"] if figure["short"] else []
    claims = []
    for claim in figure["claims"]:
        paper, tolerance = claim["paper"], "–"
        if found := TOLERANCE.fullmatch(paper):
            paper, tolerance = found[1] or "–", found[2] or found[3]
        cells = (claim["what"], paper, tolerance, claim["ours"], VERDICTS[claim["holds"]])
        claims.append(tuple(map(escaped, cells)))
    pictures = [(escaped(plot["title"]), escaped(plot["note"])) for plot in figure["plots"]]
    doubts = [escaped(note) for note in figure["notes"] if note.startswith(DOUBTS)]
    return Shown(" ".join(options), doubts, claims, pictures)


def page(paper, figures):
    """The page of a paper with figures by their ids."""
    parts = [f"# Figures of {paper.title}\n", INTRODUCTION.format(citation=paper.citation)]
    for figure in paper.figures:
        parts += section(paper.name, figure, figures.get(figure.id))
    return "\n".join(parts)


def section(paper, figure, of):
    """A figure, or its command if there is no result."""
    command = f"netarium reproduce {paper} {figure.id} {of.options if of else ''}".rstrip()
    lines = [f"## {figure.id}: {figure.title}\n", *(f"{text}\n" for text in figure.text[:1])]
    lines.append(f"```console\n$ {command}\n```\n")
    if not of:
        return [*lines, f"{MISSING} It takes about {figure.takes} in the sizes of the paper.\n"]
    held = sum(claim[-1] == VERDICTS[True] for claim in of.claims)
    total = f"{held} of {len(of.claims)} claims hold."
    lines.append(total if of.claims else "It has no claim on this clock.")
    lines += [f"\n> {doubt}" for doubt in of.doubts]
    if of.claims:
        lines += ["", row(HEADS), row(["---"] * len(HEADS)), *map(row, of.claims)]
    for place, (title, note) in enumerate(of.pictures, 1):
        lines.append(f"\n![{title}](../../images/papers/{paper}/{figure.id}-{place}.svg)")
        lines += [f"\n*{note}*"] if note else []
    return [*lines, ""]


def row(cells):
    return f"| {' | '.join(cells)} |"


def read(text):
    """The figures of a page with a result, by their ids."""
    found = {}
    for part in text.split("\n## ")[1:]:
        head, body = part.split("\n", 1)
        if MISSING in body:
            continue
        name = head.split(": ")[0]
        command = re.search(r"^\$ netarium reproduce \S+ \S+ ?(.*)$", body, re.M)[1]
        rows = [line[2:-2].split(" | ") for line in body.splitlines() if line.startswith("| ")]
        pictures = re.findall(r"^!\[(.*)\]\(.*\)$(?:\n\n\*(.*)\*$)?", body, re.M)
        claims = [tuple(cells) for cells in rows[2:]]
        found[name] = Shown(command, re.findall("^> (.*)$", body, re.M), claims, pictures)
    return found


def simplify(svg):
    """A picture without metadata, with short numbers, and with the visible points of each path."""
    # The font once, instead of a list at each text.
    svg = re.sub(r'font-family: [^;"]*;? ?', "", svg).replace("</style>", f"{FONT}</style>", 1)
    svg = re.sub(r"<(\?xml|!DOCTYPE|!--).*?>|<metadata>.*?</metadata>", "", svg, flags=re.S)
    # Markers are drawn at many places, paths of other commands (such as curves) are short.
    svg = re.sub(r' d="(M [-\d. LM\n]+)(z?)\s*"', lambda of: f' d="{path(of[1])}{of[2]}"', svg)
    svg = re.sub(r"<[^>]*>", lambda tag: NUMBER.sub(lambda of: number(float(of[0])), tag[0]), svg)
    return compact(svg)


def compact(svg):
    """A picture on one line, without groups that have no effect, with a class for each style."""
    root = ElementTree.fromstring(re.sub(r">\s*\n\s*<", "><", svg))
    used = re.findall(r'(?:url\(|href=")#([^")]+)', svg)
    ids = {name: f"i{place}" for place, name in enumerate(dict.fromkeys(used))}
    sheet, classes = root.find(f".//{SVG}style"), {}
    for element in root.iter():
        name = element.attrib.pop("id", None)
        if name in ids:
            element.set("id", ids[name])
        for key, value in element.items():
            element.set(key, re.sub(r"#([^)]+)", lambda of: f"#{ids.get(of[1], of[1])}", value))
        if element.get("transform", "").startswith("rotate(-0 "):
            del element.attrib["transform"]
        if style := element.attrib.pop("style", ""):
            style = re.sub(r"\s*([:;])\s*", r"\1", style).strip("; ")
            element.set("class", classes.setdefault(style, f"c{len(classes)}"))
    root[:] = unwrapped(root)
    rules = [f".{name}{{{style}}}" for style, name in classes.items()]
    sheet.text = "".join([sheet.text or "", *rules])
    return ElementTree.tostring(root, encoding="unicode").replace(" />", "/>") + "\n"


def unwrapped(element):
    """The elements within, without groups that have no attribute."""
    found = []
    for child in element:
        child[:] = unwrapped(child)
        found += child if child.tag == f"{SVG}g" and not child.keys() else [child]
    return found


def number(value):
    return f"{value:.1f}".removesuffix(".0")


def path(text):
    """The lines of a path, with coordinates only after the first `L` of each."""
    parts = []
    for line in text.split("M")[1:]:
        points = [tuple(map(float, point.split())) for point in line.split("L")]
        points = [f"{number(x)} {number(y)}" for x, y in visible(points)]
        parts.append("M" + "L".join([points[0], " ".join(points[1:])] if points[1:] else points))
    return "".join(parts)


def visible(points):
    """The points without those that are near the line between others (Douglas and Peucker)."""
    kept, open_ = {0, len(points) - 1}, [(0, len(points) - 1)]
    while open_:
        first, last = open_.pop()
        (x, y), (end_x, end_y) = points[first], points[last]
        across, up = end_x - x, end_y - y
        length = math.hypot(across, up)

        def distance(place):
            right, high = points[place][0] - x, points[place][1] - y
            return abs(across * high - up * right) / length if length else math.hypot(right, high)

        middle = max(range(first + 1, last), key=distance, default=first)
        if middle != first and distance(middle) > MAX_DISTANCE:
            kept.add(middle)
            open_ += [(first, middle), (middle, last)]
    return [points[place] for place in sorted(kept)]


def main(folders):
    """Adds results of `netarium reproduce` to the pages; other figures stay as they are.

    A figure that could not be made is reported and omitted.
    """
    sys.path[:0] = [str(ROOT / "reproduce"), str(ROOT / "python")]
    from netarium_papers import papers

    PAGES.mkdir(parents=True, exist_ok=True)
    for folder in map(Path, folders):
        results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
        paper = papers()[results["paper"]]
        path, images = PAGES / f"{paper.name}.md", IMAGES / paper.name
        figures = read(path.read_text(encoding="utf-8")) if path.exists() else {}
        images.mkdir(parents=True, exist_ok=True)
        for name, figure in results["figures"].items():
            if figure["status"] == "failed":
                print(f"{paper.name} {name} could not be made: {figure['error']}", file=sys.stderr)
                continue
            figures[name] = shown(figure)
            for old in images.glob("*.svg"):
                if re.fullmatch(rf"{re.escape(name)}-\d+", old.stem):
                    old.unlink()
            for place in range(1, len(figure["plots"]) + 1):
                source = f"figure-{name}" + (f"-{place}" if place > 1 else "")
                svg = (folder / f"{source}.svg").read_text(encoding="utf-8")
                (images / f"{name}-{place}.svg").write_text(simplify(svg), encoding="utf-8")
        path.write_text(page(paper, figures), encoding="utf-8")
