"""The files of figures as notebooks in the percent format."""

import os
import re
import unittest
from pathlib import Path

try:
    from netarium_papers import papers
except ImportError as error:
    raise unittest.SkipTest(f"{error.name} is not installed") from None

REPRODUCE = Path(__file__).resolve().parent.parent
CELL = re.compile(r"^# %%(.*)\n", re.MULTILINE)
SHORT = "splaynet/fig_3_6c.py"


def files():
    """The files of all figures by their paths below this folder."""
    names = (f"{paper.name}/{module}.py" for paper in papers().values() for module in paper.modules)
    return {name: (REPRODUCE / name).read_text(encoding="utf-8") for name in names}


class Files(unittest.TestCase):
    def test_cells_are_a_text_the_figure_and_its_start(self):
        for name, text in files().items():
            with self.subTest(name):
                _, *found = CELL.split(text)
                self.assertEqual(found[::2], [" [markdown]", "", ""])
                markdown, code, start = found[1::2]
                self.assertRegex(markdown, r'\A"""# .+\n[^"]+(?:"[^"]+"[^"]+)*\n"""\n+\Z')
                compile(code, name, "exec")
                self.assertRegex(start, r'\Aif __name__ == "__main__":\n    \w+\.main\(\)\n\Z')

    def test_text_of_the_first_cell_is_part_of_the_result(self):
        for paper in papers().values():
            for figure in paper.figures:
                with self.subTest(f"{paper.name} {figure.id}"):
                    self.assertTrue(figure.text)
                    self.assertNotIn("\n", "".join(figure.text))

    def test_each_file_converts_to_a_notebook(self):
        jupytext = self.module("jupytext")
        for name, text in files().items():
            with self.subTest(name):
                cells = jupytext.reads(text, "py:percent").cells
                self.assertEqual([of.cell_type for of in cells], ["markdown", "code", "code"])
                self.assertRegex(cells[0].source, r"\A# .+\n[^\"]")

    def test_notebook_shows_the_figure(self):
        jupytext, nbclient = self.module("jupytext"), self.module("nbclient")
        self.module("ipykernel")
        paths = os.pathsep.join([str(REPRODUCE), str(REPRODUCE.parent / "python")])
        self.addCleanup(os.environ.update, {"PYTHONPATH": os.environ.get("PYTHONPATH", "")})
        os.environ["PYTHONPATH"] = paths
        notebook = jupytext.reads(files()[SHORT], "py:percent")
        nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
        (shown,) = (of for of in notebook.cells[-1].outputs if "data" in of)
        self.assertIn("✓ holds", shown.data["text/html"])
        self.assertIn("<svg", shown.data["text/html"])

    def module(self, name):
        try:
            return __import__(name)
        except ImportError as error:
            raise unittest.SkipTest(f"{error.name} is not installed") from None


if __name__ == "__main__":
    unittest.main()
