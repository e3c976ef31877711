"""Python names of earlier versions: modules that moved are the modules of today."""

import importlib

import pytest

from rag_pipeline import _earlier_names


@pytest.mark.parametrize(("earlier", "today"), sorted(_earlier_names.MOVED.items()))
def test_a_moved_module_is_the_one_of_today(earlier: str, today: str) -> None:
    found = importlib.import_module(f"rag_pipeline.{earlier}")
    assert found is importlib.import_module(f"rag_pipeline.{today}")


def test_names_inside_of_moved_packages_are_found() -> None:
    from rag_pipeline.generation.extractive import (  # type: ignore[import-not-found]
        extract_answers as earlier,
    )
    from rag_pipeline.integrations.langchain import (  # type: ignore[import-not-found]
        __name__ as name,
    )

    from rag_pipeline.answering.extractive import extract_answers

    assert earlier is extract_answers
    assert name == "rag_pipeline.serving.langchain"


def test_what_never_was_is_not_found() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"rag_pipeline\.retrieval\.nothing"):
        importlib.import_module("rag_pipeline.retrieval.nothing")
