import pytest

from rag_pipeline.answering.verdict import verdict


@pytest.mark.parametrize(
    "question, sentence, said",
    [
        (
            "May the tenant assign part of the premises?",
            "6.1 The Tenant may not assign part of the Premises.",
            "No",
        ),
        ("Can the tenant sublet the floor?", "The Tenant may sublet the floor.", "Yes"),
        ("Must the tenant pay the rent?", "The Tenant shall pay the rent monthly.", "Yes"),
        ("May the licensee copy the runtime?", "The Licensee must copy the runtime.", "Yes"),
        # What is allowed need not be required.
        ("Must the tenant sublet the floor?", "The Tenant may sublet the floor.", None),
        # It depends.
        (
            "May the tenant sublet the floor?",
            "The Tenant may sublet the floor with the landlord's consent.",
            None,
        ),
        ("May the tenant sublet the floor?", "The Tenant may sublet the floor unless let.", None),
        # It says something else, or both.
        ("May the tenant sublet the floor?", "The Tenant may paint the floor.", None),
        (
            "May the tenant sublet the floor?",
            "The Tenant may sublet the floor and the sub-tenant may not sublet it.",
            None,
        ),
        ("May a party disclose the report?", "Neither party may disclose the report.", None),
        # No question of what one may do.
        ("How long may the tenant sublet the floor?", "The Tenant may sublet the floor.", None),
    ],
)
def test_only_what_is_certain_is_said(question, sentence, said):
    assert verdict(question, sentence) == said
