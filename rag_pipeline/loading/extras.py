"""Manage the optional packages (extras) with which loaders read more of a document.

A document that was read without an extra has another content hash, and therefore becomes stale
when the extra is installed.
"""

import hashlib
import importlib.util

MODULES = {"code": "tree_sitter", "ocr": "rapidocr"}
"""A module that each extra installs, by the name of the extra."""


def is_installed(extra: str) -> bool:
    """Return whether the module of an extra is installed."""
    return importlib.util.find_spec(MODULES[extra]) is not None


def hash_without(extra: str, content_hash: str) -> str:
    """Return the content hash of a document that was read without an extra."""
    return hashlib.sha256(f"without {extra} {content_hash}".encode()).hexdigest()


def is_current_here(made: str, content_hash: str) -> bool:
    """Return whether a document with the stored hash `made` is current on this machine.

    A document that was read without an extra stays current until the extra is installed.
    """
    if made == content_hash:
        return True
    extra = missing_extra(made, content_hash)
    return bool(extra) and not is_installed(extra)


def missing_extra(made: str, content_hash: str) -> str:
    """Return the extra without which a document was read, or "" if no extra was missing."""
    return next((e for e in MODULES if made == hash_without(e, content_hash)), "")
