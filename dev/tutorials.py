"""Executes the tutorials of docs/tutorials as notebooks, and writes their pages of the book.

    python3 dev/tutorials.py             all pages, in docs/src/tutorials
    python3 dev/tutorials.py NAME...     some of them

A tutorial is a Python file in the percent format, which Jupyter (with jupytext) and editors open as
a notebook. It needs nbclient, ipykernel and matplotlib, and NETARIUM_BINARY or `netarium` on PATH.
"""

import os
import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES, PAGES = ROOT / "docs" / "tutorials", ROOT / "docs" / "src" / "tutorials"
# Pictures of pages: text as text, and the same identifiers in each run.
SETUP = """
import warnings
import matplotlib
import matplotlib_inline.backend_inline as inline
matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "netarium"})
matplotlib.rcParams.update({"figure.figsize": (7, 3), "figure.autolayout": True})
inline.set_matplotlib_formats("svg", metadata={"Date": None})
"""


def cells(text):
    """The cells of a file in the percent format: kind (`code` or `markdown`) and text."""
    found = []
    for part in re.split(r"^# %%", text, flags=re.MULTILINE)[1:]:
        head, _, body = part.partition("\n")
        if head.strip() == "[markdown]":
            found.append(("markdown", re.sub(r"^# ?", "", body.strip(), flags=re.MULTILINE)))
        else:
            found.append(("code", body.strip()))
    return found


def execute(path):
    """The executed notebook of a tutorial, in a working directory of its own."""
    import nbclient
    import nbformat.v4 as v4

    made = {"code": v4.new_code_cell, "markdown": v4.new_markdown_cell}
    found = [made[kind](body) for kind, body in cells(path.read_text(encoding="utf-8"))]
    notebook = v4.new_notebook(cells=[v4.new_code_cell(SETUP), *found])
    paths = [str(ROOT / "python"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    environment["NETARIUM_DATA"] = str(ROOT / "data")
    with tempfile.TemporaryDirectory() as folder:
        client = nbclient.NotebookClient(
            notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": folder}}
        )
        client.execute(env=environment)
    del notebook.cells[0]
    return notebook


def page(notebook, name):
    """The page and its pictures by name."""
    source = f"https://github.com/netarium/netarium/blob/main/docs/tutorials/{name}.py"
    parts, pictures = [], {}
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        printed = "".join(o.text for o in cell.outputs if o.output_type == "stream")
        if printed:
            parts.append(f"```text\n{printed.rstrip()}\n```")
        for output in cell.outputs:
            data = output.get("data", {})
            if "image/svg+xml" in data:
                file = f"{name}-{len(pictures) + 1}.svg"
                pictures[file] = data["image/svg+xml"]
                parts.append(f"![{title_of(cell.source)}]({file})")
            elif "text/plain" in data:
                parts.append(f"```text\n{data['text/plain'].rstrip()}\n```")
    parts.append(f"This page shows the output of the notebook\n[{name}.py]({source}).")
    return "\n\n".join(parts) + "\n", pictures


def title_of(source):
    """The title of the figure of a cell."""
    found = re.findall(r'set_title\(f?"([^"]+)"', source)
    return re.sub(r"[{}]", "", found[-1]) if found else "figure"


def masked(text):
    """A page without measured numbers."""
    # Identifiers of runs are random.
    text = re.sub(r"-[0-9a-f]{6}: ", "-#: ", re.sub(r" +", " ", text))
    return re.sub(r"[-+]?\d+(\.\d+)?(e[-+]\d+)?", "#", text)


def main(names):
    PAGES.mkdir(exist_ok=True)
    for path in sorted(SOURCES.glob("*.py")):
        if not names or path.stem in names:
            text, pictures = page(execute(path), path.stem)
            for old in PAGES.glob(f"{path.stem}-*.svg"):
                old.unlink()
            for file, data in {f"{path.stem}.md": text, **pictures}.items():
                (PAGES / file).write_text(data, encoding="utf-8")
            print(path.stem)


if __name__ == "__main__":
    main(sys.argv[1:])
