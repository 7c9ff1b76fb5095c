"""What a client may say: pydantic models made from the options that the facade and the commands read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from typing import Annotated, Any, Literal, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, create_model
from pydantic import Field as PydanticField

from anyorder.serve.options import ServeOptions

MOST_TEXTS = 256  # texts of one request
LONGEST = 20_000  # characters of one text: tokenising more takes longer than any model holds

Text = Annotated[str, PydanticField(max_length=LONGEST)]
Texts = Text | Annotated[list[Text], PydanticField(min_length=1, max_length=MOST_TEXTS)]

# How an option says its limits, and how pydantic (and so the OpenAPI document) does.
_LIMITS = {"least": "ge", "most": "le", "above": "gt", "below": "lt"}

# An option as the commands write it, and the command before it where one is quoted.
_FLAG = re.compile(r"(anyorder (?:[a-z]+ )+(?:--[a-z-]+ \S+ )*)?--([a-z][a-z-]*)")
_SERVERS = {one.name.replace("_", "-") for one in fields(ServeOptions)}  # said when it is started, not in a body


class Request(BaseModel):
    """The base of all bodies: what is not known is refused, numbers are finite, nothing is converted."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


def body(
    name: str, options: type[Any], *, leave_out: tuple[str, ...] = (), at_most: Mapping[str, int] = {}, **own: Any
) -> type[Request]:
    """A body of the options' own fields, with their defaults, limits and help texts.

    Args:
        name: Of the model in the OpenAPI document.
        options: The dataclass.
        leave_out: Fields that a client says otherwise, or may not say.
        at_most: Limits of the server's, beyond those of the options.
        own: Further fields, as (type, default).
    """
    types = get_type_hints(options)
    said: dict[str, Any] = {
        one.name: _field(types[one.name], one, at_most.get(one.name))
        for one in fields(options)
        if one.name not in leave_out
    }
    return create_model(name, __base__=Request, __doc__=options.__doc__, **own, **said)


def read(request: BaseModel, options: type[Any]) -> Any:
    """The options that a body says; raises AnyorderError where they contradict each other."""
    given = {one.name: getattr(request, one.name) for one in fields(options) if hasattr(request, one.name)}
    # Equal options share a batch, so that they must be hashable.
    return options(**{name: tuple(one) if isinstance(one, list) else one for name, one in given.items()})


def as_a_body_says(text: str) -> str:
    """A sentence about options with their names as a body has them."""
    return _FLAG.sub(_named, text)


def _named(found: re.Match[str]) -> str:
    command, flag = found.groups()
    if command or flag in _SERVERS:
        return found[0]
    return "whole_words: false" if flag == "any-pieces" else flag.replace("-", "_")


def _field(kind: Any, one: Field[Any], most: int | None) -> tuple[Any, Any]:
    """One option as pydantic takes it."""
    rules = one.metadata
    limits = {_LIMITS[name]: rules[name] for name in _LIMITS if rules.get(name) is not None}
    if most is not None:
        limits["le"] = most
    if rules.get("choices"):
        kind = Literal[rules["choices"]] if one.default is not None else Literal[rules["choices"]] | None
    elif int in get_args(kind) and str in get_args(kind):  # several numbers are a command's: one answer for each
        kind, limits["ge"] = int | None, 1
    elif kind == tuple[str, ...]:
        kind = Annotated[list[Text], PydanticField(max_length=MOST_TEXTS)]
    elif rules.get("kind") is str:  # an order: its name, or the numbers themselves
        kind = Text | Annotated[list[int], PydanticField(max_length=LONGEST)] | (None if one.default is None else Text)
    elif kind in (str, str | None):
        kind = Text if kind is str else Text | None
    default = ... if one.default is MISSING else one.default
    return kind, PydanticField(default, description=as_a_body_says(rules["help"]), **limits)
