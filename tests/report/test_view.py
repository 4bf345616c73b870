"""The page over a folder's runs: what it shows, whom it answers, and that no run and no request takes it down."""

import http.client
import json
import re
import shutil
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

import elbert
from elbert.errors import InvalidInputError
from elbert.experiments.run_folder import RunFolder, find_runs, only_writer
from elbert.files import FileError, write_sealed
from elbert.report.web import view, view_pages
from tests.experiments.small_runs import TINY, WORLD

pytestmark = pytest.mark.slow  # the runs that are shown have to be trained

HOSTILE = '<script>alert("1")&\'\u202e'
ESCAPED = "&lt;script&gt;alert(&quot;1&quot;)&amp;&#x27;\\u202e"
REFRESH = '<meta http-equiv="refresh" content="5">'


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run of two seeds with an evaluation."""
    path = tmp_path_factory.mktemp("trained") / "finished"
    elbert.train_many("lending", seeds=2, world=WORLD, out=path, **TINY)
    run = RunFolder(path)
    run.keep_evaluation(replace(elbert.evaluate(path, episodes=8, max_bias=0.9), agents=run.digest()))
    return path


@pytest.fixture
def runs(finished, tmp_path):
    """A finished run, one that is training, a killed one, a damaged one, and one whose name is markup."""
    folder = tmp_path / "runs"
    for name in ("finished", "below/training", "killed", "damaged", HOSTILE):
        shutil.copytree(finished, folder / name)
    for name in ("below/training", "killed"):
        RunFolder(folder / name).note(status="running", iteration=6)
        (folder / name / "evaluation.json").unlink()
        metrics = folder / name / "metrics.csv"
        rows = metrics.read_text().splitlines(keepends=True)
        metrics.write_text("".join(rows[:13]) + rows[13][:9])
    manifest = folder / "damaged" / "manifest.json"
    manifest.write_text(manifest.read_text().replace("finished", "running"))
    with only_writer(folder / "below/training"):
        yield folder


@contextmanager
def served(folder, **options):
    server = view.make_server(folder, port=0, **options)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def ask(server, path="/", method="GET", hosts=None):
    """A request as it stands: nothing in the path is tidied up."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    try:
        connection.putrequest(method, path, skip_host=True)
        for host in [f"127.0.0.1:{server.server_port}"] if hosts is None else hosts:
            connection.putheader("Host", host)
        connection.endheaders()
        response = connection.getresponse()
        return SimpleNamespace(code=response.status, headers=response.headers, text=response.read().decode())
    finally:
        connection.close()


def address_of(folder, name):
    return next(f"/run/{identity}" for identity, path in view_pages.run_paths(folder).items() if path == folder / name)


def row_of(page, name):
    """The row of the list that links to a run."""
    rows = re.findall(r"<tr><td><a .*?</tr>", page)
    return next(row for row in rows if f">{name}</a>" in row)


def test_the_list_has_every_run_with_its_status_and_a_link(runs):
    with served(runs) as server:
        page = ask(server).text
        assert "5 runs: 2 finished, 1 damaged, 1 killed, 1 running." in page
        statuses = {"finished": "finished", "below/training": "running", "killed": "killed", "damaged": "damaged"}
        for name, status in statuses.items():
            row = row_of(page, name)
            assert f">{status}</span>" in row
            address = re.findall(r'href="(/run/[0-9a-f]{16})"', row)
            assert address == [address_of(runs, name)]
            assert ask(server, address[0]).code == 200
        assert page.index(">below/training</a>") < page.index(">finished</a>"), "what is training comes first"
        assert "6 of 12" in row_of(page, "below/training")
        assert '<progress max="12" value="6"' in row_of(page, "below/training")
        assert "<progress" not in row_of(page, "killed")
        assert "lending" in row_of(page, "finished")
        assert "elbert-po" in row_of(page, "finished")
        assert "0.9 <span" in row_of(page, "finished"), "the limit that was tested"
        assert " *" in row_of(page, "killed")
        assert " *" not in row_of(page, "finished"), "its numbers are of an evaluation"
        assert "Reward against bias in lending" in page
        assert re.search(r'<meta http-equiv="refresh" content="\d+">', page)
        assert 'http-equiv="refresh"' not in ask(server, "/?still").text


def test_the_page_of_an_evaluated_run_is_its_comparison(runs):
    kept = RunFolder(runs / "finished").evaluation()
    assert kept is not None
    with served(runs) as server:
        page = ask(server, address_of(runs, "finished")).text
    assert f"finished in lending has a bias of {kept.worst.bias.estimate:.4f}" in page
    assert "Rates of groups" in page
    assert "Reward per step in training" in page
    assert "&quot;reward&quot;" in page, "the result as JSON"
    assert 'http-equiv="refresh"' not in page
    assert "?still" not in page
    assert f'href="{address_of(runs, "finished")}?best"' in page


def test_the_best_possible_is_computed_only_if_asked_for(runs, monkeypatch):
    asked = []
    monkeypatch.setattr(view_pages, "best_possible", lambda result, world: asked.append(world))
    with served(runs) as server:
        address = address_of(runs, "finished")
        assert "not known in this world" not in ask(server, address).text
        assert not asked
        assert "The best possible is not known in this world" in ask(server, f"{address}?best").text
    assert asked == [{}]


def test_the_page_of_a_training_follows_it(runs):
    with served(runs) as server:
        address = address_of(runs, "below/training")
        page, still = ask(server, address).text, ask(server, f"{address}?still").text
        assert "elbert-po in lending is training: 6 of 12 iterations are done." in page
        assert REFRESH in page
        assert f'href="{address}?still"' in page
        assert REFRESH not in still
        assert f'href="{address}"' in still
        charts = json.loads(re.findall(r'id="page-data">(.*?)</script>', page)[0])["charts"]
        assert [len(chart["series"]) for chart in charts] == [2, 2, 2, 2], "two seeds, then two groups"
        assert {len(line["x"]) for chart in charts for line in chart["series"]} == {6}, "a torn row is left out"
        RunFolder(runs / "below/training").note(iteration=9)
        assert "9 of 12 iterations are done" in ask(server, address).text
        killed = ask(server, address_of(runs, "killed")).text
        assert "was killed after 6 of 12 iterations" in killed
        assert "--resume" in killed
        assert 'http-equiv="refresh"' not in killed


def test_a_training_without_metrics_and_a_run_without_evaluation_have_pages(runs):
    (runs / "below/training/metrics.csv").unlink()
    (runs / "finished/evaluation.json").unlink()
    (runs / HOSTILE / "metrics.csv").write_text("torn")
    with served(runs) as server:
        assert "There are no metrics yet" in ask(server, address_of(runs, "below/training")).text
        page = ask(server, address_of(runs, "finished")).text
        assert "is trained and not evaluated" in page
        assert f"elbert evaluate {runs / 'finished'}" in page
        page = ask(server, address_of(runs, HOSTILE)).text
        assert "there are no learning curves" in page
        assert "has a bias of" in page


def test_a_run_of_several_coefficients_is_one_page(runs):
    config = RunFolder(runs / "killed").config
    write_sealed(runs / "killed/config.json", config | {"coefficients": [{"alpha": 10.0}, {"alpha": 20.0}]})
    with served(runs) as server:
        rows = re.findall(r"<tr><td><a .*?</tr>", ask(server).text)
        swept = [row for row in rows if ">killed</a>" in row]
        assert [re.findall(r"alpha=\d+", row) for row in swept] == [["alpha=10"], ["alpha=20"]]
        page = ask(server, address_of(runs, "killed")).text
        assert "last rollout alpha=10" in page
        assert "alpha=20" in page


def test_a_damaged_run_says_why_and_hides_no_other(runs):
    write_sealed(runs / "killed/manifest.json", {"status": ["no", "text"], "host": "elsewhere"})
    write_sealed(runs / HOSTILE / "config.json", {"format": 2, "coefficients": [7]})
    with served(runs) as server:
        page = ask(server).text
        assert "5 runs: 3 damaged, 1 finished, 1 running." in page
        assert "was changed since it was written" in ask(server, address_of(runs, "damaged")).text
        assert "make no sense" in ask(server, address_of(runs, "killed")).text
        assert "This run is damaged." in ask(server, address_of(runs, HOSTILE)).text


def test_names_never_become_markup(runs):
    config = RunFolder(runs / "finished").config
    write_sealed(runs / "finished/config.json", config | {"env": '"><b onclick=x>'})
    with served(runs) as server:
        page = ask(server).text
        assert ESCAPED in page
        pages = [page, *(ask(server, address_of(runs, name)).text for name in (HOSTILE, "finished"))]
    for page in pages:
        assert "<script>alert" not in page
        assert "<b onclick" not in page
        assert "\u202e" not in page
    assert len(re.findall("<script", pages[0])) == 2, "the page's data and its own script"


@pytest.mark.parametrize(
    "path",
    [
        "/run/../../etc/passwd",
        "/run/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "/run/..%5c..%5cetc",
        "/../runs/finished/config.json",
        "//etc/passwd",
        "/finished/config.json",
        "/run/finished",
        "/run/",
        "/run/0123456789abcdef",
        "/run/0123456789ABCDEF",
        "/run/0123456789abcdef%00",
        "http://127.0.0.1/",
        "*",
    ],
)
def test_only_runs_that_are_found_can_be_opened(runs, path):
    with served(runs) as server:
        answer = ask(server, path)
        assert answer.code == 404
        assert "There is no such page." in answer.text
        assert "root:" not in answer.text
        below = f"{address_of(runs, 'finished')}/../../../{path}"
        assert ask(server, below).code == 404


def test_the_runs_are_those_that_elbert_runs_lists(runs):
    (runs / "begun").mkdir()
    (runs / "begun/config.json").write_text("{}")
    (runs.parent / "outside").mkdir()
    shutil.copytree(runs / "finished", runs.parent / "outside/secret")
    (runs / "link").symlink_to(runs.parent / "outside")
    assert set(view_pages.run_paths(runs).values()) == {run.path for run in find_runs(runs)}
    assert len(view_pages.run_paths(runs)) == 5


def test_only_its_own_names_are_answered(runs):
    with served(runs) as server:
        port = server.server_port
        for host in (f"127.0.0.1:{port}", f"localhost:{port}", f"LOCALHOST:{port}", f"[::1]:{port}"):
            assert ask(server, hosts=[host]).code == 200
        own = f"127.0.0.1:{port}"
        others = (["evil.example"], [f"evil.example:{port}"], [f"127.0.0.1:{port + 1}"], ["127.0.0.1"], [], [own, own])
        for hosts in others:
            answer = ask(server, hosts=hosts)
            assert answer.code == 403
            assert "finished" not in answer.text
            assert server.address in answer.text
    with served(runs, anyone=True) as server:
        assert ask(server, hosts=["any.example"]).code == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "", "::", "192.0.2.1", "example.org", "127.0.0.1.example.org"])  # noqa: S104
def test_other_addresses_need_a_flag(runs, host):
    with pytest.raises(InvalidInputError, match=r"no login.*could read all runs.*--let-anyone-read"):
        view.make_server(runs, host=host, port=0)


def test_loopback_addresses_need_none(runs):
    for host in ("127.0.0.1", "localhost"):
        with view.make_server(runs, host=host, port=0) as server:
            assert server.server_name == "127.0.0.1"
            assert server.server_port > 0
            assert server.address == f"http://{server.server_name}:{server.server_port}/"


def test_every_answer_has_the_headers_and_a_policy(runs):
    with served(runs) as server:
        answers = [ask(server), ask(server, "/nowhere"), ask(server, hosts=["evil.example"]), ask(server, "/", "POST")]
    assert [answer.code for answer in answers] == [200, 404, 403, 405]
    for answer in answers:
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in answer.text
        assert "Python/" not in answer.headers["Server"]


def test_reading_is_all_that_can_be_asked_for(runs):
    with served(runs) as server:
        whole, head = ask(server), ask(server, method="HEAD")
        assert (head.code, head.text) == (200, "")
        assert abs(int(head.headers["Content-Length"]) - len(whole.text.encode())) < 20, "up to the ages of runs"
        assert ask(server, "/nowhere", "HEAD").code == 404
        with socket.create_connection(("127.0.0.1", server.server_port), timeout=10) as connection:
            connection.sendall(f"HEAD / HTTP/1.0\r\nHost: 127.0.0.1:{server.server_port}\r\n\r\n".encode())
            assert b"".join(iter(lambda: connection.recv(65536), b"")).endswith(b"\r\n\r\n"), "no body"
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"):
            answer = ask(server, method=method)
            assert (answer.code, answer.headers["Allow"]) == (405, "GET, HEAD")


def test_looking_changes_no_file(runs):
    def files():
        paths = (path for path in runs.rglob("*") if path.is_file() and path.name != ".lock")
        return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in paths}

    before = files()
    with served(runs) as server:
        for path in ("/", *(f"/run/{identity}" for identity in view_pages.run_paths(runs))):
            assert ask(server, path).code == 200
    assert files() == before


def test_an_error_is_a_page_and_not_the_end(runs, monkeypatch, capfd):
    def fail(folder, still):
        raise RuntimeError("<b>broken</b>")

    with served(runs) as server:
        with monkeypatch.context() as patch:
            patch.setattr(view, "list_page", fail)
            answer = ask(server)
        assert answer.code == 500
        assert "RuntimeError: &lt;b&gt;broken&lt;/b&gt;" in answer.text
        assert "Traceback" not in answer.text
        for nonsense in (b"\x16\x03\x01\x02\x00\x01\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b""):
            with socket.create_connection(("127.0.0.1", server.server_port), timeout=10) as connection:
                connection.sendall(nonsense)
        shutil.rmtree(runs / "killed")
        assert "4 runs" in ask(server).text
        assert ask(server).code == 200
    assert capfd.readouterr() == ("", "")


def test_readers_at_once_do_not_take_each_other_for_a_training(runs):
    with ThreadPoolExecutor(8) as pool:
        seen = list(pool.map(lambda _: view_pages.look_at(runs / "killed")[0].summary.status, range(100)))
    assert set(seen) == {"killed"}


def test_many_runs_are_read_less_often(runs, monkeypatch):
    times = iter((0.0, 2.0))
    monkeypatch.setattr(view_pages, "time", SimpleNamespace(monotonic=lambda: next(times), time=lambda: 0.0))
    assert '<meta http-equiv="refresh" content="10">' in view_pages.list_page(runs)


def test_what_cannot_be_served_is_said(runs):
    with served(runs) as server, pytest.raises(InvalidInputError, match=r"is taken.*--port"):
        view.make_server(runs, port=server.server_port)
    with pytest.raises(InvalidInputError, match="from 1 to 65535"):
        view.make_server(runs, port=70_000)
    with pytest.raises(InvalidInputError, match=r"Cannot listen on 192\.0\.2\.1"):
        view.make_server(runs, host="192.0.2.1", port=0, anyone=True)
    with pytest.raises(FileError, match="There is no folder"):
        view.make_server(Path("nowhere"))


def test_it_says_where_it_is_and_ends_with_ctrl_c(tmp_path, monkeypatch):
    told = []

    def interrupted(server):
        assert told == [server.address]
        raise KeyboardInterrupt

    monkeypatch.setattr(view.RunsServer, "serve_forever", interrupted)
    view.serve(tmp_path, port=0, ready=told.append)
    port = int(told[0].rstrip("/").rpartition(":")[2])
    with view.make_server(tmp_path, port=port) as again:
        assert again.address == told[0], "the port is free again"
    assert "No runs here yet." in view_pages.list_page(tmp_path)
