"""Pages of every kind in a real browser: offline, by mouse and keyboard, with hostile names, narrow and wide."""
# pyright: reportOptionalMemberAccess=false, reportMissingImports=false

import dataclasses
import json
import threading
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import elbert
from elbert.experiments.paper import Experiment, plans_for
from elbert.experiments.reproduce import Outcome, Reproduction, Row
from elbert.report.web.subjects import document_of

pytestmark = pytest.mark.browser
ROOT = Path(__file__).parents[2]
RULES = {"fair": "lending/best-0.02", "greedy": "lending/thresholds-0-0"}
HOSTILE = [
    '<script>alert("x")</script>',
    "'\"><img src=x onerror=alert(1)>",
    "a" * 10_000,
    "\u202eright to left",
    "</script>",
]
KINDS = ("comparison", "run", "frontier", "audit", "reproduction", "report", "law")


@pytest.fixture(scope="module")
def comparison():
    return elbert.compare(RULES, env="lending", episodes=8, horizon=200, max_bias=0.2, progress=None)


def reproduced(result):
    """A reproduction whose trainings are two results."""
    (plan,) = plans_for(["main"], preset="fast", seeds=1, envs=["lending"])
    assert isinstance(plan, Experiment)
    rows = [Row("main", panel, series, result) for panel in plan.panels for series in panel.series]
    return Reproduction((Outcome(plan, Path("runs"), tuple(rows)),), {})


@pytest.fixture(scope="module")
def pages(comparison, tmp_path_factory):
    """A file of every kind of page."""
    folder = tmp_path_factory.mktemp("pages")
    elbert.train("infectious", steps=5120, copies=8, out=folder / "run", progress=None)
    log = ROOT / "examples" / "loans.csv"
    asked = {"time": "date", "group": "group", "decision": "approved", "unit": "officer", "progress": None}
    totals = np.random.default_rng(0).integers(5, 9, (20, 3))
    results = {
        "comparison": comparison,
        "run": elbert.compare({"run": folder / "run"}, episodes=8, progress=None),
        "frontier": elbert.frontier("lending", max_bias=[0.0, 0.02, None], horizon=300, progress=None),
        "audit": elbert.audit(log, **asked, max_bias=0.05),
        "reproduction": reproduced(comparison["fair"]),
        "report": elbert.benefit_report(totals, totals + 3, groups=["north", "south", "west"]),
        "law": elbert.law_table(log, group="group", decision="approved", progress=None),
    }
    for kind, result in results.items():
        document_of(result, replay=kind in ("comparison", "run")).write(folder / f"{kind}.html")
    return folder


@pytest.mark.parametrize("width", [360, 768, 1440])
@pytest.mark.parametrize("kind", KINDS)
def test_pages_open_offline_and_fit(kind, width, pages, opened):
    """Red on any console message or request, on a picture that is not drawn, and on a page that is too wide."""
    page = opened(pages / f"{kind}.html", width)
    drawn = page.evaluate("() => window.elbertPage.page.charts.every((c) => document.querySelector(`#${c.id} svg`))")
    assert drawn
    assert page.evaluate("() => document.scrollingElement.scrollWidth") <= width
    assert page.locator("h1").inner_text()


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_serious_for_people_who_do_not_see_or_point(kind, pages, opened):
    axe = pytest.importorskip("axe_playwright_python.base", reason="axe is not installed (make browser)")
    script = (Path(axe.__file__).parent / "axe.min.js").read_text()
    for scheme in ("light", "dark"):
        page = opened(pages / f"{kind}.html", color_scheme=scheme, bypass_csp=True)
        page.evaluate("() => document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        page.evaluate(script + "; null")
        found = page.evaluate("async () => (await axe.run()).violations")
        serious = [each for each in found if each["impact"] in ("serious", "critical")]
        assert [(each["id"], each["nodes"][0]["html"][:200]) for each in serious] == []


def test_a_picture_is_read_zoomed_and_filtered_by_keyboard(pages, opened):
    page = opened(pages / "comparison.html")
    picture = page.locator("#chart-0 svg[role=img]").first
    picture.focus()
    page.keyboard.press("ArrowRight")
    tip = page.locator("#chart-0 .tip")
    assert "best possible" in tip.inner_text()
    page.keyboard.press("ArrowDown")
    assert "fair" in tip.inner_text()
    assert "fair" in page.locator("#chart-0 [aria-live]").inner_text()
    before = page.locator("#chart-0 svg[role=img] text").all_inner_texts()
    page.keyboard.press("+")
    assert page.locator("#chart-0 svg[role=img] text").all_inner_texts() != before
    page.keyboard.press("0")
    assert page.locator("#chart-0 svg[role=img] text").all_inner_texts() == before
    page.keyboard.press("Escape")
    assert tip.is_hidden()
    points = page.locator("#chart-0 svg[role=img] .mark").count()
    key = page.locator("#chart-0 .legend button", has_text="greedy")
    key.focus()
    page.keyboard.press("Enter")
    assert page.locator("#chart-0 svg[role=img] .mark").count() == points - 1
    assert key.get_attribute("aria-pressed") == "false"


def test_a_picture_is_read_and_zoomed_by_mouse(pages, opened):
    page = opened(pages / "audit.html")
    picture = page.locator("figure", has_text="Long-term").locator("svg[role=img]").first
    picture.scroll_into_view_if_needed()
    box = picture.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    tip = page.locator("figure", has_text="Long-term").locator(".tip").first
    assert "rate so far" in tip.inner_text()
    before = picture.locator("text").all_inner_texts()
    page.mouse.move(box["x"] + 0.4 * box["width"], box["y"] + 0.2 * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + 0.7 * box["width"], box["y"] + 0.7 * box["height"], steps=4)
    page.mouse.up()
    assert picture.locator("text").all_inner_texts() != before
    page.get_by_role("button", name="Whole picture").first.click()
    assert picture.locator("text").all_inner_texts() == before


def test_the_result_is_inside(pages, opened, comparison):
    page = opened(pages / "comparison.html")
    page.get_by_text("The result as JSON").click()
    assert json.loads(page.locator("#result").inner_text()) == comparison.to_dict()
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as a file").click()
    assert json.loads(Path(saved.value.path()).read_text()) == comparison.to_dict()


def test_hostile_names_change_nothing(tmp_path, opened, comparison):
    """Names of policies, groups, columns, periods and files."""
    rows = [(name, decision) for name in HOSTILE for decision in ("yes", "no") for _ in range(40)]
    log = pl.DataFrame(rows, schema=["<b>group</b>", "decision"], orient="row")
    log = log.with_columns(time=pl.int_range(pl.len()) % 12).sample(fraction=1.0, shuffle=True, seed=0)
    audit = elbert.audit(log, group="<b>group</b>", decision="decision", time="time", max_bias=0.1, progress=None)
    renamed = [dataclasses.replace(comparison.policies[0], name=name) for name in HOSTILE]
    for place, result in enumerate((audit, dataclasses.replace(comparison, policies=tuple(renamed)))):
        path = tmp_path / f"{place}.html"
        result.to_html(path)
        page = opened(path, 360)
        assert page.locator("img, iframe").count() == 0
        assert page.locator("script").count() == 2
        assert page.evaluate("() => document.scrollingElement.scrollWidth") <= 360


def test_pages_can_be_printed_and_are_dark_where_that_is_wished(pages, opened):
    page = opened(pages / "audit.html", color_scheme="dark")
    assert page.evaluate("() => getComputedStyle(document.documentElement).backgroundColor") == "rgb(13, 17, 23)"
    page.emulate_media(media="print")
    assert page.evaluate("() => getComputedStyle(document.documentElement).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator(".tools").first.is_hidden()


def test_twelve_runs_are_light_and_quick(tmp_path, pages, opened):
    """At most 6 MB, and the first picture within 2 seconds."""
    runs = elbert.compare({f"run {place}": pages / "run" for place in range(12)}, episodes=4, progress=None)
    path = tmp_path / "runs.html"
    runs.to_html(path)
    assert path.stat().st_size < 6e6
    begun = time.monotonic()
    page = opened(path)
    page.wait_for_selector("#chart-0 svg[role=img]")
    assert time.monotonic() - begun < 2


def test_a_thousand_periods_of_twenty_groups_stay_smooth(tmp_path, opened):
    rng = np.random.default_rng(0)
    days = pl.date_range(pl.date(2020, 1, 1), pl.date(2022, 9, 26), eager=True)
    frame = pl.DataFrame({"day": days}).join(pl.DataFrame({"group": [f"group {k:02}" for k in range(20)]}), how="cross")
    frame = frame.with_columns(due=pl.Series(rng.integers(5, 20, frame.height)))
    frame = frame.with_columns(given=pl.Series(rng.binomial(frame["due"], 0.5)))
    audit = elbert.audit(
        frame, group="group", supply="given", demand="due", time="day", period="day", max_bias=0.1, progress=None
    )
    assert len(audit.periods) == 1000
    path = tmp_path / "audit.html"
    audit.to_html(path)
    page = opened(path)
    page.locator("#chart-1").scroll_into_view_if_needed()
    usual = page.evaluate(
        """async () => {
            const svg = document.querySelector("#chart-1 svg[role=img]");
            const times = [];
            for (let k = 0; k < 20; k++) {
                const { left, top, width } = svg.getBoundingClientRect(), begun = performance.now();
                const place = { clientX: left + (0.1 + 0.04 * k) * width, clientY: top + 100 };
                svg.dispatchEvent(new PointerEvent("pointermove", place));
                await new Promise(requestAnimationFrame);
                times.push(performance.now() - begun);
            }
            return times.sort((a, b) => a - b)[10];
        }"""
    )
    assert usual < 150, "milliseconds from a move of the mouse to the next frame, the median of 20"


@pytest.mark.parametrize("kind", ["comparison", "run"])
def test_the_last_frame_of_a_replay_shows_the_totals(kind, pages, opened):
    page = opened(pages / f"{kind}.html")
    player = page.locator("#replay-0")
    slider = player.locator("input[type=range]")
    slider.focus()
    page.keyboard.press("End")
    frames = int(player.get_attribute("data-frames"))
    assert int(player.get_attribute("data-frame")) == frames - 1
    spec = page.evaluate("() => window.elbertPage.page.replays[0]")
    panels = player.locator("[data-supply]")
    assert panels.count() == len(spec["policies"])
    for place, policy in enumerate(spec["policies"]):
        panel = panels.nth(place)
        for name in ("supply", "demand"):
            assert json.loads(panel.get_attribute(f"data-{name}")) == policy["totals"][name]


def test_a_replay_plays_and_stops_by_mouse_and_keyboard(pages, opened):
    page = opened(pages / "comparison.html")
    player = page.locator("#replay-0")
    assert player.get_attribute("data-frame") == "0"
    player.get_by_role("button", name="Forward").click()
    assert player.get_attribute("data-frame") == "1"
    player.get_by_role("button", name="Back").click()
    assert player.get_attribute("data-frame") == "0"
    play = player.get_by_role("button", name="Play")
    play.focus()
    page.keyboard.press("Space")
    page.wait_for_function("() => Number(document.querySelector('#replay-0').dataset.frame) > 2")
    player.get_by_role("button", name="Pause").click()
    frame = player.get_attribute("data-frame")
    page.wait_for_timeout(600)
    assert player.get_attribute("data-frame") == frame


def test_the_page_over_a_folder_of_runs(pages, browser):
    """As `elbert view` serves it: links lead to runs, and nothing is asked for but pages."""
    from elbert.report.web.view import make_server

    with make_server(pages, port=0) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        page = browser.new_page()
        asked = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"{server.address}?still")
        page.get_by_role("link", name="run", exact=True).click()
        assert "infectious" in page.locator("h1").inner_text()
        assert all(url.startswith((server.address, "data:")) for url in asked)
        page.close()
        server.shutdown()
