"""Turn a sentence into a question, by the first form of its language that fits the sentence."""

import re

from rag_pipeline.questions.forms import ENGLISH, MOST_WORDS, Asked, is_clause, is_vague
from rag_pipeline.questions.german_forms import GERMAN, PHRASE, german, german_purpose
from rag_pipeline.questions.words import either, word_list

_ELSEWHERE = re.compile(
    rf"\b(?:{either('elsewhere')}|as follows|(?:do|does|done) (?:so|that|it)|as (?:before|usual)|"
    r"wie (?:zuvor|bisher)|(?:nach)?folgende\w*)\b",
    re.IGNORECASE,
)
"""A reference to another sentence. An answer that holds such a reference is not complete."""
_RUNS_ON = re.compile(
    r"[.;] |, (?:and|which|while|whereas|but|where|so|wobei|und|aber)\b|"
    r"\b(?:and|und) (?:\w+ )?(?:is|are|was|were|can|may|will|must|shall|should|has|have|does|ist|"
    r"sind|wird|werden|kann|darf|dürfen|muss|müssen|soll|hat|wurde)\b"
)
"""The start of a further statement. An answer that runs on says more than the question asks."""
_FEWEST_WORDS = 4
_FULL_NAME = re.compile(r"[A-Z]\w+ [A-Z]")
_LETTER = re.compile(r"(?<![\w’'.-])[b-hj-z](?![\w’'.-])")
"""A letter that stands alone: a symbol, or the rest of a word."""
_DOES = {
    form: third or f"{verb}s"
    for verb, _, third in (verb.partition(":") for verb in word_list("option_verbs"))
    for form in (verb, third or f"{verb}s")
}
"""The third person of a verb that says the effect of an option, by two of its forms."""
_FIRST = re.compile(r"\.(?=\s|$)|; |: | - |,? if any\b| \([^()]*\)(?=\W*$|\.\s)")
"""The end of the first statement of an entry, or an aside at its end."""


def purpose_of(said: str, names: str, language: str, about: str) -> str:
    """Return the question for the option that has the effect `said` first, or ""."""
    first = _FIRST.split(said)[0].rstrip(". ")
    # A question must not hold placeholders of `names`, such as FILE.
    arguments = re.findall(r"[^\W\d_]{3,}", re.sub(r"--?[\w-]+", "", names))
    is_odd = not {*arguments}.isdisjoint(re.findall(r"\w+", first)) or re.search("[A-Z]{4}", first)
    if is_odd or not 4 <= len(first.split()) <= MOST_WORDS[1]:
        return ""
    if language == "de":
        return german_purpose(first)
    verb, _, rest = first.removeprefix("Do not ").partition(" ")
    does = f"does not {verb}" if len(verb) + len(rest) + 1 < len(first) else _DOES.get(verb.lower())
    is_clear = verb.lower() in _DOES and is_clause(rest) and not is_vague(rest, about)
    return f"which option‹ of @› {does} {rest}" if is_clear else ""


def _is_whole(sentence: str, asked: Asked) -> bool:
    """Return whether an answer refers to no other sentence, has content, and is one statement."""
    answer = sentence[asked.answer :].rstrip(".")
    if _ELSEWHERE.search(sentence, asked.answer) or answer.startswith(","):
        return False
    if asked.kind not in ("statement", "definition"):
        return True
    has_content = len(answer.split()) >= _FEWEST_WORDS or _FULL_NAME.search(answer)
    return bool(has_content) and not _RUNS_ON.search(answer)


def asked_of(sentence: str, language: str, about: str) -> Asked | None:
    """Return the question that a sentence answers, or None if no form makes a clear question.

    The sentence begins in lower case, unless its first word is a name. `about` is the title of its
    document and the heading of its section.
    """
    for pattern, make in _FORMS.get(language, ()):
        found = pattern.fullmatch(sentence.rstrip(". "))
        asked = make(found) if found else None
        parts = found.groupdict(default="") if found else {}
        if asked is None:
            continue
        is_said = _is_whole(sentence, asked) and not _LETTER.search(asked.question)
        return asked if is_said and not is_vague(parts.get("s", ""), about) else None
    return None


_FORMS = {
    "en": tuple((re.compile(pattern), make) for pattern, make in ENGLISH),
    "de": tuple(
        (re.compile(pattern.replace("SUBJECT", f"(?P<s>{PHRASE})")), german(kind, template))
        for kind, pattern, template in GERMAN
    ),
}
