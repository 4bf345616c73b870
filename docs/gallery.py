"""Make the pages of docs/gallery and their pictures, as docs/gallery.md shows them.

    python docs/gallery.py [FOLDER]

It trains for some minutes; what FOLDER (a new one by default) holds already is not trained again. It needs the extra
`browser` and Chromium.
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path

import elbert
from elbert.experiments.reproduce import reproduce
from elbert.report.web.subjects import document_of

HERE = Path(__file__).parent.absolute()
WIDTHS = {"phone": 360, "tablet": 768, "desk": 1440}
LOANS = Path("examples/loans.csv")  # seen from the repository, so that the page names no folder of this machine


def trained(env: str, method: str, steps: int, folder: Path) -> Path:
    """A run of three seeds."""
    out = folder / f"{env}-{method}"
    elbert.train_many(env, seeds=3, method=method, steps=steps, out=out, resume=out.exists(), progress=True)
    return out


def results(folder: Path) -> dict[str, object]:
    """One result for every page."""
    lending = {method: trained("lending", method, 4_000_000, folder) for method in ("elbert-po", "g-ppo")}
    infectious = {method: trained("infectious-harder", method, 1_000_000, folder) for method in ("elbert-po", "g-ppo")}
    asked = {"time": "date", "group": "group", "decision": "approved", "unit": "officer", "max_bias": 0.05}
    return {
        "lending": elbert.compare({**lending, "rule": "lending/thresholds-2-1"}),
        "infectious": elbert.compare(infectious),
        "frontier": elbert.frontier("lending"),
        "audit": elbert.audit(LOANS, **asked),
        "reproduction": reproduce(["main"], out=folder / "reproduction", envs=["lending"], quick=True),
    }


def photograph(pages: list[Path]) -> None:
    """A picture of the top of every page, at three widths."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for path in pages:
            for name, width in WIDTHS.items():
                page = browser.new_page(viewport={"width": width, "height": max(900, width * 3 // 4)})
                page.goto(path.resolve().as_uri())
                page.wait_for_timeout(500)
                page.screenshot(path=path.with_name(f"{path.stem}-{name}.png"))
                page.close()
        browser.close()


def main() -> None:
    """Write the pages and their pictures."""
    folder = Path(sys.argv[1]).absolute() if len(sys.argv) > 1 else Path(tempfile.mkdtemp())
    os.chdir(HERE.parent)
    pages = [
        document_of(result, replay=True).write(HERE / "gallery" / f"{name}.html")
        for name, result in results(folder).items()
    ]
    photograph(pages)


if __name__ == "__main__":
    main()
