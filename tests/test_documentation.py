"""Everything the README and the docs show is run, and prints what they say it prints."""

import contextlib
import io
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

from elbert.envs import ENTRIES
from elbert.fairness.notions import NOTIONS
from elbert.learning import METHODS

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
WRITES = re.compile(r"^Written: .*$", re.MULTILINE)


def blocks(page):
    return [(language, body) for language, body in BLOCK.findall(page.read_text())]


def lines(text):
    return [line.rstrip() for line in text.strip().splitlines()]


@pytest.fixture
def forgetting():
    """What a page registers is forgotten again."""
    kept = [(known, dict(known)) for known in (ENTRIES, METHODS, NOTIONS)]
    yield
    for known, before in kept:
        for name in known.keys() - before.keys():
            del known[name]


TRAINS = re.compile(r"elbert\.(train|evaluate|compare|sweep|tradeoff)")
SHOWN = [
    pytest.param(p, id=p.name, marks=[pytest.mark.slow] if TRAINS.search(p.read_text()) else [])
    for p in PAGES
    if any(language == "python" for language, _ in blocks(p))
]


@pytest.mark.parametrize("page", SHOWN)
def test_python_blocks_print_what_the_page_shows(page, forgetting, tmp_path):
    """The blocks of a page share one namespace, as for a reader who types them in order; what they write is lost."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    namespace = {"__name__": "__main__"}
    following = blocks(page)
    for (language, body), (after, shown) in zip(following, [*following[1:], ("", "")], strict=True):
        if language != "python":
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.chdir(tmp_path):
            exec(compile(body, str(page), "exec"), namespace)  # noqa: S102  (our own documentation)
        if after == "text":
            assert lines(printed.getvalue()) == lines(shown)
        else:
            assert not printed.getvalue(), "the page does not show what this block prints"


def commands(page):
    """(command, the output shown below it) for every line that starts with $ in a console block."""
    for language, body in blocks(page):
        if language == "console":
            for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
                command, _, shown = part.partition("\n")
                yield command, shown


SLOW = {
    "make demo",
    "elbert sweep examples/study.toml --list",
    *(f".venv/bin/elbert envs {name}" for name in ENTRIES if name != "lending"),
}
COMMANDS = [
    pytest.param(*c, id=f"{p.name}: {c[0]}", marks=[pytest.mark.slow] if c[0] in SLOW else [])
    for p in PAGES
    for c in commands(p)
]


def test_there_is_something_to_run():
    assert any("make demo" in str(c.id) for c in COMMANDS)
    assert any("make test" in str(c.id) for c in COMMANDS)


@pytest.mark.parametrize(("command", "shown"), COMMANDS)
def test_commands_do_what_the_page_says(command, shown, tmp_path):
    words = command.split()
    if words == ["make", "test"]:
        words.append("--dry-run")  # these tests are part of it
    elif words[0] == "make":
        words += [f"OUT={tmp_path}", "DEMO=--steps 80000"]  # one iteration each: enough to see that all of it works
    elif words[0] in (".venv/bin/elbert", "elbert"):
        words[0] = shutil.which("elbert", path=sysconfig.get_path("scripts")) or "elbert"  # of the Python under test
        words = [str(tmp_path / "demo") if word == "demo" else word for word in words]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT)
    code = re.search(r"^exit code (\d+)$", shown, re.MULTILINE)
    assert done.returncode == (int(code[1]) if code else 0), done.stderr
    printed = "\n".join(lines(WRITES.sub("", done.stdout)))
    shown = "\n".join(lines(WRITES.sub("", shown if code is None else shown.replace(code[0], ""))))
    parts = re.split(r"^\.\.\.$", shown, flags=re.MULTILINE)  # which stand for any lines
    if len(parts) == 1 and shown.strip():
        assert printed == shown
    place = 0
    for part in parts:
        assert part.strip("\n") in printed[place:], part
        place = printed.index(part.strip("\n"), place)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_nothing_was_left_to_be_filled_in(page):
    placeholder = re.compile(r"^[A-Z]+(?:_[A-Z]+)+$|TODO|TBD|FIXME", re.MULTILINE)
    assert placeholder.search("text\n\nSOME_TABLE\n\nmore")
    assert not placeholder.search(page.read_text())


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target
