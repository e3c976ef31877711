import xml.etree.ElementTree as ElementTree

import pytest

from rag_pipeline.evaluation.intervals import Summary
from rag_pipeline.report.charts import (
    Point,
    interval_strip,
    line_chart,
    pareto_front,
    scatter,
    standalone,
)

SVG = "{http://www.w3.org/2000/svg}"


def summary(mean, low=None, high=None):
    return Summary(mean, 10, 0, low, high)


def points(svg, tag="polyline"):
    """Return the coordinates of the first line of a chart."""
    line = ElementTree.fromstring(standalone(svg)).find(f"{SVG}{tag}")
    return [tuple(map(float, pair.split(","))) for pair in line.get("points").split()]


def test_a_line_goes_through_its_means():
    """0 % lies at 260, 100 % at 12; three cutoffs are spaced evenly."""
    curve = {1: summary(0.0), 2: summary(0.5), 20: summary(1.0)}
    (x1, y1), (x2, y2), (x3, y3) = points(line_chart("Presence", {"a": curve}, "k"))
    assert (y1, y2, y3) == (260, 136, 12)
    assert x2 - x1 == pytest.approx(x3 - x2)


def test_a_band_holds_both_ends_of_the_interval():
    curve = {1: summary(0.5, 0.25, 0.75), 2: summary(0.5, 0.0, 1.0)}
    ys = [y for _, y in points(line_chart("Presence", {"a": curve}, "k"), "polygon")]
    assert ys == [74, 12, 260, 198]


def test_unmeasured_values_are_not_drawn():
    curve = {1: summary(None), 2: summary(0.5)}
    chart = line_chart("Presence", {"a": curve}, "k")
    assert len(points(chart)) == 1
    assert "polygon" not in chart
    assert interval_strip(summary(None)) == ""


def test_the_front_has_the_pareto_optimal_points():
    some = [
        Point("dear", "1", 9.0, summary(0.9)),
        Point("worse and dearer", "2", 5.0, summary(0.5)),
        Point("cheap", "3", 1.0, summary(0.4)),
        Point("same price, better", "4", 1.0, summary(0.6)),
    ]
    assert [p.name for p in pareto_front(some)] == ["same price, better", "dear"]
    assert "on the front: same price, better, dear" in scatter("Cost", some, "dollars")


def test_hostile_names_stay_text():
    name = '</title><script>alert("x")</script>'
    for chart in (
        line_chart(name, {name: {1: summary(0.5)}}, name),
        scatter(name, [Point(name, name, 1.0, summary(0.5))], name),
    ):
        assert "<script" not in chart
        tree = ElementTree.fromstring(standalone(chart))
        assert tree.find(f"{SVG}title").text == name


def test_a_point_without_cost_is_drawn_at_the_left():
    free = scatter("Cost", [Point("free", "1", 0.0, summary(0.5))], "dollars")
    assert 'cx="48.0"' in free
