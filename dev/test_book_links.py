"""Tests of the check of the book's links: `python3 -B -m unittest discover -s dev`."""

import tempfile
import unittest
from pathlib import Path

import book_links

PAGES = {
    "index.html": '<h1 id="top"><a href="guide/lab.html#run">run</a> <a href="https://a.b/c">c</a>',
    "guide/lab.html": '<h2 id="run"><a href="../index.html#top">top</a> <a href="#run">here</a>',
    "404.html": '<base href="/">',
}


class Links(unittest.TestCase):
    def check(self, **pages):
        with tempfile.TemporaryDirectory() as folder:
            added = {f"{name}.html": text for name, text in pages.items()}
            for name, text in {**PAGES, **added}.items():
                path = Path(folder, name)
                path.parent.mkdir(exist_ok=True)
                path.write_text(text, encoding="utf-8")
            return book_links.broken(folder)

    def test_accepts_links_to_pages_anchors_and_other_sites(self):
        self.assertEqual(self.check(), [])

    def test_finds_missing_page(self):
        found = self.check(a='<p>\n<a href="guide/none.html">none</a>')
        self.assertEqual(found, ["a.html:2: `guide/none.html`: no such file"])

    def test_finds_missing_anchor(self):
        self.assertEqual(
            self.check(a='<a href="index.html#end">end</a>', b='<img src="#here">'),
            ["a.html:1: `index.html#end`: no such anchor", "b.html:1: `#here`: no such anchor"],
        )


if __name__ == "__main__":
    unittest.main()
