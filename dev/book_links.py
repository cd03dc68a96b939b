"""Checks the links of a built book: each file and each anchor within it must exist. Addresses of
other sites are not opened, and the page for unknown addresses belongs to a web server.

    python3 dev/book_links.py FOLDER
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit


class Link(NamedTuple):
    """A link and the line of its page."""

    line: int
    target: str


class Page(HTMLParser):
    """The anchors and links of a page."""

    def __init__(self, text):
        super().__init__()
        self.anchors, self.links = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name == "id" or (tag, name) == ("a", "name"):
                self.anchors.add(value)
            elif name in ("href", "src") and value:
                self.links.append(Link(self.getpos()[0], value))


def broken(folder):
    """A line for each broken link: page, line, target, cause."""
    folder = Path(folder).resolve()
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in folder.rglob("*.html")}
    found = []
    pages.pop(folder / "404.html", None)
    for path, page in sorted(pages.items()):
        for link in page.links:
            parts = urlsplit(link.target)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            anchor = unquote(parts.fragment)
            if not target.exists():
                cause = "no such file"
            elif anchor and target in pages and anchor not in pages[target].anchors:
                cause = "no such anchor"
            else:
                continue
            name = path.relative_to(folder)
            found.append(f"{name}:{link.line}: `{link.target}`: {cause}")
    return found


def main():
    found = broken(sys.argv[1])
    print(*found, sep="\n", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
