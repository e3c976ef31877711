"""Questions of three sets in other wordings, under the default configuration.

    python -m benchmarks.bench_wordings [--data FOLDER] [--sets NAME ...] [--work FOLDER]

A program makes the wordings from each question. The wordings in `TUNED` were used to develop the
query analysis; the others test it. On LegalBench-RAG they move, shorten or misspell the name of the
document, or add words to it. On PrivacyQA they lead up to the question, and on the sample they wrap
or strip it.
"""

import re
import sys
from collections.abc import Sequence

from benchmarks.bench_datasets import SETS as PUBLIC
from benchmarks.bench_datasets import default_searcher, prepared, rag
from benchmarks.corpora import write_sample
from benchmarks.shared import working
from rag_pipeline.config import load_config
from rag_pipeline.datamodels import Query, SearchRequest
from rag_pipeline.evaluation.metrics import answer_presence
from rag_pipeline.evaluation.relevance import relevance_labels
from rag_pipeline.evaluation.runs import load_queries
from rag_pipeline.workspace import Workspace

CUTOFFS = (1, 5, 10)
TUNED = frozenset(
    "own;middle;end;one party;keywords;statement;story;aside;policy of;dash;every day;daughter;"
    "tablets;lawyer;last;in brackets".split(";")
)
_ASKING = re.compile(r"Does the document (\w+) (.*)\?")
_OWNER = re.compile(r"(.+?)(?:'s|(?<=s)') ")
_STOP = frozenset(
    "a an and any are as at be but by does do document for from how i in is it its of on or some "
    "that the their they this to under what when whether which who with".split()
)


def _third_person(verb: str) -> str:
    return f"{verb[:-1]}ies" if verb.endswith("y") else f"{verb}s"


def _parties(name: str) -> list[str]:
    """Return the parties that a name gives: `DoiT` and `ICN`, or one."""
    for marker in (" between ", " in "):
        _, found, rest = name.partition(marker)
        if found:
            return rest.split(" and ")
    name = re.sub(r"^[Tt]he ", "", name)
    owner = _OWNER.match(name)
    return [owner[1] if owner else name.split()[0]]


def _misspelt(name: str) -> str:
    """Swap the two letters in the middle of the longest word of the parties."""
    word = max((w for party in _parties(name) for w in party.split()), key=len)
    at = len(word) // 2
    if len(word) < 5:
        return name
    return name.replace(word, word[: at - 1] + word[at] + word[at - 1] + word[at + 1 :])


def _keywords(text: str) -> str:
    return " ".join(w for w in re.findall(r"[\w'-]+", text.lower()) if w not in _STOP)


def _of_legalbench(query: str) -> dict[str, str]:
    """Return the parts of a question: the name of its document, the verb and the object."""
    name, _, ask = query.removeprefix("Consider ").partition("; ")
    found = _ASKING.match(ask)
    assert found, query
    verb, what = found.groups()
    parties, words = _parties(name), what.split()
    half = max(1, len(words) // 2)
    return {
        "query": query,
        "name": name,
        "verb": verb,
        "verbs": _third_person(verb),
        "what": what,
        "party": parties[0],
        "keywords": _keywords(f"{' '.join(parties)} {verb} {what}"),
        "lower": f"does {name} {verb} {what}".lower(),
        "misspelt": _misspelt(name),
        "capital": f"{name[0].upper()}{name[1:]}",
        "first": " ".join(words[:half]),
        "rest": " ".join(words[half:]),
    }


def _of_privacy(query: str) -> dict[str, str]:
    """Return the name of the policy's product and the question, also as a sentence."""
    name, _, ask = query.removeprefix('Consider "').partition("\"'s privacy policy; ")
    return {
        "query": query,
        "name": name,
        "ask": ask,
        "Ask": f"{ask[0].upper()}{ask[1:].rstrip('?')}?",
    }


def _of_sample(query: str) -> dict[str, str]:
    before = "This is said before the question and says nothing. " * 200
    lower = query.lower().rstrip("?.")
    return {"query": query, "lower": lower, "keywords": _keywords(query), "before": before}


LEGALBENCH = {
    "own": "{query}",
    "middle": "Does {name} {verb} {what}?",
    "end": "Does the document {verb} {what} in {name}?",
    "one party": "In the {party} NDA, does it {verb} {what}?",
    "keywords": "{keywords}",
    "under": "Under {name}, does the document {verb} {what}?",
    "according": "Does the document {verb} {what} according to {name}?",
    "unmarked": "{name} does the document {verb} {what}",
    "lower case": "{lower}",
    "request": "I have a question about {name}. Please tell me whether it {verbs} {what}.",
    "commas": "Does the document, that is {name}, {verb}, in writing, {what}?",
    "misspelt": "Does the document {verb} {what} in {misspelt}?",
    "last words": "Please check if it {verbs} {what}; I mean {name}, thanks",
    "statement": 'Which clauses of "{name}" support or contradict this: The document {verbs} '
    "{what}.",
    "story": "We signed {name} last year and a lawsuit is coming up. Does the document {verb} "
    "{what}?",
    "aside": "Does the document {verb} {what}? The question is about {name}, which my partner "
    "signed on Monday.",
    "verify": "A statement to be verified against {name} by our lawyers: it {verbs} {what}.",
    "email": "Hi, I am reviewing {name} for a client\n\nDoes the document {verb} {what}?",
    "halves": "{capital} says something about {first}. Does it {verb} {rest}?",
}
PRIVACY = {
    "own": "{query}",
    "policy of": "According to the privacy policy of {name}: {ask}",
    "dash": "Regarding {name} - {ask}",
    "every day": "I use {name} every day and have read their privacy policy. {Ask}",
    "daughter": "My daughter uses {name}. {Ask}",
    "tablets": "We are thinking of installing {name} on our tablets. {Ask}",
    "lawyer": "I am a lawyer reviewing the privacy policy of {name} for a client, and I need to "
    "know {ask}",
    "last": "{Ask} Answer from the privacy policy of {name}.",
    "in brackets": "{Ask} (I mean {name}'s privacy policy)",
    "says": "Looking at what {name} says about privacy, {ask}",
    "yesterday": "Me and my wife both installed {name} yesterday; {ask}",
    "phone": "For someone who has {name} on the phone of a customer, {ask}",
    "that is": "{Ask} That is for {name}, please.",
    "light": "In the light of what was in the papers about {name}: {ask}",
}
SAMPLE = {
    "own": "{query}",
    "lower case": "{lower}",
    "keywords": "{keywords}",
    "request": "Please look into our papers and tell me this: {query} Thank you.",
    "long": "{before}{query}",
}
SETS = {
    "legalbench-rag": (_of_legalbench, LEGALBENCH),
    "privacy-qa": (_of_privacy, PRIVACY),
    "sample": (_of_sample, SAMPLE),
}


def presence(workspace: Workspace, queries: Sequence[Query], asked: Sequence[str]) -> list[float]:
    """Return the mean AnswerPresence at each cutoff of the default, asked in other words."""
    searcher = default_searcher(workspace)
    found = searcher.search_all(SearchRequest(query=text) for text in asked)
    labels = [
        relevance_labels(one.chunks, query.gold_spans)
        for query, one in zip(queries, found, strict=True)
    ]
    return [sum(answer_presence(one, k) for one in labels) / len(labels) for k in CUTOFFS]


def main() -> None:
    with working(__doc__, SETS) as arguments:
        for name in arguments.sets:
            parts_of, wordings = SETS[name]
            if name == "sample":
                file = write_sample(arguments.work)
            else:
                file = prepared(name, arguments.data / PUBLIC[name].path, arguments.work)
            rag("run", str(file), "--configuration", "default", "--quiet")
            workspace = Workspace(load_config(file))
            queries = load_queries(workspace)
            heads = "".join(f"{f'AP@{k}':>8}" for k in CUTOFFS)
            sys.stdout.write(f"\n{name} (n = {len(queries)})\n  {'wording':14}{heads}\n")
            for wording, form in wordings.items():
                asked = [form.format(**parts_of(query.query)) for query in queries]
                means = presence(workspace, queries, asked)
                shown = "".join(f"{100 * mean:8.1f}" for mean in means)
                note = "  chosen on" if wording in TUNED else ""
                sys.stdout.write(f"  {wording:14}{shown}{note}\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
