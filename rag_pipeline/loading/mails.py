"""Convert mails to Markdown, and find their attachments."""

import mimetypes
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from rag_pipeline.datamodels import MetadataValue
from rag_pipeline.errors import DocumentError
from rag_pipeline.loading.folder import UNSAFE
from rag_pipeline.loading.formats import Parsed
from rag_pipeline.loading.html import html_text
from rag_pipeline.loading.text import one_line
from rag_pipeline.loading.unseen import ATTACHMENTS

if TYPE_CHECKING:
    from email.message import EmailMessage, MIMEPart

_FIELDS = ("From", "To", "Cc", "Date", "Subject")
_MAX_FIELD = 10_000
_LEAST_SAID = 0.5
"""Share of the HTML's words (0 to 1) from which a mail's plain text is read instead of the HTML."""
_WORD = re.compile(r"\w{2,}")
_SIGNATURES = ("pgp-signature", "pgp-keys", "pkcs7-signature", "x-pkcs7-signature")


def is_mail(name: str) -> bool:
    """Return whether a file name has the suffix of a mail (RFC 5322)."""
    return name.lower().endswith(".eml")


def attachments(raw: bytes) -> list[tuple[str, bytes]]:
    """Return the name and bytes of each attachment of a mail.

    Omit signatures and images inside the text. Equal names get a number. Names have no folders and
    no invisible characters.
    """
    return [(name, _content(part)) for name, part in _attached(_message(raw))]


@cache
def _policy() -> Any:
    from email.policy import EmailPolicy  # slow to import

    class Bounded(EmailPolicy):
        """A policy that reads 10,000 characters per field, because `email` takes quadratic time."""

        def header_fetch_parse(self, name: str, value: str) -> Any:
            return super().header_fetch_parse(name, value[:_MAX_FIELD])

    return Bounded()


def _message(raw: bytes) -> "EmailMessage":
    from email import message_from_bytes

    message: EmailMessage = message_from_bytes(raw, policy=_policy())
    return message


def _attached(message: "EmailMessage") -> "list[tuple[str, MIMEPart]]":
    found: dict[str, MIMEPart] = {}
    body = message.get_body(("plain",))
    for part in _leaves(message):
        name = PurePosixPath((part.get_filename() or "").replace("\\", "/")).name
        kind, subtype = part.get_content_maintype(), part.get_content_subtype()
        is_inline = part.get_content_disposition() != "attachment"
        is_body = part is body or subtype != "plain" or not _content(part).strip()
        is_text = kind == "text" and not name and is_body
        if (is_inline and (is_text or kind == "image")) or subtype in _SIGNATURES:
            continue
        if part.get_content_type() == "message/rfc822" and not is_mail(name):
            name = f"{name or 'message'}.eml"
        name = UNSAFE.sub("_", one_line(name)).strip(". ")
        suffix = mimetypes.guess_extension(part.get_content_type()) or ""
        path = PurePosixPath(name or f"attachment{suffix}")
        name, number = path.name, 1
        while name in found:
            number += 1
            name = f"{path.stem} ({number}){path.suffix}"
        found[name] = part
    return list(found.items())


def _leaves(message: "MIMEPart") -> "Iterator[MIMEPart]":
    """Yield the parts without inner parts. An attached mail is one part."""
    pending: list[MIMEPart] = [message]
    while pending:
        part = pending.pop()
        if part.get_content_maintype() == "multipart" and part.is_multipart():
            pending += reversed(list(part.iter_parts()))
        else:
            yield part


def _content(part: "MIMEPart") -> bytes:
    inner: Any = part.get_payload()
    if isinstance(inner, list):  # a mail
        return b"\n".join(one.as_bytes() for one in inner)
    return bytes(part.get_payload(decode=True) or b"")


def read_mail(document_id: str, raw: bytes, is_member: bool) -> Parsed:
    """Return the fields, text and attachment names of a mail (RFC 5322).

    `is_member` says whether the mail is inside an archive or another mail. Its attachments are then
    counted instead of read.
    """
    message = _message(raw)
    fields = {name: one_line(str(v)) for name in _FIELDS if (v := message[name])}
    if not fields:
        raise DocumentError(document_id, "not a mail: it has no From, To, Cc, Date or Subject")
    plain = _mail_text(document_id, message, "plain")
    try:
        html = _mail_text(document_id, message, "html")
    except DocumentError:
        if not plain.strip():
            raise
        html = ""
    text, unseen = _fuller_text(document_id, plain, html)
    names = [name for name, _ in _attached(message)]
    unseen[ATTACHMENTS] = is_member * len(names)
    sent = getattr(message["Date"], "datetime", None)
    return _mail(fields, text, names, sent.date().isoformat() if sent else "", unseen)


def _fuller_text(document_id: str, plain: str, html: str) -> tuple[str, Counter[str]]:
    """Return a mail's plain text, or its HTML's text if the plain text lacks most of the words."""
    # Both should say the same, and the HTML is more faithful (RFC 2046, section 5.1.4).
    unseen: Counter[str] = Counter()
    if not html.strip():
        return plain, unseen
    text = html_text(document_id, html.encode(), unseen)
    said, written = (set(_WORD.findall(one.casefold())) for one in (plain, text))
    if plain.strip() and len(said & written) >= _LEAST_SAID * len(written):
        return plain, Counter()
    return text, unseen


def _mail_text(document_id: str, message: "EmailMessage", subtype: str) -> str:
    body = message.get_body((subtype,))
    if body is None:
        return ""
    try:
        return str(body.get_content())
    except LookupError:  # a charset that Python does not know, such as "unknown-8bit"
        pass
    try:
        return _content(body).decode()
    except UnicodeDecodeError:
        charset = body.get_param("charset")
        raise DocumentError(
            document_id, f"its charset {charset!r:.80} is unknown; save it as UTF-8"
        ) from None


def _mail(
    fields: dict[str, str], text: str, attached: list[str], date: str, unseen: Counter[str]
) -> Parsed:
    heads = [f"{name}: {value}" for name, value in fields.items()]
    names = [one_line(name) or "unnamed" for name in attached]
    heads += [f"Attachments: {', '.join(names)}"] if names else []
    metadata: dict[str, MetadataValue] = {
        name.lower(): fields[name] for name in ("From", "To") if name in fields
    }
    if date:
        metadata["date"] = date
    title = fields.get("Subject", "")
    return Parsed("\n".join([*heads, "", text]), title, metadata=metadata, unseen=unseen)


def read_outlook_mail(document_id: str, raw: bytes) -> Parsed:
    """Return the fields, text and attachment names of an Outlook mail."""
    from oxmsg import Message

    message = Message.load(raw)
    headers = message.message_headers
    people = [
        f"{one.name} <{one.email_address}>" if one.name != one.email_address else one.name
        for one in message.recipients
    ]
    sent = message.sent_date
    given = {
        "From": message.sender,
        "To": headers.get("To") or ", ".join(people),
        "Cc": headers.get("Cc"),
        "Date": headers.get("Date") or (f"{sent:%a, %d %b %Y %H:%M:%S %z}" if sent else ""),
        "Subject": message.subject,
    }
    fields = {name: one_line(value) for name, value in given.items() if value}
    text, unseen = _fuller_text(document_id, message.body or "", message.html_body or "")
    if not fields and not text.strip():
        raise DocumentError(document_id, "not a mail: it has no sender, no subject and no text")
    names = [one.file_name or "" for one in message.attachments]
    unseen[ATTACHMENTS] = len(names)
    day = sent.date().isoformat() if sent else ""
    return _mail(fields, text.replace("\r\n", "\n"), names, day, unseen)
