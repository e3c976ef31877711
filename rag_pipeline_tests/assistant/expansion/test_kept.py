import re
from dataclasses import replace

import pytest

from rag_pipeline.assistant.expansion import ExpandedDocuments
from rag_pipeline.assistant.expansion.kept import expanded_id
from rag_pipeline.config import Expansion
from rag_pipeline.datamodels import Document
from rag_pipeline.errors import InputError
from rag_pipeline.store import DocumentState
from rag_pipeline_tests.testing.expansion import Clock

DAY = 86_400


def _outside(number, **changes):
    place = f"https://a.example/{number}"
    made = Document(place, f"{number}", f"Text {number}.", f"Title {number}")
    return replace(made, **changes)


def _settings(**changes):
    return Expansion.model_validate({"look_in": {"source": "folder", "path": "."}, **changes})


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def keep(config, clock):
    """Return a function that makes the kept documents of one corpus with some settings."""
    return lambda **changes: ExpandedDocuments(config, _settings(**changes), clock)


def test_a_document_is_kept_with_its_origin(keep):
    documents = keep()
    (kept,) = documents.keep([_outside(1)], "why?", "searxng")
    assert keep().live() == [kept]
    assert kept.origin == {
        "source": "searxng",
        "place": "https://a.example/1",
        "time": "2027-01-15T08:00:00+00:00",
        "query": "why?",
    }
    assert re.fullmatch(r"expanded/[0-9a-f]{16}-a-example-1", kept.document_id)


def test_ids_tell_apart_places_and_contents():
    ids = {
        expanded_id(_outside(1)),
        expanded_id(_outside(1, content_hash="other")),
        expanded_id(_outside(1, document_id="https://a.example/2")),
        expanded_id(_outside(1, document_id="ÄÖ")),
    }
    assert len(ids) == 4
    assert expanded_id(_outside(1, document_id="../../etc/passwd")).endswith("-etc-passwd")
    assert expanded_id(_outside(1, document_id="ÄÖ")).endswith("-document")


def test_what_is_kept_already_stays_as_it_is(keep, clock):
    documents = keep()
    (first,) = documents.keep([_outside(1)], "why?", "folder")
    clock.now += DAY
    assert documents.keep([_outside(1), _outside(1)], "how?", "folder") == [first]
    assert documents.live() == [first]


def test_the_oldest_go_beyond_the_limit(keep, clock):
    documents = keep(max_documents=2)
    for number in range(4):
        clock.now += 60
        assert len(documents.keep([_outside(number)], "why?", "folder")) == 1
    assert [k.place[-1] for k in documents.live()] == ["3", "2"]
    assert len(documents.table.state()) == 2


def test_a_query_keeps_so_many_and_a_document_so_much(keep):
    documents = keep(documents_per_query=2, max_characters=100)
    kept = documents.keep([_outside(n, text="x" * 500) for n in range(5)], "why?", "folder")
    assert [k.characters for k in kept] == [100, 100]


def test_what_is_past_its_time_is_gone(keep, clock):
    documents = keep(days_to_live=2)
    documents.keep([_outside(1)], "why?", "folder")
    clock.now += DAY
    documents.keep([_outside(2)], "why?", "folder")
    clock.now += DAY
    assert [k.place[-1] for k in documents.live()] == ["2"]
    assert [k.place[-1] for k in documents.expired()] == ["1"]
    assert [k.place[-1] for k in documents.prune()] == ["1"]
    assert len(documents.table.state()) == 1


def test_what_the_corpus_has_itself_is_not_kept_besides(keep):
    documents = keep()
    kept = documents.keep([_outside(1), _outside(2), _outside(3)], "why?", "folder")
    taken = [kept[0].document_id]
    assert documents.keep([_outside(1), _outside(9)], "?", "folder", taken)[0].place[-1] == "9"
    own = {
        kept[0].document_id: DocumentState("another content", "", 1),
        "own.txt": DocumentState("2", "", 1),
    }
    documents.prune(own)
    assert sorted(k.place[-1] for k in documents.live()) == ["3", "9"]


def test_one_can_be_removed_and_all_can(keep):
    documents = keep()
    kept = documents.keep([_outside(1), _outside(2)], "why?", "folder")
    documents.remove(kept[0].document_id)
    assert documents.live() == [kept[1]]
    with pytest.raises(InputError, match="no expanded document"):
        documents.remove(kept[0].document_id)
    assert documents.clear() == 1
    assert documents.live() == [] and documents.clear() == 0
    assert len(documents.keep([_outside(1)], "why?", "folder")) == 1


def test_looking_makes_nothing(keep, workspace):
    documents = keep()
    assert documents.live() == documents.expired() == documents.prune() == []
    assert "expansion" not in workspace.store.list("")
