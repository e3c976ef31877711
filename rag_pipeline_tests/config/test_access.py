import pytest

from rag_pipeline.config import Access, parse_config
from rag_pipeline.config.access import read_caller, read_labels
from rag_pipeline.datamodels import ANYBODY, OPERATOR, Caller
from rag_pipeline.errors import ConfigError
from rag_pipeline_tests.testing.corpora import attributes

ACCESS = Access(
    default=["staff"],
    metadata="access",
    rules=[
        {"match": "hr/**", "labels": ["hr", "board"]},
        {"match": ["./press/", "/news/**"], "labels": "public"},
        {"match": "**/*.draft", "labels": []},
    ],
)


@pytest.mark.parametrize(
    ("document", "metadata", "labels"),
    [
        # A rule decides before metadata, and the first rule before the others.
        ("hr/a.txt", {"folder": "hr"}, {"hr", "board"}),
        ("hr/deep/a.txt", {"folder": "hr/deep", "access": "public"}, {"hr", "board"}),
        ("hr/a.draft", {"folder": "hr"}, {"hr", "board"}),
        ("news/a.txt", {"folder": "news"}, {"public"}),
        ("a.draft", {"folder": "", "access": "hr"}, set()),
        ("HR/a.txt", {"folder": "HR"}, {"staff"}),
        # Metadata decides before the default.
        ("a.txt", {"folder": "", "access": "legal, board"}, {"legal", "board"}),
        ("a.txt", {"folder": "", "access": '["legal"]'}, {"legal"}),
        ("a.txt", {"folder": "", "access": "public"}, {"public"}),
        ("a.txt", {"folder": "", "access": ""}, {"staff"}),
        ("a.txt", {"folder": ""}, {"staff"}),
        # Unreadable values close the document.
        ("a.txt", {"folder": "", "access": '["legal"'}, set()),
        ("a.txt", {"folder": "", "access": "[1]"}, set()),
        ("a.txt", {"folder": "", "access": 7}, set()),
        ("a.txt", {"folder": "", "access": True}, set()),
        # The file of a record decides, not the id that the record gives itself.
        ("hr/people.jsonl:3", {"folder": "hr"}, {"hr", "board"}),
        ("person 3", {"folder": "hr"}, {"hr", "board"}),
        ("news/person 3", {"folder": "hr"}, {"hr", "board"}),
        ("news/person 3", {"folder": ""}, {"staff"}),
    ],
)
def test_the_first_that_says_something_decides(document, metadata, labels):
    assert ACCESS.of(document, metadata) == labels


def test_without_a_metadata_name_documents_cannot_label_themselves():
    access = Access(default=[])
    assert access.of("a.txt", {"access": "public"}) == set()
    assert Access(default="public").of("a.txt", {"access": "hr"}) == {"public"}


@pytest.mark.parametrize(
    ("caller", "access", "sees"),
    [
        (ANYBODY, {"public"}, True),
        (ANYBODY, {"hr"}, False),
        (ANYBODY, set(), False),
        (Caller(frozenset({"hr"})), {"hr", "board"}, True),
        (Caller(frozenset({"legal"})), {"hr", "board"}, False),
        (Caller(frozenset({"hr"})), {"public", "legal"}, True),
        (Caller(frozenset({"hr"})), set(), False),
        (OPERATOR, set(), True),
    ],
)
def test_one_common_label_is_enough(caller, access, sees):
    assert caller.sees(frozenset(access)) is sees


def test_labels_are_lists_or_text():
    assert (
        read_labels(["a", " b "]) == read_labels("a, b,") == read_labels('["a", "b"]') == {"a", "b"}
    )
    assert read_labels(None) == read_labels({"a": 1}) == read_labels(["a", 1]) == frozenset()
    assert read_caller(None) == read_caller("*") == OPERATOR
    assert read_caller("") == ANYBODY
    assert read_caller("hr,legal") == Caller(frozenset({"hr", "legal"}))


@pytest.mark.parametrize(
    ("access", "message"),
    [
        ({}, "access.default: missing"),
        ({"default": "staff"}, "access.default"),
        ({"default": ["a,b"]}, "access.default"),
        ({"default": ["*"]}, "access.default"),
        ({"default": "public", "rules": [{"match": "hr/**"}]}, "access.rules.0.labels: missing"),
        ({"default": "public", "labels": []}, "access.labels: unknown setting"),
    ],
)
def test_unclear_access_is_refused(access, message):
    with pytest.raises(ConfigError, match=message):
        parse_config(attributes(access=access))
