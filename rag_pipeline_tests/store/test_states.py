from rag_pipeline.store import DocumentState, state_digest


def test_the_digest_of_a_state_changes_with_any_part_of_it():
    states = [
        {"a": DocumentState("h", "f", 1)},
        {"a": DocumentState("h", "f", 2)},
        {"a": DocumentState("h", "g", 1)},
        {"b": DocumentState("h", "f", 1)},
        {},
    ]
    assert len({state_digest(state) for state in states}) == 5
