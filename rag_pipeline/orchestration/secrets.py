"""Load keys into environment variables from the AWS secrets that `RAG_SECRETS` names."""

import json
import os

from rag_pipeline.errors import ConfigError, StoreError


def load_secrets() -> list[str]:
    """Set the variables in the secrets that `RAG_SECRETS` names, and return the variables' names.

    `RAG_SECRETS` is a comma-separated list of names or ARNs of secrets. A secret is a JSON object
    of variables, such as `{"OPENAI_API_KEY": "…"}`. Existing variables are not replaced.

    Raise ConfigError for a secret that is missing, forbidden or not a JSON object of texts. Raise
    StoreError for an error of AWS that may pass.
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
