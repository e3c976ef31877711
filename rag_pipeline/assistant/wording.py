"""Translate the assistant's own sentences into the language of the question."""

import re

from rag_pipeline.answering.extractive import NO_ANSWER
from rag_pipeline.loading.languages import any_language_of, language_of
from rag_pipeline.release.manifest import ROLLED_BACK, ROLLED_BACK_ONLY
from rag_pipeline.search.unsearched import EXCLUDED, UNREADABLE

LEFT_OUT = "{0} is left out: {1}; {2} is in force"
DOUBTFUL = "{0} may not be in force: {1}"
AMENDED = "{0} is amended by {1}"
NEAREST_PASSAGES = "The nearest passages, which may not answer it:"
CONFIDENCE = "Confidence: {0} ({1})"
CHANCE = "Confidence that the documents answer it: {0} ({1})"
HIGH = 0.9
_CONFIDENCES = ((HIGH, "high"), (0.6, "medium"), (0.0, "low"))
"""The least confidence of each word.

On six mixed folders, 76 %, 56 % and 34 % of the answers with these words are right.
"""
_LEAD = 2.0
_DOUBT = "{0}; compare it with the source"
_SENTENCES = {
    NO_ANSWER: {
        "de": "In den Dokumenten wurde keine Antwort gefunden.",
        "es": "No se ha encontrado respuesta en los documentos.",
        "fr": "Aucune réponse n'a été trouvée dans les documents.",
    },
    LEFT_OUT: {
        "de": "{0} ist ausgelassen: {1}; es gilt {2}",
        "es": "{0} se omite: {1}; vale {2}",
        "fr": "{0} est écarté : {1} ; {2} fait foi",
    },
    DOUBTFUL: {
        "de": "{0} gilt vielleicht nicht: {1}",
        "es": "{0} quizá no valga: {1}",
        "fr": "{0} ne vaut peut-être pas : {1}",
    },
    AMENDED: {
        "de": "{0} wird geändert durch {1}",
        "es": "{0} se modifica por {1}",
        "fr": "{0} est modifié par {1}",
    },
    UNREADABLE: {
        "de": "nicht durchsucht, da nicht lesbar: {0}",
        "es": "no se ha buscado en, por ser ilegible: {0}",
        "fr": "non consulté, car illisible : {0}",
    },
    EXCLUDED: {
        "de": "nicht durchsucht, da ausgeschlossen: {0}",
        "es": "no se ha buscado en, por estar excluido: {0}",
        "fr": "non consulté, car exclu : {0}",
    },
    ROLLED_BACK: {
        "de": "zurückgesetzt am {0}: {1} vom {2} antwortet, ohne neuere Dokumente",
        "es": "restablecido el {0}: responde {1} del {2}, sin documentos más recientes",
        "fr": "rétabli le {0} : {1} du {2} répond, sans les documents plus récents",
    },
    NEAREST_PASSAGES: {
        "de": "Die nächstliegenden Stellen, die vielleicht nicht antworten:",
        "es": "Los pasajes más cercanos, que quizá no respondan:",
        "fr": "Les passages les plus proches, qui ne répondent peut-être pas :",
    },
    CHANCE: {
        "de": "Sicherheit, dass die Dokumente antworten: {0} ({1})",
        "es": "Confianza en que los documentos respondan: {0} ({1})",
        "fr": "Confiance que les documents répondent : {0} ({1})",
    },
    CONFIDENCE: {
        "de": "Sicherheit: {0} ({1})",
        "es": "Confianza: {0} ({1})",
        "fr": "Confiance : {0} ({1})",
    },
    _DOUBT: {
        "de": "{0}; vergleichen Sie mit der Quelle",
        "es": "{0}; compárela con la fuente",
        "fr": "{0} ; comparez avec la source",
    },
    "{0} files": {"de": "{0} Dateien", "es": "{0} archivos", "fr": "{0} fichiers"},
    "low": {"de": "gering", "es": "baja", "fr": "faible"},
    "medium": {"de": "mittel", "es": "media", "fr": "moyenne"},
    "high": {"de": "hoch", "es": "alta", "fr": "élevée"},
    "superseded": {"de": "abgelöst", "es": "sustituido", "fr": "remplacé"},
    "draft": {"de": "Entwurf", "es": "borrador", "fr": "brouillon"},
    "copy": {"de": "Kopie", "es": "copia", "fr": "copie"},
    "old version": {"de": "alte Fassung", "es": "versión anterior", "fr": "ancienne version"},
}
"""The translations of sentences and words by language."""
_SENTENCES[ROLLED_BACK_ONLY] = {k: v.rpartition(",")[0] for k, v in _SENTENCES[ROLLED_BACK].items()}


def confidence_said(question: str, answered: bool, confidence: float | None) -> str:
    """Return a sentence about a confidence, with advice if it is not high, or "" for None."""
    if confidence is None:
        return ""
    confidence = round(confidence, 2)  # as it is shown
    word = next(word for least, word in _CONFIDENCES if confidence >= least)
    sentence = (CONFIDENCE if answered else CHANCE).format(word, f"{confidence:.2f}")
    is_doubtful = answered and confidence < HIGH
    return in_language_of(question, _DOUBT.format(sentence) if is_doubtful else sentence)


def in_language_of(question: str, sentence: str) -> str:
    """Return a sentence of the assistant in the question's language, if there is a translation.

    The language counts as known if it is the likeliest of the few, and clearly of all languages.
    """
    language = language_of(question)
    return _said(sentence, language) if any_language_of(question, _LEAD) == language else sentence


def _said(sentence: str, language: str) -> str:
    for template, words in _SENTENCES.items():
        pattern = re.sub(r"\\{\d\\}", "(.+)", re.escape(template))
        if language in words and (found := re.fullmatch(pattern, sentence)):
            return words[language].format(*(_said(part, language) for part in found.groups()))
    return sentence
