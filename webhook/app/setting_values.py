"""The forms of settings that are not a single value: lists, weights, ports."""

from typing import Annotated

from pydantic import BeforeValidator, Field
from pydantic_settings import NoDecode


def _split(value: object) -> object:
    """`a, b` -> ("a", "b"). The validation handles values that are not text."""
    if not isinstance(value, str):
        return value
    return tuple(part.strip() for part in value.split(",") if part.strip())


def _split_weights(value: object) -> object:
    """`cpu=1, memory=2` -> {"cpu": "1", "memory": "2"}."""
    if not isinstance(value, str):
        return value
    weights = {}
    for part in value.split(","):
        if part.strip():
            name, equals, weight = part.partition("=")
            if not equals:
                msg = f"{part.strip()!r} is not of the form resource=weight"
                raise ValueError(msg)
            weights[name.strip()] = weight.strip()
    return weights


# NoDecode: otherwise pydantic-settings expects JSON in the environment for all types other than scalars.
Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]
Weights = Annotated[dict[str, Annotated[int, Field(ge=1)]], NoDecode, BeforeValidator(_split_weights)]
Port = Annotated[int, Field(ge=0, le=65535)]
