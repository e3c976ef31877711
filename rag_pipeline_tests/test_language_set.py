"""The documents and questions in German and Chinese that the embeddings are compared on."""

from collections import Counter
from typing import get_args

import pytest

from rag_pipeline.loading.languages import language_of
from rag_pipeline.loading.queries import read_queries, resolve_queries
from rag_pipeline_tests.testing.language_set import Language, facts, write_language_set


@pytest.mark.parametrize("language", get_args(Language))
@pytest.mark.parametrize("asked", ["own", "en"])
def test_every_answer_occurs_once_in_its_document(tmp_path, language, asked):
    asked = language if asked == "own" else asked
    write_language_set(tmp_path, language, asked)
    files = sorted((tmp_path / "documents").iterdir())
    texts = {file.name: file.read_text("utf-8") for file in files}
    queries, problems = resolve_queries(read_queries(tmp_path / "queries.jsonl"), texts.get)
    assert (len(texts), len(queries), problems) == (20, 80, [])
    assert {language_of(text) for text in texts.values()} == {language}
    wrong = [q.query for q in queries if language_of(q.query) != asked]
    assert len(wrong) <= 4, "short questions are mistaken now and then"


def test_questions_share_few_words_with_their_answers():
    for fact in facts():
        words = {w.strip(".,?").casefold() for w in fact.question["de"].split() if len(w) > 4}
        answer = {w.strip(".,?").casefold() for w in fact.sentence["de"].split()}
        assert len(words & answer) <= 2, fact
    assert set(Counter(fact.subject for fact in facts()).values()) == {4}
