"""Manage the optional packages (extras) that let loaders read more of a document.

A document that was read without an extra has another content hash. The document therefore becomes
stale once the extra is installed.
"""

import hashlib
import importlib.util

MODULES = {"code": "tree_sitter", "ocr": "rapidocr"}
"""One module that an extra installs, by the name of the extra."""


def is_installed(extra: str) -> bool:
    """Return whether an extra is installed, judged by its module in `MODULES`."""
    return importlib.util.find_spec(MODULES[extra]) is not None


def read_without(extra: str, content_hash: str) -> str:
    """Return the hash that replaces `content_hash` if a document was read without an extra."""
    return hashlib.sha256(f"without {extra} {content_hash}".encode()).hexdigest()


def is_as_read_here(made: str, content_hash: str) -> bool:
    """Return whether a document stored under the hash `made` is current on this machine.

    A document that was read without an extra stays current until the extra is installed.
    """
    if made == content_hash:
        return True
    extra = missing_extra(made, content_hash)
    return bool(extra) and not is_installed(extra)


def missing_extra(made: str, content_hash: str) -> str:
    """Return the extra that was missing when a document was read, or "" if none was."""
    return next((e for e in MODULES if made == read_without(e, content_hash)), "")
