"""A batch job that is killed on its way: nothing is submitted twice, nothing is lost."""

from pathlib import Path

import pytest

from rag_pipeline_tests.testing.batch_kills import Point, points, run_killed_at


@pytest.mark.parametrize(
    "point",
    [
        Point("upload"),
        Point("submit"),
        Point("wait", 3),
        Point("download"),
        Point("store", 1),
        Point("store", 20),
    ],
    ids=str,
)
def test_a_killed_batch_job_is_taken_up_where_it_was(tmp_path: Path, point: Point) -> None:
    assert run_killed_at(tmp_path, 40, point) == (1, 40)


def test_the_places_are_twenty_from_the_upload_to_the_last_answer() -> None:
    places = points(2000)
    assert len(set(places)) == 20
    assert {place.kind for place in places} == {"upload", "submit", "wait", "download", "store"}
    assert places[-1] == Point("store", 2000)
