import pytest

from rag_pipeline.answering.matching import Words, words_of


@pytest.mark.parametrize(
    ("asked", "text", "is_in"),
    [
        ("anchors", "the anchor", True),
        ("fees", "a fee", True),
        ("restored", "for restoring it", True),
        ("Kaution", "die Kauzion", True),
        ("Halle", "Lagerhalle 4", True),
        ("Röstprofile", "Röstprofil", True),
        ("F07", "code F07", True),
        ("F07", "code F70", False),
        ("2023", "in 2024", False),
        ("car", "a card", False),
        ("Porto", "Lyon", False),
        ("合同期限", "本合同的期限为三年", True),
    ],
)
def test_words_match_across_inflection_compounds_and_typing_errors(asked, text, is_in):
    assert bool(Words(asked, [text]).in_text(text)) == is_in


def test_rare_words_weigh_more_and_stop_words_and_unknown_words_nothing():
    texts = ["the anchor of the ship", "the ship", "a ship"]
    words = Words("Where is the anchor of the ship Zeta?", texts)
    assert words.asked == {"anchor", "ship", "zeta"}
    assert words.share({"anchor"}) > words.share({"ship"}) > words.share({"zeta"}) == 0
    assert words.share(words.asked) == pytest.approx(1)
    assert words.covers("anchor chain") == pytest.approx(0.5)
    assert words_of("K-1002; 31,40 €") == {"k", "1002", "31,40"}


def test_a_word_in_capitals_is_no_stop_word():
    assert "it" in Words("Who leads IT here?", ["IT"]).asked
    assert "it" not in Words("Who leads it?", ["it"]).asked
    assert "it" not in Words("WHO LEADS IT?", ["it"]).asked
