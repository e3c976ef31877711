"""The embedding that `rag init` chooses for a folder's languages, and how it says so."""

import pytest

from rag_pipeline.pipeline.first_look import Expected, chosen_model, minutes


def work(minilm: float, e5: float) -> dict[str, Expected]:
    return {"minilm": Expected(minilm, 1, 20), "e5": Expected(e5, 1, 20)}


@pytest.mark.parametrize(
    ("languages", "e5_seconds", "model", "reason"),
    [
        ({}, 10, "minilm", "reads English"),
        ({"en": 0.99, "de": 0.01}, 10, "minilm", "reads English"),
        # 5 % is half of the share for which e5 may take 900 s more.
        ({"en": 0.95, "de": 0.05}, 740, "e5", "about 7 min more, and also reads German"),
        ({"en": 0.95, "de": 0.05}, 760, "minilm", "BM25 finds German by words"),
        (
            {"en": 0.8, "de": 0.1, "fr": 0.1},
            600,
            "e5",
            "about 5 min more, and also reads German, F",
        ),
        ({"en": 0.8, "de": 0.2}, 7500, "minilm", "BM25 finds German by words; --model e5 would"),
        ({"de": 0.6, "en": 0.4}, 90_000, "e5", "e5 reads German, and minilm reads English only"),
    ],
)
def test_a_mixed_folder_gets_e5_if_it_is_worth_its_time(languages, e5_seconds, model, reason):
    chosen, why = chosen_model(languages, work(300, e5_seconds))
    assert chosen == model and reason in why


def test_durations_are_rounded():
    assert [minutes(s) for s in (59, 300, 7200)] == [
        "less than 1 min",
        "about 5 min",
        "about 2.0 h",
    ]
