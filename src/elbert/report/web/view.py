"""A local page over all runs in a folder. It shows what the runs keep and follows those that are training.

Nothing is trained or evaluated here, and no result is written. There is no login: the server listens on the loopback
address, answers to its own names only, and opens runs by a digest of where they are, never by a path.
"""

import contextlib
import errno
import logging
import os
import re
import socket
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from socketserver import TCPServer
from typing import Any

from elbert.errors import ElbertError, InvalidInputError
from elbert.files import FileError, as_path
from elbert.report.web.view_pages import error_page, list_page, run_page, run_paths

log = logging.getLogger(__name__)

PORT = 8050
IDLE_SECONDS = 30
"""After which a connection that says nothing is closed."""
HEADERS = {
    "Content-Security-Policy": "frame-ancestors 'none'",  # the page's own policy, in its head, cannot say this
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def serve(
    folder: Path,
    *,
    host: str = "127.0.0.1",
    port: int = PORT,
    anyone: bool = False,
    ready: Callable[[str], None] = lambda address: None,
) -> None:
    """Serve the page over the runs in a folder until Ctrl-C.

    Args:
        folder: looked into with all folders below it, at every request.
        host: address to listen on: a loopback address, unless `anyone`.
        port: 0 for any that is free.
        anyone: let everybody who can reach the address read all runs.
        ready: told the page's address once it can be opened.
    """
    with make_server(folder, host=host, port=port, anyone=anyone) as server, contextlib.suppress(KeyboardInterrupt):
        ready(server.address)
        server.serve_forever()


def make_server(folder: Path, *, host: str = "127.0.0.1", port: int = PORT, anyone: bool = False) -> "RunsServer":
    """The server that `serve` runs, listening: its `serve_forever` answers, `shutdown` and `server_close` end it."""
    folder = as_path(folder, "The folder")
    if not folder.is_dir():
        raise FileError(f"There is no folder {folder}. Runs are kept in `runs` unless --out says otherwise.")
    if not (isinstance(port, int) and 0 <= port <= 65535):
        raise InvalidInputError(f"The port is {port!r}. Give a number from 1 to 65535, or 0 for any that is free.")
    if not anyone and not _is_loopback(host):
        raise InvalidInputError(
            f"{host!r} is not a loopback address. The page has no login, so everybody who can reach this address could "
            "read all runs. Leave --host out to keep the page to this machine, or say that this is what you want: "
            "--let-anyone-read."
        )
    try:
        return RunsServer(folder, "127.0.0.1" if host == "localhost" else host, port, anyone=anyone)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise InvalidInputError(
                f"Port {port} is taken, perhaps by another `elbert view`. Give another one (--port {port + 1}), or "
                "--port 0 for any that is free."
            ) from error
        raise InvalidInputError(
            f"Cannot listen on {host} at port {port} ({error.strerror or error}). Give another --port above 1023, or "
            "leave --host out."
        ) from error


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:  # another name, wherever it may lead
        return False


class RunsServer(ThreadingHTTPServer):
    """Answers with pages over the runs in a folder."""

    daemon_threads = True  # a page that is being made does not keep the command from ending
    allow_reuse_address = os.name == "posix"  # elsewhere it would share a port that is taken
    allow_reuse_port = False

    def __init__(self, folder: Path, host: str, port: int, *, anyone: bool) -> None:
        self.folder, self.anyone = folder, anyone
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        """Bind without asking for the machine's full name, which can take seconds."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    @property
    def address(self) -> str:
        """Where the page is."""
        everywhere = self.server_name in ("0.0.0.0", "::")  # noqa: S104 (compared, not bound)
        return f"http://{socket.gethostname() if everywhere else _in_url(self.server_name)}:{self.server_port}/"

    def is_meant(self, hosts: Sequence[str]) -> bool:
        """Whether a request was for this server, by its Host headers.

        A website can have its own name lead to this machine (DNS rebinding) and read what is answered to that name.
        """
        names = {"127.0.0.1", "localhost", "[::1]", _in_url(self.server_name)}
        known = {f"{name}:{self.server_port}" for name in names} | (names if self.server_port == 80 else set())
        return self.anyone or (len(hosts) == 1 and hosts[0].strip().lower() in known)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Go on: what is left here is a connection that broke."""
        log.debug("The request %s of %s failed.", request, client_address, exc_info=True)


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


class _Handler(BaseHTTPRequestHandler):
    timeout = IDLE_SECONDS

    def do_GET(self) -> None:
        try:
            code, page = self._answer()
        except Exception as error:  # in a run's files or a mistake of ours: either way the next request is answered
            log.debug("The page %s failed.", self.path, exc_info=True)
            reason = str(error) if isinstance(error, ElbertError) else f"{type(error).__name__}: {error}"
            code, page = 500, error_page("This page could not be made.", reason)
        self._send(code, page)

    do_HEAD = do_GET  # noqa: N815

    def _answer(self) -> tuple[int, str]:
        server = self.server
        assert isinstance(server, RunsServer)
        if not server.is_meant(self.headers.get_all("Host", [])):
            need = "Through a tunnel, use the same port on both sides."
            return 403, error_page(f"This page answers at {server.address} only.", need)
        where, _, query = self.path.partition("?")
        still, best = query == "still", query == "best"
        if where == "/":
            return 200, list_page(server.folder, still=still)
        match = re.fullmatch(r"/run/([0-9a-f]{16})", where)
        path = run_paths(server.folder).get(match[1]) if match else None
        if path is None:
            return 404, error_page("There is no such page.", "The run may have been moved or removed.")
        return 200, run_page(server.folder, path, still=still, best=best)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002
        """What the standard library refuses: methods without a function here, and what is not HTTP."""
        if code == 501:
            self._send(405, error_page("Only GET and HEAD are answered here."), Allow="GET, HEAD")
        else:
            self._send(code, error_page("This request could not be understood.", message or ""))

    def _send(self, code: int, page: str, **more: str) -> None:
        content = page.encode()
        with contextlib.suppress(ConnectionError, TimeoutError):  # a reader who left
            self.send_response(code)
            lengths = {"Content-Type": "text/html; charset=utf-8", "Content-Length": str(len(content))}
            for name, value in (lengths | HEADERS | more).items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

    def version_string(self) -> str:
        return "elbert"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the standard library's name)
        log.debug(format, *args)
