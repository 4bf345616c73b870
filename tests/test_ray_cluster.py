"""The connection to Ray, where no Ray is needed: an interrupt waits until Ray has started or ended."""

import os
import signal
import threading

import pytest

from elbert import ray_cluster


@pytest.fixture(autouse=True)
def heeded():
    """Interrupts are heeded, also where the tests run in the background of a shell that has them ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_what_ignores_interrupts_goes_on_ignoring_them():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with ray_cluster._interrupts_held():
        os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_an_interrupt_takes_effect_after_the_block():
    reached = []

    def interrupted() -> None:
        with ray_cluster._interrupts_held():
            os.kill(os.getpid(), signal.SIGINT)
            reached.append(True)

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert reached == [True]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_error_in_the_block_comes_first():
    def interrupted() -> None:
        with ray_cluster._interrupts_held():
            os.kill(os.getpid(), signal.SIGINT)
            raise ValueError("own")

    with pytest.raises(ValueError, match="own"):
        interrupted()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_other_threads_hold_nothing():
    before, seen = signal.getsignal(signal.SIGINT), []

    def inside() -> None:
        with ray_cluster._interrupts_held():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    assert seen == [before]


def test_a_ray_that_was_interrupted_at_its_start_is_shut_down(monkeypatch):
    calls = []

    class Ray:
        """Only what `connected` asks for."""

        is_initialized = staticmethod(lambda: False)
        shutdown = staticmethod(lambda: calls.append("shutdown"))

        @staticmethod
        def init(**_: object) -> None:
            os.kill(os.getpid(), signal.SIGINT)
            calls.append("started")

    monkeypatch.setattr(ray_cluster, "_imported", lambda: Ray)
    with pytest.raises(KeyboardInterrupt), ray_cluster.connected("local"):
        calls.append("used")
    assert calls == ["started", "shutdown"]
