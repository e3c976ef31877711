"""Turn German sentences into questions, by a table of sentence forms as in `forms`."""

import re
from collections.abc import Callable, Iterator

from rag_pipeline.datamodels import Span
from rag_pipeline.loading.quality import dictionary
from rag_pipeline.questions.forms import MOST_WORDS, Asked, FormKind, is_vague
from rag_pipeline.questions.words import either

_NOUN = r"[A-ZÄÖÜ][\wäöüß-]*[a-zäöüß]"
PHRASE = (
    rf"(?:(?:der|die|das|ein|eine|jede[rs]?) (?:[a-zäöüß]+e[rns]? ){{0,2}}{_NOUN}|{_NOUN})"
    r"(?: (?:des|der|von|vom|zur|zum|im|für|eines|einer) "
    rf"(?:[a-zäöüß]+e[rns]? )?{_NOUN}| (?!(?:wird|werden|ist|sind|hat|haben|kann|muss|darf|soll)\b)"
    r"[a-z][\w.-]*)?"
)
"""A German subject: article, adjectives, noun, and one attribute or name."""
_NO_GERMAN = re.compile(
    rf"\b(?:{either('german_pointers')}|(?:nach)?folgende\w*|so eine?\w*|z\.B|d\.h)\b|^Nicht |"
    r"[:;“”„»«\"()\[\]]"
)
_LED = r"(?!(?:der|er|es|man|sie|ich|wir|Sie|du|nur|sich) )"
_SAID = r"(?:(?!\bkein|\bnicht\b).)+"
_SUBJECT = (
    r"(?:(?:(?:der|die|das|eine?|jede[rs]?|alle) (?:[a-zäöüß]+e[rns]? ){0,2}|[a-zäöüß]+e )?"
    rf"{_NOUN}|"
    r"(?:Herr|Frau) [A-ZÄÖÜ]\w+)(?: [A-ZÄÖÜ][\wäöüß-]+){0,2}"
    r"(?: (?:des|der|von|vom|zur|zum|im|in|am|an|auf|aus|für|über|bei|eine[rs])"
    r"(?: de[mnrs]| eine[mrns]?)? "
    rf"(?:[a-zäöüß]+e[rnsm]? )?{_NOUN}(?: \d{{4}}|(?: [A-ZÄÖÜ][\wäöüß-]+){{1,2}})?){{0,2}}"
)
"""The subject of a German sentence with a value: a noun with up to two attributes."""
_BOUND = r"(?:höchstens |mindestens |maximal |bis zu |etwa |rund |circa |ca\. |insgesamt |nur )?"
_AHEAD: dict[str, tuple[tuple[str, str], ...]] = {
    "date": (
        (r"bis (?:spätestens )?(?:zum |am )?|spätestens (?:am |bis zum )", "bis wann"),
        (r"ab (?:dem )?", "ab wann"),
        (r"seit (?:dem )?", "seit wann"),
        (r"(?:am |im )(?:\w+(?:tag|woch), (?:de[mn] )?)?", "wann"),
    ),
    "duration": (
        (r"innerhalb (?:von |einer Frist von )|binnen ", "innerhalb welcher Frist"),
        (r"für ", "für wie lange"),
        (r"nach ", "nach welcher Zeit"),
        (r"alle ", "wie oft"),
        (r"(?<=dauert )|(?<=dauern )|(?<=dauerte )|(?<=dauerten )", "wie lange"),
    ),
    "amount": (
        (r"(?<!für )(?<!zu )(?<!von )(?<!um )(?<!auf )(?<!über )(?<!mit )(?<!ab )", "wie viel"),
    ),
}  # fmt: skip
"""The words before a value by kind, and the question words that replace them and the value."""
_SUMS = re.compile(r"(?:zahl|bezahl|kost|erhäl|erhal|bekomm|spend|schuld|erstatt|überweis)\w+")
_HIGH = re.compile(
    rf"(?P<s>[^,:;()]{{3,80}}?) (?:(?P<v>beträgt|betragen|betrug|betrugen) |(?P<l>liegt|lag|liegen|"
    rf"lagen) bei ){_BOUND}$"
)
_SUM_OF = re.compile(
    r"(?:der|die|das|eine?) [^,]*\b(?:die|eine) (?P<noun>[A-ZÄÖÜ][\wäöüß-]+) "
    rf"(?:von|über|in Höhe von)\s+{_BOUND}$"
)
"""A feminine noun before its value, in a sentence that does not begin with a condition."""
_VERB_SECOND = re.compile(
    rf"(?P<s>{_SUBJECT}) (?P<v>(?!(?:gegen|neben|zwischen|mit|seit|nicht|samt|statt|erst|laut|"
    r"sonst|selbst|insgesamt|derzeit|jederzeit|mindestens|höchstens|spätestens|den|einen|keinen|deren)\b)"
    r"[a-zäöüß]+(?:t|en|te|rn)|war|wird|wurde|begann|fand|darf|kann|soll|muss)"
    r" (?P<mid>[^,:;()]*)"
)
"""A subject, the finite verb, and words before the value. The verb of a main clause is second."""


def german_value(sentence: str, value: Span, kind: str, about: str) -> Iterator[str]:
    """Yield the question for a value of a German main clause. The verb stays in second place."""
    before, after = sentence[: value[0]], sentence[value[1] :].rstrip(" .")
    if re.search(r"[:;()„“»«]", f"{before}{after}"):
        return
    if (said := _HIGH.fullmatch(before)) and "," not in after:
        verb = said["v"] or said["l"]
        is_now = verb.startswith(("beträgt", "betragen", "lieg"))
        forms = ("sind", "ist") if is_now else ("waren", "war")
        verb = forms[not verb.endswith("n")]
        if re.fullmatch(_SUBJECT, said["s"]) and not is_vague(said["s"], about):
            yield f"wie {'lang' if kind == 'duration' else 'hoch'} {verb} {said['s']}"
    elif (said := _SUM_OF.fullmatch(before)) and not is_vague(f"die {said['noun']}", about):
        yield f"wie {'lang' if kind == 'duration' else 'hoch'} ist die {said['noun']}"
    elif said := _VERB_SECOND.fullmatch(before):
        rest = re.sub(r"(?:^| )und .*$|^ ?je .*$", "", after)
        subject, verb, mid = said["s"], said["v"], said["mid"]
        held = f"{mid} {rest}"
        is_odd = re.search(r"\bvom \d|\b(?:und|oder|nicht|kein\w*|sich)\b", held) or "," in rest
        # "Sichtbare Schäden melden Händler": the object may come first.
        is_odd = is_odd or (mid[:1].isupper() and not re.match(r"(?:der|die|das|eine?) ", subject))
        is_odd = is_odd or _NO_GERMAN.search(f"{subject} {held}") or is_vague(subject, about)
        if is_odd or len(held.split()) > 14 or (kind == "amount" and not _SUMS.fullmatch(verb)):
            return
        for ahead, asks in _AHEAD.get(kind, ()):
            if lead := re.search(rf"(?:{ahead}){_BOUND}$", f"{verb} {mid}"):
                kept = f"{verb} {mid}"[: lead.start()].removeprefix(verb)
                yield f"{asks} {verb} {subject} {kept} {rest}"
                return


def german_purpose(first: str) -> str:
    """Return the question for the option with this effect, or "" without a clear verb."""
    verb, _, rest = first.partition(" ")
    is_odd = re.search(r",|^(?:Immer|Auch|Wenn|Falls)|\b(?:angegeben\w*|Option\w*)\b", first)
    if is_odd or _NO_GERMAN.search(rest):
        return ""
    low = verb.lower()
    is_verb = re.sub("e?t$", "en", low) in dictionary("de") and low[-1] == "t" and low != "nicht"
    if is_verb or low in ("gibt", "liest", "hält", "nimmt", "lässt", "lädt"):
        return f"welche Option‹ von @› {low} {rest}"
    if re.search(r" (?!werden$|sein$|ein$)[a-zäöüß]+(?:en|ern|eln)$", first):
        other = r"(?:Nur|D(?:er|ie|as|en)|Alle|Nicht|Bei|Für|Mit|Im|In|Auf) |\w+e[ns]? (?=[A-ZÄÖÜ])"
        return "mit welcher Option‹ von @› kann man " + re.sub(
            f"^(?:{other})", lambda word: word[0].lower(), first
        )
    return ""


def german(kind: FormKind, template: str) -> Callable[[re.Match[str]], Asked | None]:
    """Return a function from a match to the filled template, or to None if that is unclear."""

    def make(found: re.Match[str]) -> Asked | None:
        parts = {k: v or "" for k, v in found.groupdict().items()}
        held = " ".join(parts[k] for k in ("s", "rest", "o") if f"{{{k}}}" in template)
        # A noun without an article is a subject only in the plural, unlike "Entsprechend kann …".
        is_bare = " " not in parts.get("s", " ") and not parts.get("v", "").endswith(("en", "nd"))
        if (
            len(held.split()) > MOST_WORDS[1]
            or (is_bare and kind != "definition")
            or _NO_GERMAN.search(held)
            or _NO_GERMAN.search(parts.get("v", ""))
            or held.count(",") > 1
            or (kind == "rule" and re.search(r"\bund [a-zäöüß]+t\b", parts["o"]))
        ):
            return None
        question = " ".join(template.format(**parts).split())
        return Asked(kind, question, found.start("o") if kind != "rule" else 0)

    return make


GERMAN: tuple[tuple[FormKind, str, str], ...] = (
    ("statement", "SUBJECT (?P<v>dient|dienen) (?P<o>(?:der|dem|zum|zur|dazu)[ ,].+)",
     "wozu {v} {s}"),
    ("statement", "SUBJECT (?P<v>besteht|bestehen) (?P<o>aus .+)", "woraus {v} {s}"),
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
