"""Say the assistant's own sentences in the language of the question."""

import re

from rag_pipeline.answering.forms import NO_ANSWER
from rag_pipeline.loading.languages import any_language_of, language_of

_SENTENCES = {
    NO_ANSWER: {
        "de": "In den Dokumenten wurde keine Antwort gefunden.",
        "es": "No se ha encontrado respuesta en los documentos.",
        "fr": "Aucune réponse n'a été trouvée dans les documents.",
    },
    "(.+) is left out: (.+), and (.+) holds": {
        "de": "{0} ist ausgelassen: {1}; es gilt {2}",
        "es": "{0} se omite: {1}; vale {2}",
        "fr": "{0} est écarté : {1} ; {2} fait foi",
    },
    "(.+) may not hold: (.+), by its name": {
        "de": "{0} gilt vielleicht nicht: dem Namen nach {1}",
        "es": "{0} quizá no valga: por su nombre, {1}",
        "fr": "{0} ne vaut peut-être pas : d'après son nom, {1}",
    },
    "(.+) is amended by (.+)": {
        "de": "{0} wird geändert durch {1}",
        "es": "{0} se modifica por {1}",
        "fr": "{0} est modifié par {1}",
    },
    "not searched: (.+)": {
        "de": "nicht durchsucht: {0}",
        "es": "no se ha buscado en: {0}",
        "fr": "non consulté : {0}",
    },
    "superseded": {"de": "abgelöst", "es": "sustituido", "fr": "remplacé"},
    "draft": {"de": "Entwurf", "es": "borrador", "fr": "brouillon"},
    "copy": {"de": "Kopie", "es": "copia", "fr": "copie"},
    "old version": {"de": "alte Fassung", "es": "versión anterior", "fr": "ancienne version"},
}
"""The sentences and words by pattern, and their translation by language."""


def in_language_of(question: str, sentence: str) -> str:
    """Return a sentence of the assistant in the question's language, if there is a translation.

    The language is sure if it is the likeliest among few and among all languages.
    """
    language = language_of(question)
    return _said(sentence, language) if any_language_of(question) == language else sentence


def _said(sentence: str, language: str) -> str:
    for pattern, words in _SENTENCES.items():
        if language in words and (found := re.fullmatch(pattern, sentence)):
            return words[language].format(*(_said(part, language) for part in found.groups()))
    return sentence
