"""Extras that read more of a document, and the content hash of what was read without one."""

import hashlib
import importlib.util

MODULES = {"code": "tree_sitter", "ocr": "rapidocr"}
"""The extras by name, each with a module that it installs."""


def is_installed(extra: str) -> bool:
    """Return whether an extra is there."""
    return importlib.util.find_spec(MODULES[extra]) is not None


def read_without(extra: str, content_hash: str) -> str:
    """Return the hash of content of which a part was left out for want of an extra.

    It differs from that of the whole: what follows from the document is made anew with it.
    """
    return hashlib.sha256(f"without {extra} {content_hash}".encode()).hexdigest()


def is_as_read_here(made: str, content_hash: str) -> bool:
    """Return whether what was read, whose hash is `made`, is current on this machine.

    It stays so where a part was left out for want of an extra that is still not installed.
    """
    if made == content_hash:
        return True
    extra = wanted_by(made, content_hash)
    return bool(extra) and not is_installed(extra)


def wanted_by(made: str, content_hash: str) -> str:
    """Return the extra without which content was read, "" where it was read in whole."""
    return next((e for e in MODULES if made == read_without(e, content_hash)), "")
