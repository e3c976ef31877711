"""Configure S3 clients by AWS's conventions, and explain their errors.

boto3 reads the environment, `~/.aws/config`, container and instance roles. The clients of Arrow and
Lance read fewer of these sources, so they get boto3's endpoint, region and addressing style. Each
client finds its credentials itself, because temporary credentials are renewed during a run.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from rag_pipeline.errors import ConfigError, StoreError
from rag_pipeline.store.lance import one_line

_ATTEMPTS = "6"
_LASTING = {
    "AccessDenied": "allow this action to the credentials in use",
    "AllAccessDisabled": "the bucket is closed: ask its owner",
    "ExpiredToken": "renew the credentials",
    "InvalidAccessKeyId": "check AWS_ACCESS_KEY_ID, the profile or the S3Resource",
    "InvalidBucketName": "check the bucket's name",
    "NoSuchBucket": "create the bucket or check its name",
    "PermanentRedirect": "the bucket is in another region: set AWS_REGION",
    "SignatureDoesNotMatch": "check AWS_SECRET_ACCESS_KEY or the S3Resource",
    "403": "allow this action to the credentials in use",
}
"""Error codes that a retry does not overcome, each with a remedy."""


def attempts() -> int:
    """Return the maximum number of attempts per request: AWS_MAX_ATTEMPTS, or 6 by default."""
    value = os.environ.get("AWS_MAX_ATTEMPTS") or _ATTEMPTS
    if not value.isdecimal() or int(value) < 1:
        raise ConfigError(f"AWS_MAX_ATTEMPTS: {value!r} is not a whole number of at least 1")
    return int(value)


def split_url(url: str) -> tuple[str, str]:
    """Split `s3://bucket/prefix/` into bucket and prefix. Raise ValueError for any other URL."""
    parts = urlsplit(url)
    if parts.scheme != "s3" or not parts.netloc or parts.query or parts.fragment:
        raise ValueError(f"{url!r} is not an address like s3://bucket/prefix")
    return parts.netloc, parts.path.strip("/")


def s3_client() -> Any:
    """Return boto3's S3 client. All threads share the client, and it retries transient errors."""
    return _client(tuple(sorted((k, v) for k, v in os.environ.items() if k.startswith("AWS_"))))


@cache
def _client(environment: tuple[tuple[str, str], ...]) -> Any:
    # AWS's variables are the cache key, so changed variables lead to a new client.
    import boto3
    from botocore.config import Config

    session = boto3.session.Session()
    given = session._session.get_scoped_config().get("s3", {})
    config = Config(
        retries={"mode": "standard", "total_max_attempts": attempts()},
        connect_timeout=10,
        read_timeout=60,
    )
    client = session.client("s3", config=config)
    if _is_own(client.meta.endpoint_url) and "addressing_style" not in given:
        # Servers other than AWS seldom resolve the host name bucket.host.
        client = session.client("s3", config=config.merge(Config(s3={"addressing_style": "path"})))
    return client


def _location() -> tuple[str, str, bool]:
    """Return boto3's endpoint, its region, and whether host names contain the bucket's name.

    The endpoint is "" for AWS, and the region is "" if none is set.
    """
    meta = s3_client().meta
    endpoint = meta.endpoint_url if _is_own(meta.endpoint_url) else ""
    style = (meta.config.s3 or {}).get("addressing_style")
    return endpoint, meta.region_name or "", style == "virtual"


def browser_address(address: str) -> str:
    """Return the URL at which a browser opens an object, in AWS's console or on another server."""
    bucket, _, key = address.removeprefix("s3://").partition("/")
    endpoint = _location()[0]
    console = "https://s3.console.aws.amazon.com/s3/object"
    return f"{endpoint}/{bucket}/{key}" if endpoint else f"{console}/{bucket}?prefix={key}"


def _is_own(endpoint: str) -> bool:
    host = urlsplit(endpoint).hostname or ""
    return not host.endswith((".amazonaws.com", ".amazonaws.com.cn"))


def is_lasting(error: Any) -> bool:
    """Return whether a ClientError of boto3 is permanent, so retries are useless."""
    code = error.response.get("Error", {}).get("Code", "")
    return code in _LASTING or code.endswith("AccessDeniedException")


def lance_options() -> dict[str, str]:
    """Return LanceDB's storage options for S3: boto3's endpoint, region and addressing style."""
    endpoint, region, virtual_hosts = _location()
    options = {"aws_region": region} if region else {}
    if endpoint:
        options |= {
            "aws_endpoint": endpoint,
            "allow_http": str(endpoint.startswith("http://")).lower(),
            "aws_virtual_hosted_style_request": str(virtual_hosts).lower(),
        }
    return options


def arrow_files() -> Any:
    """Return Arrow's S3 file system with boto3's endpoint, region and addressing style."""
    import pyarrow.fs as pafs

    endpoint, region, virtual_hosts = _location()
    options: dict[str, Any] = {"region": region} if region else {}
    if endpoint:
        parts = urlsplit(endpoint)
        options |= {
            "endpoint_override": parts.netloc,
            "scheme": parts.scheme,
            "force_virtual_addressing": virtual_hosts,
        }
    return pafs.S3FileSystem(
        retry_strategy=pafs.AwsStandardS3RetryStrategy(max_attempts=attempts()), **options
    )


@contextmanager
def clear_s3_errors(place: str, client: Any = None) -> Iterator[None]:
    """Turn boto3's errors inside the block into one-line errors with the place and a known remedy.

    Raise ConfigError if retries can't help, or else StoreError. `client` is the S3 client in use,
    by default the client of `s3_client`.
    """
    from boto3.exceptions import Boto3Error
    from botocore.exceptions import (
        BotoCoreError,
        ClientError,
        NoCredentialsError,
        NoRegionError,
        ProfileNotFound,
    )

    try:
        yield
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "")
        if code in _LASTING:
            raise ConfigError(f"{place}: {one_line(error)}; {_LASTING[code]}") from None
        raise StoreError(f"{place}: {one_line(error)}") from None
    except (NoCredentialsError, NoRegionError, ProfileNotFound) as error:
        raise ConfigError(
            f"{place}: {error}; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (or AWS_PROFILE) "
            f"and AWS_REGION, or run on a machine whose role provides them"
        ) from None
    except (BotoCoreError, Boto3Error) as error:
        tried = client.meta.config.retries["total_max_attempts"] if client else attempts()
        raise StoreError(f"{place}: {one_line(error)}; tried {tried} times") from None
