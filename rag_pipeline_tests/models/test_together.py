"""Texts of callers that wait at the same time are worked on in one call, and remembered."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from rag_pipeline.models.together import Together


def test_callers_that_wait_share_one_call(monkeypatch):
    calls, begun, goes_on, registered = [], threading.Event(), threading.Event(), []
    all_wait = threading.Event()

    def upper(texts):
        calls.append(list(texts))
        if texts == ["a"]:
            begun.set()
            assert goes_on.wait(60)
        return [text.upper() for text in texts]

    together = Together(upper, most=10)

    class Counting:
        """The lock under which a call works; it counts who asks for it."""

        def __init__(self, lock):
            self.lock = lock

        def __enter__(self):
            registered.append(1)
            if len(registered) == 4:
                all_wait.set()
            self.lock.acquire()

        def __exit__(self, *error):
            self.lock.release()

    monkeypatch.setattr(together, "_working", Counting(together._working))
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(together, ["a"])
        assert begun.wait(60)
        others = [pool.submit(together, texts) for texts in (["b", "a"], ["c"], ["b"])]
        assert all_wait.wait(60)
        goes_on.set()
        assert first.result() == ["A"]
        assert [one.result() for one in others] == [["B", "A"], ["C"], ["B"]]
    assert calls[0] == ["a"]
    assert [sorted(call) for call in calls[1:]] == [["b", "c"]]
    assert together(["c", "a"]) == ["C", "A"]
    assert len(calls) == 2


def test_an_error_reaches_its_callers_and_is_not_remembered():
    fails = [True]

    def work(texts):
        if fails.pop():
            raise ValueError("the model failed")
        return [len(text) for text in texts]

    together = Together(work, most=10)
    with pytest.raises(ValueError, match="the model failed"):
        together(["abc"])
    fails.append(False)
    assert together(["abc", "d"]) == [3, 1]


def test_the_oldest_results_are_forgotten():
    calls = []

    def same(texts):
        calls.append(list(texts))
        return texts

    together = Together(same, most=2)
    for text in "abcca":
        assert together([text]) == [text]
    assert calls == [["a"], ["b"], ["c"], ["a"]]
