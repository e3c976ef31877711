from rag_pipeline.datamodels import GoldSpan, Query
from rag_pipeline.evaluation.slices import slices, slices_of

LONG = Query(
    "q1",
    "What does the lessee owe where the premises are returned later than was agreed upon?",
    (GoldSpan("b.txt", 0, 5), GoldSpan("a.txt", 0, 5), GoldSpan("b.txt", 9, 12)),
    entities={"MONEY": (), "TIME": ()},
    tags=("lease", "numeric"),
)
SHORT = Query("q2", "Who signs?", (GoldSpan("a.txt", 0, 5),), critical_types=("ORGANIZATION",))


def test_a_query_is_in_the_slices_of_its_tags_length_types_and_documents():
    found = {kind: list(names) for kind, names in slices_of(LONG).items()}
    assert found == {
        "tag": ["lease", "numeric"],
        "length": ["11 to 15 words"],
        "answer type": ["MONEY", "TIME"],
        "document": ["b.txt", "a.txt"],
        "gold passages": ["3 to 4"],
    }
    assert list(slices_of(SHORT)["answer type"]) == ["ORGANIZATION"], "critical types come first"


def test_the_worst_slice_of_each_kind_comes_first():
    found = slices([LONG, SHORT], {"q1": 0.0, "q2": 1.0})
    documents = [(s.name, s.summary.mean, s.summary.n) for s in found if s.kind == "document"]
    assert documents == [("b.txt", 0.0, 1), ("a.txt", 0.5, 2)]
    assert list(dict.fromkeys(s.kind for s in found)) == [
        "tag",
        "length",
        "answer type",
        "document",
        "gold passages",
    ]


def test_a_query_without_a_value_is_missing_from_its_slices():
    found = slices([LONG, SHORT], {"q1": None})
    assert {(s.summary.mean, s.summary.n) for s in found} == {(None, 0)}
    assert next(s for s in found if s.name == "a.txt").summary.missing == 2
