"""Pages as text: what the browser is allowed to do, what cannot become markup, and that the numbers are all there."""
# pyright: reportOptionalMemberAccess=false, reportArgumentType=false, reportOptionalSubscript=false

import base64
import hashlib
import html
import json
import re
from pathlib import Path

import numpy as np
import pytest

import elbert
from elbert.auditing.results import Audit
from elbert.errors import InvalidInputError
from elbert.exact.frontier import Frontier
from elbert.experiments.sources import open_sources
from elbert.files import FileError
from elbert.report.audit_pages import VERDICTS
from elbert.report.web.document import Document, Picture, Text
from elbert.report.web.pictures import chart
from elbert.report.web.subjects import document_of
from elbert.tables import Column, Table
from tests.command_line import cli

LOANS = Path(__file__).parents[2] / "examples" / "loans.csv"
ASKED = {"time": "date", "group": "group", "decision": "approved", "unit": "officer", "max_bias": 0.05}
HOSTILE = '<script>alert("x")</script>\u202e\x00'


@pytest.fixture(scope="module")
def audit():
    return elbert.audit(LOANS, **ASKED, outcome="repaid", notion="equal-opportunity", control="grade", progress=None)


def scripts(page):
    return re.findall(r"<script>(.*?)</script>", page, re.DOTALL)


def test_the_policy_allows_this_script_and_this_style_alone():
    page = Document("title", "answer").to_html()
    policy = re.search(r'Content-Security-Policy" content="(.*?)"', page)[1]
    assert policy.startswith("default-src 'none'")
    for kind, content in (
        ("script", scripts(page)[0]),
        ("style", re.search(r"<style>(.*?)</style>", page, re.DOTALL)[1]),
    ):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert "unsafe" not in policy
    assert not re.search(r"\s(style|on\w+)=", page.split("</style>")[1].split("<script>")[0])
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in page


def test_nothing_from_data_becomes_markup():
    table = Table((Column(HOSTILE),), ((HOSTILE,),), title=HOSTILE)
    picture = Picture(chart(HOSTILE, HOSTILE, HOSTILE, [{"name": HOSTILE, "x": [np.nan], "y": [1.0]}]), HOSTILE, table)
    page = Document(
        HOSTILE,
        HOSTILE,
        blocks=[Text(HOSTILE), table, picture],
        method=[HOSTILE],
        caution=HOSTILE,
        provenance=[(HOSTILE, HOSTILE)],
        result={HOSTILE: HOSTILE},
    ).to_html()
    assert page.count("<script>") == 1
    assert "alert(" not in "".join(scripts(page))
    assert "\u202e" not in page
    assert "\x00" not in page
    data = json.loads(re.search(r'id="page-data">(.*?)</script>', page, re.DOTALL)[1])
    assert data["charts"][0]["series"][0] == {"name": HOSTILE, "x": [None], "y": [1.0]}


def test_the_result_in_the_page_is_the_whole_result(audit):
    page = audit.to_html()
    inside = re.search(r'<pre id="result" tabindex="0">(.*?)</pre>', page, re.DOTALL)[1]
    assert json.loads(html.unescape(inside)) == audit.to_dict()
    assert "Undetermined" in page
    assert str(audit.files[0]["sha256"]) in page


def test_an_audit_is_read_back_as_it_was(audit):
    """Red if a field of a result is lost or changes its type on the way through a file."""
    content = json.loads(json.dumps(audit.to_dict()))
    again = Audit.from_dict(content)
    assert str(again) == str(audit)
    assert again.to_dict() == content
    plain = elbert.audit(LOANS, **ASKED, progress=None)
    report = Audit.from_dict(json.loads(json.dumps(plain.to_dict()))).report
    assert report == plain.report
    with pytest.raises(InvalidInputError, match="read from a file"):
        report.test(0.1)


def test_a_frontier_is_read_back_as_it_was():
    for criteria in ("equal-opportunity", "demographic-parity"):
        found = elbert.frontier(
            "lending", max_bias=[0.02, None], horizon=50, rules=False, progress=None, notion=criteria
        )
        assert Frontier.from_dict(json.loads(json.dumps(found.to_dict()))) == found


def test_pages_from_what_commands_have_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = [f"--{name.replace('_', '-')}={value}" for name, value in ASKED.items()]
    assert cli("audit", str(LOANS), *words, "--out", "audit").returncode == 1
    assert (tmp_path / "audit" / "audit.html").stat().st_size > 10_000
    done = cli("report", "audit")
    assert done.returncode == 0
    assert "Beyond the limit" in done.stdout
    assert (tmp_path / "page.html").exists()
    edited = tmp_path / "audit" / "audit.json"
    edited.write_text(edited.read_text().replace('"refuted"', '"confirmed"'))
    with pytest.raises(FileError, match="was changed since it was written"):
        open_sources(["audit"])
    assert cli("frontier", "lending", "--max-bias", "0.02", "--horizon", "50", "--out", "best").returncode == 0
    assert isinstance(open_sources(["best"]), Frontier)
    (tmp_path / "loans.toml").write_text(f'log = "{LOANS}"\ngroup = "group"\ndecision = "approved"\nunit = "officer"\n')
    assert document_of(open_sources(["loans.toml"])).kind == "audit"


def test_a_monitor_has_a_page(tmp_path):
    asked = {"time": "date", "period": "month", "group": "group", "decision": "approved", "max_bias": 0.05}
    seen = elbert.monitor(LOANS, state=tmp_path / "state.json", progress=None, **asked)
    page = seen.to_html()
    assert VERDICTS[seen.verdict].format(limit=0.05) in page
    assert '"kind":"dots"' in page


def test_rules_are_compared_and_nothing_is_refused(monkeypatch):
    found = elbert.compare({"a": "lending/thresholds-2-1"}, env="lending", episodes=4, horizon=50, progress=None)
    document = document_of(found)
    assert "a in lending has a bias of" in document.answer
    seen = []
    monkeypatch.setattr("elbert.experiments.sources.compare", lambda policies, **_: seen.append(list(policies)))
    open_sources(["runs/a", "elsewhere/b", "rule:lending/thresholds-0-0"])
    open_sources(["runs/a", "elsewhere/a"])
    assert seen == [["a", "b", "rule:lending/thresholds-0-0"], ["runs/a", "elsewhere/a"]]
    with pytest.raises(InvalidInputError, match="Nothing was named"):
        open_sources([])
    with pytest.raises(InvalidInputError, match="There is no page for a list"):
        document_of([])
