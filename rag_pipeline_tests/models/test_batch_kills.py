"""A batch job that is killed on its way: nothing is submitted twice, nothing is lost."""

from pathlib import Path

import pytest

from rag_pipeline_tests.testing.batch_kills import Point, run_killed_at


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
