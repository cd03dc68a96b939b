"""Tests of book_commands.py: what counts as a command, and what a page may not do."""

import tempfile
import unittest
from pathlib import Path

import book_commands
from book_commands import Page, PageError, blocks, commands


def run(text, netarium="/bin/true"):
    """Runs a page with this text; returns the number of commands."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.md"
        page.write_text(text)
        inside = Path(folder) / "work"
        inside.mkdir()
        return Page(page, Path(netarium), inside).run()


class Blocks(unittest.TestCase):
    def test_only_lines_with_a_prompt_are_commands(self):
        self.assertEqual(commands("$ a\noutput\n$ b \\\n  c\n"), ["a", "b \\\n  c"])

    def test_other_languages_do_not_run(self):
        self.assertEqual(blocks("```text\n$ a\n```\n"), [])

    def test_a_directive_belongs_to_the_next_block_alone(self):
        text = "<!-- book: skip why -->\n```console\n$ a\n```\n\n```console\n$ b\n```\n"
        self.assertEqual([block.action for block in blocks(text)], ["skip", "run"])


class Pages(unittest.TestCase):
    def test_runs_commands_in_order_in_one_folder(self):
        text = "<!-- book: file a -->\n```toml\nx\n```\n```console\n$ mv a b\n$ grep x b\n```\n"
        self.assertEqual(run(text), 2)

    def test_fails_if_a_command_fails(self):
        with self.assertRaisesRegex(PageError, "exit status 7, expected 0"):
            run("```console\n$ exit 7\n$ true\n```\n")

    def test_accepts_untrusted_runs_and_an_expected_status(self):
        self.assertEqual(run("```console\n$ exit 3\n```\n"), 1)
        self.assertEqual(run("<!-- book: exit 7 -->\n```console\n$ true\n$ exit 7\n```\n"), 2)

    def test_fails_if_a_background_command_fails(self):
        with self.assertRaises(PageError):
            run("<!-- book: background -->\n```console\n$ exit 7\n```\n")

    def test_prepares_what_a_block_needs(self):
        text = "<!-- book: given cp $REPOSITORY/README.md a -->\n```console\n$ test -s a\n```\n"
        self.assertEqual(run(text), 1)

    def test_skip_needs_a_reason(self):
        with self.assertRaisesRegex(PageError, "needs a reason"):
            run("<!-- book: skip -->\n```console\n$ a\n```\n")

    def test_rejects_an_unknown_directive(self):
        with self.assertRaisesRegex(PageError, "unknown directive `sikp`"):
            run("<!-- book: sikp why -->\n```console\n$ a\n```\n")

    def test_every_page_of_the_project_is_found(self):
        names = {page.name for page in book_commands.pages()}
        self.assertLessEqual({"README.md", "first-lab.md", "cli.md"}, names)

    def test_finds_example_labs_that_commands_run(self):
        found = book_commands.examples()
        self.assertIn("examples/20-cluster.toml", found)
        self.assertTrue(all((book_commands.ROOT / name).is_file() for name in found), found)


if __name__ == "__main__":
    unittest.main()
