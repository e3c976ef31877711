"""Answers quote in one form, and equal questions of equal callers are answered once."""

from dataclasses import replace

from rag_pipeline import Corpus
from rag_pipeline.assistant import open_assistant
from rag_pipeline.assistant.corpora import with_gaps
from rag_pipeline.assistant.results import KeptAnswers, with_column_names
from rag_pipeline.datamodels import ANYBODY, Answer, Caller, Citation, Document
from rag_pipeline.pipeline.driver import load_and_cut
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.chunking import scored
from rag_pipeline_tests.testing.corpora import DOCUMENTS, write_documents

ROWS = "| Vehicle | MOT due | |\n|---|---|---|\n| Bus | 1 May | x |\n|  | 2 June | |\n"


def answered(text, *quotes):
    citations = []
    for number, quote in enumerate(quotes, 1):
        start = text.index(quote)
        citations.append(
            Citation(number, scored("a", text, 1.0).chunk_id, "a", start, start + len(quote), quote)
        )
    lines = [f"“{' '.join(c.text.split())}” [{c.number}]" for c in citations]
    return Answer("\n".join(["MOT due: 1 May", *lines]), True, tuple(citations))


def test_a_quoted_row_names_its_columns_once():
    rows = answered(ROWS, "| Bus | 1 May | x |", "|  | 2 June | |", "| Vehicle | MOT due | |")
    passages, read = [scored("a", ROWS, 1.0)], lambda _: Document("a", "", ROWS)
    assert with_column_names(rows, passages, read) == (
        "MOT due: 1 May\n“Vehicle: Bus · MOT due: 1 May · x” [1] [3]\n“MOT due: 2 June” [2] [3]"
    )
    text = "“\\| Bus \\| 1 May \\| x \\|” [1] “\\| Vehicle \\| MOT due \\| \\|” [3] |"
    compared = replace(rows, text=f"| a | {text}")
    assert with_column_names(compared, passages, read) == (
        "| a | “Vehicle: Bus · MOT due: 1 May · x” [1] [3] |"
    )
    bus, names = ROWS.splitlines()[2], ROWS.splitlines()[0]
    twice = answered(ROWS, bus, names, bus, names)
    named = "“Vehicle: Bus · MOT due: 1 May · x”"
    told = with_column_names(twice, passages, read)
    assert told == f"MOT due: 1 May\n{named} [1] [2]\n{named} [3] [4]"
    head_alone = answered(ROWS, "| Vehicle | MOT due | |")
    assert with_column_names(head_alone, passages, read) == head_alone.text


def test_an_object_of_a_json_file_is_told_by_its_fields():
    text = '[{"name": "Ada", "phone": null, "desk": 4}, [5], {"on": true, "at": ["Köln"]}]'
    told = 'on: true · at: ["Köln"]'
    for said, shown in ((text[1:42], "name: Ada · desk: 4"), ("[5]", "[5]"), (text[49:-1], told)):
        one = answered(text, said)
        told = with_column_names(one, [scored("a", text, 1.0)], lambda _: None)
        assert told == f"MOT due: 1 May\n“{shown}” [1]"


def test_a_row_names_its_sheet_if_others_have_the_same_columns():
    table = "| Vehicle | Due |\n|---|---|\n| {} | May |\n"
    text = f"# Fleet\n\n## Ulm\n\n{table.format('Bus')}\n## Kiel\n\n{table.format('Van')}"
    row = answered(text, "| Van | May |")
    told = with_column_names(row, [scored("a", text, 1.0)], lambda _: Document("a", "", text))
    assert told == "MOT due: 1 May\n“Kiel · Vehicle: Van · Due: May” [1]"


def test_a_table_without_column_names_and_an_unread_document_are_quoted_as_they_are():
    text = "| Bus | 1 May |\n"
    single, passages = answered(text, text.strip()), [scored("a", text, 1.0)]
    known = {"a": Document("a", "", text)}
    for read in (lambda one: known[one.document_id], lambda one: None):
        assert with_column_names(single, passages, read) == single.text


QUESTION = "When is a doctor's note needed?"
PRICE = "How expensive may a hotel be?"


def searches(assistant):
    return assistant.corpora["tiny"].cached.total()


def told(made):
    return replace(made, trace=())


def test_an_equal_question_is_answered_without_a_search(released):
    assistant = open_assistant([released])
    first = assistant.ask(QUESTION)
    done = searches(assistant)
    stages = []
    again = assistant.ask(QUESTION, progress=lambda *stage: stages.append(stage))
    names = ["intent", "search", "answer", "citations"]
    assert stages == [(name, n, max(3, n + 1)) for n, name in enumerate(names)]
    assert told(again) == told(first) and searches(assistant) == done > 0
    assert [s.name for s in again.trace] == [s.name for s in first.trace]
    assert all(s.seconds == 0 and s.detail["kept"] for s in again.trace)
    assert not any("kept" in s.detail for s in first.trace)
    assert again.trace[0].began > first.trace[-1].began
    for other in ({"contexts": 2}, {"turns": ("And leave?",)}, {"where": "title != 'x'"}):
        before = searches(assistant)
        assistant.ask(QUESTION, **other)
        assert searches(assistant) > before, other


def test_other_labels_are_answered_apart(released):
    assistant = open_assistant([released])
    for caller in (ANYBODY, Caller(frozenset({"hr"})), ANYBODY):
        assistant.seen_by(caller).ask(QUESTION)
    assert len(assistant.kept._kept) == 2  # the third question got the first one's answer


def test_an_answer_and_a_kept_refusal_name_the_files_that_are_unread_now(tmp_path, built_file):
    corpus = Corpus.load(built_file)
    anybody = open_assistant([corpus]).seen_by(ANYBODY)
    query = "Who won the football championship of 1990?"
    first = anybody.ask(query)
    assert (first.answered, first.warnings) == (False, ())
    write_documents(tmp_path / "documents", {"football.xlsx": "no workbook"})
    load_and_cut(Workspace(corpus.config))
    told = "not searched, because unreadable: football.xlsx"
    assert anybody.ask(query).warnings == (told,)
    answer = anybody.ask(QUESTION)
    unsure = replace(answer, confidence=0.1, warnings=())
    dataset = [*anybody.corpora.values()]
    assert (answer.answered, answer.warnings) == (True, ())
    assert with_gaps(unsure, dataset, QUESTION, True).warnings == (), "its name has no asked word"
    assert with_gaps(unsure, dataset, query, True).warnings == (told,)
    (tmp_path / "documents/football.xlsx").unlink()
    load_and_cut(Workspace(corpus.config))
    assert anybody.ask(query).warnings == ()


def test_a_new_release_is_asked_again(tmp_path, built_file, run_all):
    corpus = Corpus.load(built_file)
    assistant = open_assistant([corpus])
    assert "180 euros" in assistant.ask(PRICE).text
    text = DOCUMENTS["policy/travel.md"].replace("180 euros", "250 euros")
    write_documents(tmp_path / "documents", {"policy/travel.md": text})
    run_all(built_file)
    corpus.reopen()
    new = assistant.ask(PRICE)
    assert "250 euros" in new.text and new.releases[0].release == "release-000002"


def test_the_oldest_answers_make_room(released):
    made = open_assistant([released]).ask(QUESTION)
    long = replace(made, text="x" * (8 << 20))
    kept = KeptAnswers()
    for n in range(5):
        kept.keep(n, long)
    kept.keep("larger than all", replace(made, text="x" * (33 << 20)))
    assert [kept.get(n, None) is not None for n in range(5)] == [False, False, True, True, True]
    assert kept.get("larger than all", None) is None
