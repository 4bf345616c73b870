"""Check the built site: links, pictures and anchors exist inside it, and nothing is loaded from elsewhere.

python docs/check_links.py site
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADS = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}


class Page(HTMLParser):
    """The links and anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag points to."""
        values = {name: value for name, value in attrs if value}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif values.get(LOADS.get(tag, "")):
            self.loaded.append(values[LOADS[tag]])


def problems(site: Path) -> list[str]:
    """What is wrong, a line each."""
    pages = {path.resolve(): Page(path.read_text("utf-8")) for path in sorted(site.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        if path.name == "404.html":  # served from any address: its links are absolute
            continue
        for link in page.links + page.loaded:
            address = urlsplit(link)
            if address.scheme or address.netloc:
                if link in page.loaded:
                    found.append(f"{path.name} loads {link} from elsewhere")
                continue
            target = (path.parent / unquote(address.path)).resolve() if address.path else path
            target = target / "index.html" if target.is_dir() else target
            if not (target.exists() and target.is_relative_to(site.resolve())):
                found.append(f"{path.relative_to(site.resolve())} links to {link}, which is not there")
            elif address.fragment and target in pages and unquote(address.fragment) not in pages[target].anchors:
                found.append(f"{path.relative_to(site.resolve())} links to {link}, and there is no such anchor")
    return found


if __name__ == "__main__":
    lines = problems(Path(sys.argv[1]))
    print("\n".join(lines) or "All links of the site lead somewhere.")
    sys.exit(bool(lines))
