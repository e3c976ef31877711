"""Turn German sentences into questions, by a table of sentence forms as in `forms`."""

import re
from collections.abc import Callable

from rag_pipeline.questions.forms import MOST_WORDS, Asked, FormKind

_NOUN = r"[A-ZÄÖÜ][\wäöüß-]*[a-zäöüß]"
PHRASE = (
    rf"(?:(?:der|die|das|ein|eine|jede[rs]?) (?:[a-zäöüß]+e[rns]? ){{0,2}}{_NOUN}|{_NOUN})"
    r"(?: (?:des|der|von|vom|zur|zum|im|für|eines|einer) "
    rf"(?:[a-zäöüß]+e[rns]? )?{_NOUN}| (?!(?:wird|werden|ist|sind|hat|haben|kann|muss|darf|soll)\b)"
    r"[a-z][\w.-]*)?"
)
"""A German subject: article, adjectives, noun, and one attribute or name."""
_NO_GERMAN = re.compile(
    r"\b(?:er|es|sie|Sie|ihn|ihm|ihnen|dies\w*|jene\w*|wir|uns|unser\w*|ich|man|siehe|oben|unten|"
    r"hier|erste[nrs]?|zweite[nrs]?|dritte[nrs]?|nächste\w*|letzte\w*|vorige\w*|zuletzt|jetzt|"
    r"meist|selten|[Aa]ußerdem|[Aa]llerdings|"
    r"entweder|folgende\w*|obige\w*|so eine?\w*|solche\w*|dort|sogar|ebenfalls|"
    r"stattdessen|dabei|dazu|dafür|daher|deshalb|jedoch|auch|z\.B|d\.h|bzw)\b|^Nicht |"
    r"[:;“”„»«\"()\[\]]"
)
_STARTS = (
    r"(?!(?:mit|seit|statt|nicht|bereits|erst|selbst|anhand|laut|samt|nebst|den|einen|keinen|ihren|"
    r"seinen|deren|dessen|dass|wenn|beispielsweise) )[a-zäöüß]*(?:t|te|en|ten|ist|sind|muss|kann|"
    r"darf|soll|wird) (?!Sie\b)"
)
"""The first word of a German main clause after a clause with "wenn": its finite verb."""
_IF = (
    r"(?P<clause>(?!Sie\b)(?=(?:der|die|das|eine?|jede[rs]?|alle|beide|[A-ZÄÖÜ][\wäöüß-]+) )"
    r"[^,]{12,130} [a-zäöüß]+(?:t|n|e)), (?:so |dann )?"
    rf"(?P<o>{_STARTS}.{{15,}})"
)
_RULES = r"(?:muss|müssen|darf|dürfen|kann|können|sollte\w*|soll|ist|sind|hat|haben|gilt|gelten) "
_PARTICLE = "(?P<p>(?: (?:aus|an|ab|auf|ein|fest|vor|zurück|um|zu))?)"
_LED = r"(?!(?:der|er|es|man|sie|ich|wir|Sie|du|nur|sich) )"
_SAID = r"(?:(?!\bkein|\bnicht\b).)+"


def is_german_subject(words: str) -> bool:
    """Return whether a German text can be the whole subject of a question."""
    return bool(re.fullmatch(PHRASE, words)) and not _NO_GERMAN.search(words)


def german(kind: FormKind, template: str) -> Callable[[re.Match[str]], Asked | None]:
    """Return a function that fills the template with the groups of a match.

    It returns None if the match does not make a clear question.
    """

    def make(found: re.Match[str]) -> Asked | None:
        parts = {k: v or "" for k, v in found.groupdict().items()}
        held = " ".join(parts[k] for k in ("s", "rest", "clause", "o") if f"{{{k}}}" in template)
        # "Entsprechend kann …": a noun without an article is a subject in the plural alone.
        is_bare = " " not in parts.get("s", " ") and not parts.get("v", "").endswith(("en", "nd"))
        if (
            len(held.split()) > MOST_WORDS[1]
            or (is_bare and kind != "definition")
            or _NO_GERMAN.search(held)
            or _NO_GERMAN.search(parts.get("v", ""))
            or held.count(",") > 1
            or (kind == "condition" and _NO_GERMAN.match(parts["o"]))
            or (kind == "rule" and re.search(r"\bund [a-zäöüß]+t\b", parts["o"]))
        ):
            return None
        question = " ".join(template.format(**parts).split())
        start = found.start("v" if question.startswith("wie kann man") else "o")
        return Asked(kind, question, start if kind != "rule" else 0)

    return make


GERMAN: tuple[tuple[FormKind, str, str], ...] = (
    ("condition", rf"(?:[Ww]enn|[Ff]alls|[Ss]ofern) (?=[^,]+, (?:so |dann )?{_RULES}){_IF}",
     "was gilt, wenn {clause}"),
    ("condition", rf"(?:[Ww]enn|[Ff]alls|[Ss]ofern) {_IF}", "was geschieht, wenn {clause}"),
    ("statement", r"[Uu]m (?P<rest>(?:(?! zu )[^,])+) zu (?P<p>[a-zäöüß]+en), (?P<v>(?!lesen|"
     r"schauen|beachten|siehe)[a-zäöüß]+) "
     r"(?P<o>(?!.*\b(?:bitte|nichts)\b)(?:Sie|man) .+)",
     "wie kann man {rest} {p}"),
    ("statement", "SUBJECT (?P<v>dient|dienen) (?P<o>(?:der|dem|zum|zur|dazu)[ ,].+)",
     "wozu {v} {s}"),
    ("statement",
     "SUBJECT (?P<v>wird|werden) (?P<o>(?:für|zum|zur) [^,]+) (?P<p>verwendet|benutzt|genutzt)",
     "wofür {v} {s} {p}"),
    ("statement", "SUBJECT (?P<v>besteht|bestehen) (?P<o>aus .+)", "woraus {v} {s}"),
    ("statement", r"SUBJECT (?P<v>enthält|enthalten|umfasst|umfassen|bestimmt|bestimmen|beschreibt|"
     r"beschreiben|ermöglicht|benötigt|erfordert|zeigt|zeigen|verhindert|regelt|erzeugt|liefert)"
     rf"(?P<o>,? (?!der )\w+ \w+ ?.+?){_PARTICLE}", "was {v} {s}{p}"),
    ("definition", rf"(?P<s>eine? {_NOUN}) (?P<v>ist) (?P<o>(?:eine?|das|der|die) \w+ .+)",
     "was {v} {s}"),
    ("statement", "SUBJECT (?P<v>ist|sind|wird|werden|muss|müssen|kann|können|darf|dürfen) "
     "(?P<rest>[^,]+), (?P<o>(?:weil|da) .+)", "warum {v} {s} {rest}"),
    ("rule", "SUBJECT (?P<v>darf|dürfen|kann|können|ist|sind|wird|werden) "
     f"(?P<rest>{_LED}{_SAID}?) nicht(?P<o> {_SAID})",
     "{v} {s} {rest}{o}"),
    ("statement", r"SUBJECT (?P<v>befindet|befinden) sich (?P<o>(?:in|im|auf|unter|am|bei) [^,]+)",
     "wo {v} sich {s}"),
)  # fmt: skip
