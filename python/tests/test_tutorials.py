"""The tutorials: each runs as a notebook, and its page in the book is current."""

import importlib.util
import sys
import unittest

from kit import ROOT, Case

sys.path.insert(0, str(ROOT / "dev"))

import tutorials  # noqa: E402


def runs(name: str):
    """A test that executes a tutorial."""

    @unittest.skipUnless(importlib.util.find_spec("nbclient"), "nbclient is not installed")
    @unittest.skipUnless(importlib.util.find_spec("ipykernel"), "ipykernel is not installed")
    @unittest.skipUnless(importlib.util.find_spec("matplotlib"), "matplotlib is not installed")
    def test(self: Case) -> None:
        notebook = tutorials.execute(tutorials.SOURCES / f"{name}.py")
        text, pictures = tutorials.page(notebook, name)
        written = (tutorials.PAGES / f"{name}.md").read_text(encoding="utf-8")
        self.assertEqual(
            tutorials.masked(text), tutorials.masked(written), "run python3 dev/tutorials.py"
        )
        listed = {path.name for path in tutorials.PAGES.glob(f"{name}-*.svg")}
        self.assertEqual(listed, set(pictures))

    return test


class Tutorials(Case):
    def test_each_tutorial_is_in_the_book(self) -> None:
        names = {path.stem for path in tutorials.SOURCES.glob("*.py")}
        self.assertEqual(names, {path.stem for path in tutorials.PAGES.glob("*.md")})
        summary = (ROOT / "docs" / "src" / "SUMMARY.md").read_text(encoding="utf-8")
        for name in names:
            self.assertIn(f"(tutorials/{name}.md)", summary)


for path in tutorials.SOURCES.glob("*.py"):
    setattr(Tutorials, f"test_{path.stem}_runs_and_its_page_is_current", runs(path.stem))


if __name__ == "__main__":
    unittest.main()
