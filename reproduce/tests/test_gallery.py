"""Pages of the book with the figures of papers, and the script that makes them."""

import contextlib
import io
import json
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.append(str(ROOT / "dev"))

import paper_gallery as gallery

try:
    from netarium_papers import papers
except ImportError as error:
    raise unittest.SkipTest(f"{error.name} is not installed") from None

# Of all pictures together.
MAX_BYTES = 2_000_000
NAMESPACE, STYLE = 'xmlns="http://www.w3.org/2000/svg"', "<style></style>"
COMMAND = "PYTHONPATH=python:reproduce dev/gallery --papers RESULTS"


def pages():
    """Each paper, its page, and the figures on it."""
    for paper in papers().values():
        text = (gallery.PAGES / f"{paper.name}.md").read_text(encoding="utf-8")
        yield paper, text, gallery.read(text)


class Pages(unittest.TestCase):
    def test_pages_have_all_figures_in_order(self):
        for paper, text, found in pages():
            heads = [line[3:] for line in text.splitlines() if line.startswith("## ")]
            expected = [f"{figure.id}: {figure.title}" for figure in paper.figures]
            self.assertEqual(heads, expected, COMMAND)
            for name, figure in found.items():
                self.assertTrue(figure.claims or figure.pictures, f"{paper.name} {name}")

    def test_text_beside_measured_values_is_that_of_the_script(self):
        for paper, text, found in pages():
            self.assertEqual(text, gallery.page(paper, found), COMMAND)

    def test_pictures_are_those_of_the_pages_and_small(self):
        size = 0
        for paper, _, found in pages():
            named = {
                f"{name}-{place}.svg"
                for name, figure in found.items()
                for place in range(1, len(figure.pictures) + 1)
            }
            files = {path.name: path for path in (gallery.IMAGES / paper.name).iterdir()}
            self.assertEqual(set(files), named, COMMAND)
            for path in files.values():
                ElementTree.parse(path)
                size += path.stat().st_size
        self.assertLess(size, MAX_BYTES)


class Script(unittest.TestCase):
    figure = {
        "runs": [{"clock": "virtual"}],
        "short": True,
        "status": "differs",
        "notes": ["Means of 1 s.", "Run a (wall) was not trusted: late."],
        "claims": [
            {
                "what": "a | b",
                "paper": "the same (here: at most 8 ms)",
                "ours": "9",
                "holds": False,
            },
            {"what": "c_d", "paper": "required: at least 1", "ours": "2", "holds": True},
            {"what": "e", "paper": "9 to 10 (figure 2)", "ours": "<9>", "holds": True},
        ],
        "plots": [{"title": "A", "note": "Means."}, {"title": "B", "note": ""}],
    }

    def test_tolerance_is_a_column_of_its_own(self):
        found = gallery.shown(self.figure)
        self.assertEqual(
            found.claims,
            [
                ("a \\| b", "the same", "at most 8 ms", "9", "✗ differs"),
                ("c\\_d", "–", "at least 1", "2", "✓ holds"),
                ("e", "9 to 10 (figure 2)", "–", "\\<9>", "✓ holds"),
            ],
        )
        self.assertEqual(found.options, "--clock virtual --short")
        self.assertEqual(found.doubts, ["Run a (wall) was not trusted: late."])

    def test_page_is_read_as_it_was_written(self):
        cluster = papers()["cluster"]
        others = {**self.figure, "notes": [], "runs": [], "plots": []}
        figures = {"agents": gallery.shown(self.figure), "flows": gallery.shown(others)}
        text = gallery.page(cluster, figures)
        self.assertEqual(gallery.read(text), figures)
        self.assertIn("2 of 3 claims hold.\n\n|", text)
        self.assertIn("$ netarium reproduce cluster flows --short\n", text)
        self.assertIn(f"$ netarium reproduce cluster delays\n```\n\n{gallery.MISSING}", text)

    def test_results_replace_their_figures_only(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            results = {"paper": "cluster", "figures": {"agents": self.figure}}
            (folder / "results.json").write_text(json.dumps(results))
            for end in ("", "-2"):
                (folder / f"figure-agents{end}.svg").write_text(f"<svg {NAMESPACE}>{STYLE}</svg>")
            places = {"PAGES": folder / "pages", "IMAGES": folder / "images"}
            with mock.patch.multiple(gallery, **places):
                gallery.main([folder])
                for other in ("agents-3", "agents-more-1"):
                    (folder / f"images/cluster/{other}.svg").touch()
                failed = {**self.figure, "status": "failed", "error": "no lab"}
                flows = {**self.figure, "plots": []}
                results["figures"] = {"flows": flows, "delays": failed}
                (folder / "results.json").write_text(json.dumps(results))
                with contextlib.redirect_stderr(io.StringIO()) as err:
                    gallery.main([folder])
                self.assertEqual(err.getvalue(), "cluster delays could not be made: no lab\n")
                text = (folder / "pages/cluster.md").read_text()
                self.assertEqual(list(gallery.read(text)), ["agents", "flows"])
                results["figures"] = {"agents": self.figure}
                (folder / "results.json").write_text(json.dumps(results))
                gallery.main([folder])
            found = sorted(path.name for path in (folder / "images/cluster").iterdir())
            self.assertEqual(found, ["agents-1.svg", "agents-2.svg", "agents-more-1.svg"])

    def test_pictures_keep_visible_points_only(self):
        line = "M 0 0 \nL 10.04 0.1 \nL 20 0 \nL 20 50.123 \nL 30 0"
        body = f'<path d="{line}\n"/>\n<text x="1.26">1.25</text>'
        svg = f'<?xml version="1.0"?>\n<svg {NAMESPACE}>\n{STYLE}\n{body}</svg>'
        self.assertIn('<path d="M0 0L20 0 20 50.1 30 0"/><text x="1.3">', gallery.simplify(svg))
        self.assertIn("<text x=\"1.3\">1.25</text></svg>\n", gallery.simplify(svg))

    def test_pictures_have_each_style_once_and_no_idle_groups(self):
        body = """<g id="axes">
        <defs><path id="m95a6" d="M0 0" style="fill: #fff; stroke: #000"/></defs>
        <g clip-path="url(#p12)"><use href="#m95a6" style="fill: #fff; stroke: #000"/></g>
        <text id="t" transform="rotate(-0 1 2)" style="fill: red;">a &lt; b</text>
        </g><clipPath id="p12"/>"""
        expected = (
            "<style>.c0{fill:#fff;stroke:#000}.c1{fill:red}</style>"
            '<defs><path d="M0 0" id="i1" class="c0"/></defs>'
            '<g clip-path="url(#i0)"><use href="#i1" class="c0"/></g>'
            '<text class="c1">a &lt; b</text><clipPath id="i0"/>'
        )
        svg = f"<svg {NAMESPACE}>{STYLE}{body}</svg>"
        self.assertEqual(gallery.compact(svg), f"<svg {NAMESPACE}>{expected}</svg>\n")


if __name__ == "__main__":
    unittest.main()
