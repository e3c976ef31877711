"""Guess the encoding of text that is not UTF-8."""

from rag_pipeline.loading.languages import any_language_of

_LANGUAGES = {
    "cp1252": "",
    "cp1250": "pl cs sk hu hr sl ro bs sq",
    "cp1251": "ru uk bg sr mk be",
    "cp1253": "el",
    "cp1254": "tr az",
    "cp1255": "he",
    "cp1256": "ar fa ur",
    "cp874": "th",
    "cp932": "ja",
    "euc_jp": "ja",
    "gb18030": "zh",
    "big5": "zh",
    "cp949": "ko",
    "koi8_r": "ru uk bg",
    "cp866": "ru uk bg be",
}
"""The languages (ISO 639-1) of encodings, the most common encoding first. "" stands for all others.

Rare encodings are left out, because each candidate makes wrong guesses for short texts likelier.
"""
_NAMES = list(_LANGUAGES)
_SPECIAL = frozenset(" ".join(_LANGUAGES.values()).split())
_READ = 2_000


def guessed_encoding(raw: bytes) -> str:
    """Return the likely encoding of a text, or "" if it is UTF-8 (even damaged) or if none fits.

    Bytes count as damaged UTF-8 if only their last character is cut off. The same holds if they
    have at most as many invalid bytes as valid non-ASCII characters.
    """
    from charset_normalizer import from_bytes

    try:
        raw.decode()
    except UnicodeDecodeError as error:
        valid = raw.decode(errors="ignore")
        n_wrong = len(raw) - len(valid.encode())
        is_cut = error.reason == "unexpected end of data"
        if is_cut or n_wrong <= sum(char > "\x7f" for char in valid):
            return ""
    else:
        return ""
    found = [
        (not _suits(encoding, text), match.chaos, -match.coherence, _NAMES.index(encoding))
        for match in from_bytes(raw, cp_isolation=_NAMES)
        for text in [str(match)[:_READ]]
        for encoding in match.could_be_from_charset
    ]
    return _NAMES[min(found)[-1]] if found else ""


def _suits(encoding: str, text: str) -> bool:
    """Return whether an encoding is usual for the language of the text decoded with it."""
    language = any_language_of(text)
    own = _LANGUAGES[encoding].split()
    return language in own if own else language not in _SPECIAL
