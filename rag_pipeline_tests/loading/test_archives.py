"""Documents in ZIP archives, and the reasons for refusing members."""

import zipfile
from email.message import EmailMessage
from pathlib import Path

import pytest

from rag_pipeline import indexing
from rag_pipeline.datamodels import Document
from rag_pipeline.indexing import read_documents
from rag_pipeline.loading.originals import read_original
from rag_pipeline_tests.testing.formats import packed, pdf_bytes
from rag_pipeline_tests.testing.scanning import outcomes, workspace_of

LINES = b'{"id": "first", "text": "The first record."}\n{"text": "The second record."}\n'


def texts(folder: Path, **settings: object) -> dict[str, str]:
    found = outcomes(folder, **settings)
    return {name: d.text if isinstance(d, Document) else d for name, d in found.items()}


def test_members_are_documents_under_the_archives_name(tmp_path):
    members = {
        "rules/fees.txt": b"Fees are due.",
        "lease.pdf": pdf_bytes("The rent is due."),
        "records.jsonl": LINES,
        "table.json": b'{"rent": 5}',
        "empty/": b"",
        "__MACOSX/._fees.txt": b"x",
        ".hidden": b"x",
        "notes.tmp": b"x",
    }
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "Set.ZIP").write_bytes(packed(members))
    assert texts(tmp_path, exclude=("**/*.tmp",)) == {
        "deep/Set.ZIP/lease.pdf": "The rent is due.",
        "deep/Set.ZIP/records.jsonl:2": "The second record.",
        "deep/Set.ZIP/rules/fees.txt": "Fees are due.",
        "deep/Set.ZIP/table.json": '{"rent": 5}',
        "first": "The first record.",
    }
    document = outcomes(tmp_path)["deep/Set.ZIP/rules/fees.txt"]
    assert isinstance(document, Document)
    assert document.metadata["folder"] == "deep/Set.ZIP/rules"


def nested() -> bytes:
    return packed({"inner.zip": packed({"a.txt": b"Fees"}), "b.txt": b"Rent"})


def encrypted() -> bytes:
    raw = bytearray(packed({"a.txt": b"Fees"}, zipfile.ZIP_STORED))
    raw[6] |= 1  # the flag of the member's own head
    raw[raw.index(b"PK\1\2") + 8] |= 1
    return bytes(raw)


def damaged() -> bytes:
    raw = packed({"a.txt": b"Fees are due", "b.txt": b"Rent"}, zipfile.ZIP_STORED)
    return raw.replace(b"Fees are due", b"Fees are dxe")


def test_attachments_of_a_mail_are_documents_under_its_name(tmp_path):
    inner = EmailMessage()
    inner["Subject"] = "Forwarded"
    inner.set_content("Rings come in May.")
    inner.add_attachment("a,b", filename="deeper.csv")
    mail = EmailMessage()
    mail["Subject"] = "Stock"
    mail.set_content("See the list.")
    mail.add_related(b"GIF89a", "image", "gif", cid="<logo>")
    mail.add_attachment("item,quantity\nring,38\n", subtype="csv", filename="../stock.csv")
    mail.add_attachment("item\nbolt\n", subtype="csv", filename="stock.csv")
    mail.add_attachment(LINES, "application", "jsonl", filename="records.jsonl")
    mail.add_attachment(packed({"a.txt": b"x"}), "application", "zip", filename="set.zip")
    mail.add_attachment(b"GIF89a", "image", "gif", filename="photo.gif")
    mail.add_attachment(b"", "application", "pgp-signature", filename="signature.asc")
    mail.add_attachment(inner)
    (tmp_path / "m.eml").write_bytes(mail.as_bytes())
    found = texts(tmp_path)
    assert "See the list." in found.pop("m.eml")
    assert "Rings come in May." in found.pop("m.eml/message.eml")
    assert found == {
        "first": "The first record.",
        "m.eml/photo.gif": "unsupported type .gif: a GIF image",
        "m.eml/records.jsonl:2": "The second record.",
        "m.eml/set.zip": "an archive inside a mail is not opened; save it beside the mail",
        "m.eml/stock (2).csv": "item\nbolt\n",
        "m.eml/stock.csv": "item,quantity\nring,38\n",
    }
    nested = outcomes(tmp_path)["m.eml/message.eml"]
    assert isinstance(nested, Document)
    assert nested.metadata["unseen"] == '{"attachments": 1}'


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"PK not a zip", {"a.zip": "corrupt .zip: File is not a zip file"}),
        (packed({}), {"a.zip": "empty: it has no documents"}),
        (packed({"x/": b""}), {"a.zip": "empty: it has no documents"}),
        (
            nested(),
            {
                "a.zip/inner.zip": "an archive inside an archive is not opened; unpack it",
                "a.zip/b.txt": "Rent",
            },
        ),
        (encrypted(), {"a.zip/a.txt": "encrypted in its .zip: save it without a password"}),
        (
            packed({"../a.txt": b"x", "/b.txt": b"x", "C:\\c.txt": b"x", "d.txt": b"Rent"}),
            {
                **dict.fromkeys(
                    ("a.zip/../a.txt", "a.zip//b.txt", "a.zip/C:\\c.txt"),
                    "its name leads out of the .zip or has invisible characters; pack it again",
                ),
                "a.zip/d.txt": "Rent",
            },
        ),
        (
            damaged(),
            {"a.zip/a.txt": "corrupt in its .zip: Bad CRC-32 for file 'a.txt'",
             "a.zip/b.txt": "Rent"},
        ),
        (
            packed({"a.txt": bytes(11_000_000)}),
            {"a.zip": "possible zip bomb: {size:,} bytes of .zip unpack to 11,000,000"},
        ),
        (
            packed({f"{n}.txt": b"" for n in range(10_001)}, zipfile.ZIP_STORED),
            {"a.zip": "possible zip bomb: it has 10,001 files, more than 10,000"},
        ),
    ],
    ids=["no zip", "nothing", "folders", "nested", "encrypted", "outside", "damaged", "bomb",
         "many"],
)  # fmt: skip
def test_only_unusable_members_are_refused(tmp_path, raw, expected):
    (tmp_path / "a.zip").write_bytes(raw)
    (tmp_path / "good.txt").write_text("Good")
    wanted = {name: reason.format(size=len(raw)) for name, reason in expected.items()}
    assert texts(tmp_path) == {**wanted, "good.txt": "Good"}


def test_a_large_member_is_refused_and_a_large_archive_is_not(tmp_path):
    members = {"a.txt": b"Fees are due", "b.txt": b"twelve bytes and more"}
    (tmp_path / "a.zip").write_bytes(packed(members, zipfile.ZIP_STORED))
    assert texts(tmp_path, max_bytes=12) == {
        "a.zip/a.txt": "Fees are due",
        "a.zip/b.txt": "oversized: 21 bytes are more than documents.max_bytes, 12",
    }


def test_only_changed_members_are_stale(tmp_path):
    folder = tmp_path / "documents"
    folder.mkdir()
    lease = pdf_bytes("The rent is due.")
    (folder / "a.zip").write_bytes(packed({"a.txt": b"Fees", "lease.pdf": lease}))
    workspace = workspace_of(tmp_path)
    assert indexing.update_documents(workspace).documents == 2
    assert indexing.plan_documents(workspace).is_current
    (document,) = read_documents(workspace, ["a.zip/lease.pdf"])
    assert read_original(document, workspace.config.documents, folder) == lease
    (folder / "a.zip").write_bytes(packed({"a.txt": b"New fees", "lease.pdf": lease}))
    assert indexing.plan_documents(workspace).stale == ("a.zip/a.txt",)
    (folder / "a.zip").unlink()
    (folder / "b.txt").write_text("Rent")
    plan = indexing.plan_documents(workspace)
    assert (plan.stale, plan.orphaned) == (("b.txt",), ("a.zip/a.txt", "a.zip/lease.pdf"))


def test_an_archive_in_a_bucket_is_a_folder_too(bucket, tmp_path):
    import boto3

    lease = pdf_bytes("The rent is due.")
    members = {"lease.pdf": lease, "records.jsonl": LINES}
    client = boto3.client("s3")
    client.put_object(Bucket="bucket", Key="raw/x/a.zip", Body=packed(members))
    workspace = workspace_of(tmp_path, s3="s3://bucket/raw")
    assert indexing.update_documents(workspace).documents == 3
    assert indexing.plan_documents(workspace).is_current
    assert sorted(workspace.documents().state()) == [
        "first", "x/a.zip/lease.pdf", "x/a.zip/records.jsonl:2",
    ]  # fmt: skip
    (document,) = read_documents(workspace, ["x/a.zip/lease.pdf"])
    assert read_original(document, workspace.config.documents, tmp_path) == lease
