"""Threads for blocking jobs: each in order, results on the loop, errors as results."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from rmq_net import worker_threads as module
from rmq_net.service import Job
from rmq_net.worker_threads import WorkerThreads
from rmq_store.disk.segments import NO_DESCRIPTOR
from tests.support.talk import PATIENCE_S


def test_jobs_of_a_lane_run_in_order_and_end_on_the_loop() -> None:
    ready = threading.Semaphore(0)
    workers = WorkerThreads(lambda: ready.release())
    log: list[object] = []
    here = threading.current_thread()

    def done(result: object, error: BaseException | None) -> None:
        assert threading.current_thread() is here
        log.append(result if error is None else str(error))

    def fail() -> None:
        raise OSError("no")

    for job in (Job("sync", lambda: 1, done), Job("sync", fail, done), Job("sync", lambda: 3, done)):
        workers.start(job)
    for _ in range(3):
        assert ready.acquire(timeout=PATIENCE_S)
    assert not log
    assert workers.running == 3
    assert workers.finish()
    assert log == [1, "no", 3]
    assert workers.running == 0
    assert not workers.finish()
    workers.stop()


def test_a_stuck_lane_does_not_hold_up_the_other() -> None:
    ready = threading.Semaphore(0)
    workers = WorkerThreads(lambda: ready.release())
    gate = threading.Event()
    results: list[object] = []
    workers.start(Job("sync", lambda: gate.wait(PATIENCE_S), lambda result, error: results.append("sync")))
    workers.start(Job("read", lambda: None, lambda result, error: results.append("read")))
    assert ready.acquire(timeout=PATIENCE_S)
    workers.finish()
    assert results == ["read"]
    gate.set()
    workers.stop()
    workers.finish()
    assert results == ["read", "sync"]


def test_who_ends_after_the_stop_wakes_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """The descriptor that a thread would write to is closed by then, or is somebody else's."""
    monkeypatch.setattr(module, "JOIN_S_MAX", 0)
    woken: list[str] = []
    workers = WorkerThreads(lambda: woken.append("too late"))
    gate, ran = threading.Event(), threading.Event()
    workers.start(Job("sync", lambda: (ran.set(), gate.wait(PATIENCE_S)), lambda result, error: None))
    assert ran.wait(PATIENCE_S)
    [stuck] = workers._threads
    assert stuck.daemon, "or the process would not end"
    workers.stop()
    gate.set()
    stuck.join(PATIENCE_S)
    assert not stuck.is_alive()
    assert woken == []


def test_a_stop_leaves_nothing_of_the_threads_that_ended() -> None:
    """What is started afterwards has a thread again, and a second stop ends that one only."""
    workers = WorkerThreads(lambda: None)
    results: list[object] = []
    for number in range(2):
        workers.start(Job("sync", partial(int, number), lambda result, error: results.append(result)))
        assert len(workers._threads) == 1
        workers.stop()
        workers.finish()
        assert results == [*range(number + 1)]


def test_where_no_thread_can_be_started_a_job_fails_and_the_next_one_may_run(monkeypatch: pytest.MonkeyPatch) -> None:
    ready = threading.Semaphore(0)
    workers = WorkerThreads(lambda: ready.release())
    log: list[object] = []

    def no_thread(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    def done(result: object, error: BaseException | None) -> None:
        log.append(result if error is None else error)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        workers.start(Job("sync", lambda: 1, done))
    assert ready.acquire(timeout=PATIENCE_S)
    assert not log, "its end is heard on the loop"
    assert workers.finish()
    [error] = log
    assert isinstance(error, OSError)
    assert error.errno in NO_DESCRIPTOR, "a sync is tried again"
    workers.start(Job("sync", lambda: 2, done))
    assert ready.acquire(timeout=PATIENCE_S)
    assert workers.finish()
    assert log[1:] == [2]
    assert workers.running == 0
    workers.stop()
