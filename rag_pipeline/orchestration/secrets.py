"""Keys from AWS Secrets Manager as environment variables, where `RAG_SECRETS` names secrets."""

import json
import os

from rag_pipeline.errors import ConfigError, StoreError


def load_secrets() -> list[str]:
    """Set the variables that the secrets of `RAG_SECRETS` hold; return their names.

    `RAG_SECRETS` is a list of secrets' names or ARNs, with commas between. A secret is a JSON
    object of variables, `{"OPENAI_API_KEY": "…"}`. Variables of the environment are not replaced.

    Raises ConfigError for a secret that is not there, may not be read, or is no such object.
    """
    named = [name.strip() for name in os.environ.get("RAG_SECRETS", "").split(",")]
    secrets = list(filter(None, named))
    if not secrets:
        return []

    from botocore.exceptions import BotoCoreError, ClientError

    from rag_pipeline.store.s3 import is_lasting

    loaded: list[str] = []
    for secret in secrets:
        try:
            values = _read(secret)
        except ClientError as error:
            message = f"RAG_SECRETS: {secret}: {error}"
            if error.response["Error"]["Code"] == "ResourceNotFoundException":
                raise ConfigError(f"{message}; create it or correct the name") from None
            raise (ConfigError if is_lasting(error) else StoreError)(message) from None
        except BotoCoreError as error:
            raise StoreError(f"RAG_SECRETS: {secret}: {error}") from None
        for name, value in values.items():
            if name not in os.environ:
                os.environ[name] = value
                loaded.append(name)
    return loaded


def _read(secret: str) -> dict[str, str]:
    import boto3

    # The value itself must not get into any message.
    text = boto3.client("secretsmanager").get_secret_value(SecretId=secret)
    try:
        values = json.loads(text.get("SecretString", ""))
    except ValueError:
        values = None
    if not isinstance(values, dict) or not all(isinstance(v, str) for v in values.values()):
        raise ConfigError(
            f'RAG_SECRETS: {secret}: not a JSON object of texts, like {{"OPENAI_API_KEY": "…"}}'
        )
    return values
