from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from rag_pipeline.calls.grouping import groups


@given(
    sizes=st.lists(st.integers(1, 50)),
    most=st.integers(1, 8),
    most_size=st.one_of(st.none(), st.integers(1, 100)),
)
def test_groups_are_in_order_within_both_limits_and_as_full_as_can_be(sizes, most, most_size):
    made = list(groups(sizes, most, most_size))
    assert [p for group in made for p in group] == list(range(len(sizes)))
    for group in made:
        assert 1 <= len(group) <= most
        assert most_size is None or len(group) == 1 or sum(sizes[p] for p in group) <= most_size
    for one, other in pairwise(made):
        over = most_size is not None and sum(sizes[p] for p in [*one, other[0]]) > most_size
        assert len(one) == most or over
