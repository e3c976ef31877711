"""The executor that the environment names."""

import sys

import pytest

from rag_pipeline.errors import ConfigError, MissingExtraError
from rag_pipeline.orchestration.executors import celery_settings, chosen_executor


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    for name in ("EXECUTOR", "MAX_CONCURRENT", "CELERY_BROKER", "CELERY_BACKEND"):
        monkeypatch.delenv(f"RAG_{name}", raising=False)


@pytest.mark.parametrize("name", ["in_process", "multiprocess", "celery", "k8s", "ecs"])
def test_every_executor_can_be_named(monkeypatch, name):
    monkeypatch.setenv("RAG_EXECUTOR", name)
    monkeypatch.setenv("RAG_CELERY_BROKER", "redis://localhost:6379/0")
    monkeypatch.setenv("RAG_MAX_CONCURRENT", "3")
    assert chosen_executor().name in (name, "k8s_job_executor", "multi_or_in_process_executor")


def test_in_process_is_the_default(monkeypatch):
    assert chosen_executor().name == "in_process"


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"RAG_EXECUTOR": "dask"}, r"RAG_EXECUTOR: 'dask' is not one of: in_process, multiproc"),
        ({"RAG_EXECUTOR": "celery"}, "RAG_CELERY_BROKER is not set"),
        (
            {"RAG_EXECUTOR": "multiprocess", "RAG_MAX_CONCURRENT": "two"},
            "RAG_MAX_CONCURRENT: 'two' is not a whole number",
        ),
    ],
)
def test_a_wrong_variable_is_named(monkeypatch, variables, message):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=message):
        chosen_executor()


@pytest.mark.parametrize(("name", "package"), [("celery", "celery"), ("k8s", "k8s")])
def test_a_missing_package_names_its_extra(monkeypatch, name, package):
    monkeypatch.setenv("RAG_EXECUTOR", name)
    monkeypatch.setitem(sys.modules, f"dagster_{package}", None)
    with pytest.raises(MissingExtraError, match=rf"\[{name}\]"):
        chosen_executor()


def test_results_are_kept_at_the_broker_unless_another_place_is_named(monkeypatch):
    monkeypatch.setenv("RAG_CELERY_BROKER", "redis://a/0")
    assert celery_settings()["backend"] == "redis://a/0"
    monkeypatch.setenv("RAG_CELERY_BACKEND", "redis://b/0")
    assert celery_settings()["backend"] == "redis://b/0"
