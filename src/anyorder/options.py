"""Options written once: a frozen dataclass with a help text per field, read by the facade, the commands and the docs.

>>> @dataclass(frozen=True)
... class FillOptions(Options):
...     top: int = option(5, "How many completions.", "-n", least=1)

``@takes(FillOptions)`` gives a method of the facade these keywords, so that type checkers and editors know them;
:func:`anyorder.cli.common.command` gives a command the same ones as ``--top``. Neither repeats a name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, Field, field, fields
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, cast, overload

from anyorder.errors import AnyorderError, choose
from anyorder.kinds import check_kind, kinds_of

P = ParamSpec("P")
S = TypeVar("S")
O = TypeVar("O")  # noqa: E741 - the options
R = TypeVar("R")
One = TypeVar("One", covariant=True)
Many = TypeVar("Many", covariant=True)

LARGEST_SEED = 2**63 - 1


def option(
    default: Any,
    help: str,
    *flags: str,
    least: float | None = None,
    most: float | None = None,
    above: float | None = None,
    below: float | None = None,
    choices: Sequence[str] = (),
    kind: type | None = None,
) -> Any:
    """A field of :class:`Options`.

    Args:
        default: Its value if nothing is said; ``...`` if it must be given.
        help: One sentence for ``--help`` and the docs.
        flags: How the command spells it, if not just ``--name``; a short one such as ``-n`` comes beside that.
        least: The smallest value.
        most: The largest value.
        above: What the value must be greater than.
        below: What the value must be less than.
        choices: The values there are.
        kind: The type the command takes, where Python takes more.
    """
    limits = {"least": least, "most": most, "above": above, "below": below}
    metadata = {"help": help, "flags": flags, "choices": tuple(choices), "kind": kind, **limits}
    return field(default=MISSING if default is ... else default, metadata=metadata)


def seed_option() -> Any:
    """The field that every random task has."""
    return option(0, "Seed of every random choice.", least=0, most=LARGEST_SEED)


def whole_numbers(given: int | str, name: str) -> list[int]:
    """``"1,2,4"`` as numbers, each at least 1."""
    try:
        numbers = [int(part) for part in str(given).split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1:
        raise AnyorderError(f"{name} are whole numbers from 1, with commas between them, such as 1,2,4, not {given!r}")
    return numbers


class Options:
    """The base of all options: their types, and the limits that fields name, are checked before any work."""

    def __post_init__(self) -> None:
        kinds = kinds_of(cast("Any", type(self)))
        for one in fields(cast("Any", self)):
            value = getattr(self, one.name)
            check_kind(one.name.replace("_", " "), value, kinds.get(one.name, ()))
            for part in value if isinstance(value, tuple) else (value,):
                if part is not None:
                    _check(one, part)


def _check(one: Field[Any], value: Any) -> None:
    name, rules = one.name.replace("_", " "), one.metadata
    if isinstance(value, str):
        check_text(value)
    if rules.get("choices"):
        choose(value, rules["choices"], name)
    tests = {
        "least": ("at least", lambda limit: value >= limit),
        "most": ("at most", lambda limit: value <= limit),
        "above": ("above", lambda limit: value > limit),
        "below": ("below", lambda limit: value < limit),
    }
    for rule, (words, holds) in tests.items():
        limit = rules.get(rule)
        if limit is not None and not holds(limit):
            raise AnyorderError(f"{name} must be {words} {limit}, not {value}")


def check_text(text: str) -> str:
    """``text`` if it is one and can be written as UTF-8; a terminal may pass bytes that cannot."""
    if not isinstance(text, str):
        raise AnyorderError(f"a text is a string, not {type(text).__name__}: convert it, or choose its column")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise AnyorderError(
            f"the text is not valid Unicode (character {error.start + 1}): convert it to UTF-8, for instance with iconv"
        ) from None
    return text


def check_texts(texts: Iterable[str]) -> list[str]:
    """Several texts, each of them checked."""
    if isinstance(texts, bytes) or not isinstance(texts, Iterable):
        raise AnyorderError(f"give a text or a list of texts, not {type(texts).__name__}")
    return [check_text(text) for text in texts]


def takes(options: Callable[P, O]) -> Callable[[Callable[[S, str, O], R]], Callable[Concatenate[S, str, P], R]]:
    """Let a method ``(self, text, options)`` be called with the options as keywords, ``(self, text, top=3)``."""

    def decorate(method: Callable[[S, str, O], R]) -> Callable[Concatenate[S, str, P], R]:
        @wraps(method)
        def call(self: S, text: str, *args: P.args, **keywords: P.kwargs) -> R:
            return method(self, check_text(text), options(*args, **keywords))

        return _described(call, options)

    return decorate


def takes_only(options: Callable[P, O]) -> Callable[[Callable[[S, O], R]], Callable[Concatenate[S, P], R]]:
    """As :func:`takes`, for a function whose text is one of its options."""

    def decorate(method: Callable[[S, O], R]) -> Callable[Concatenate[S, P], R]:
        @wraps(method)
        def call(self: S, *args: P.args, **keywords: P.kwargs) -> R:
            return method(self, options(*args, **keywords))

        return _described(call, options)

    return decorate


class _Bound(Protocol[P, R]):
    @overload
    def __call__(self, texts: str, /, *args: P.args, **keywords: P.kwargs) -> R: ...  # type: ignore[overload-overlap]  # a str is a sequence of str
    @overload
    def __call__(self, texts: Sequence[str], /, *args: P.args, **keywords: P.kwargs) -> list[R]: ...


class OneOrMany(Generic[P, R]):
    """The type of a method that answers a text with ``R`` and several with a list of them."""

    def __get__(self, instance: object, owner: type | None = None) -> _Bound[P, R]:
        """For type checkers only: at run time such a method is a plain function."""
        raise NotImplementedError


def takes_many(
    options: Callable[P, O],
) -> Callable[[Callable[[Any, str | list[str], O], list[R]]], OneOrMany[P, R]]:
    """As :func:`takes`, for a method over one text or several, with an answer for each: one text gets its own."""

    def decorate(method: Callable[[Any, str | list[str], O], list[R]]) -> OneOrMany[P, R]:
        @wraps(method)
        def call(self: Any, texts: str | Sequence[str], *args: P.args, **keywords: P.kwargs) -> Any:
            given = check_text(texts) if isinstance(texts, str) else check_texts(texts)
            answers = method(self, given, options(*args, **keywords))
            return answers[0] if isinstance(texts, str) else answers

        return cast("OneOrMany[P, R]", _described(call, options))

    return decorate


class _Prompted(Protocol[P, One, Many]):
    @overload
    def __call__(self, *args: P.args, **keywords: P.kwargs) -> One: ...
    @overload
    def __call__(self, prompts: list[str] | tuple[str, ...], /, *args: P.args, **keywords: P.kwargs) -> Many: ...


class PromptOrMany(Generic[P, One, Many]):
    """The type of a method whose text is its first option: ``One`` for a prompt, ``Many`` for a list of them.

    As of :class:`OneOrMany`, for type checkers only.
    """

    def __get__(self, instance: object, owner: type | None = None) -> _Prompted[P, One, Many]:
        """The method."""
        raise NotImplementedError


def takes_prompts(
    options: Callable[P, O],
) -> Callable[[Callable[[Any, list[str | None], O], list[R]]], PromptOrMany[P, R, list[R]]]:
    """As :func:`takes_many`, for a method whose text is the first of its options, and need not be there."""

    def decorate(method: Callable[[Any, list[str | None], O], list[R]]) -> PromptOrMany[P, R, list[R]]:
        @wraps(method)
        def call(self: Any, *args: Any, **keywords: Any) -> Any:
            prompts, ready = _prompts(options, args, keywords)
            return method(self, prompts, ready) if _several(args, keywords) else method(self, prompts, ready)[0]

        return cast("PromptOrMany[P, R, list[R]]", _described(call, options, given=1))

    return decorate


def takes_prompts_together(
    options: Callable[P, O],
) -> Callable[[Callable[[Any, list[str | None], O], R]], PromptOrMany[P, R, R]]:
    """As :func:`takes_prompts`, for a method with one answer for all of them."""

    def decorate(method: Callable[[Any, list[str | None], O], R]) -> PromptOrMany[P, R, R]:
        @wraps(method)
        def call(self: Any, *args: Any, **keywords: Any) -> Any:
            return method(self, *_prompts(options, args, keywords))

        return cast("PromptOrMany[P, R, R]", _described(call, options, given=1))

    return decorate


def _several(args: Sequence[Any], keywords: dict[str, Any]) -> bool:
    """Whether the first option is several texts."""
    return isinstance(args[0] if args else keywords.get("prompt"), list | tuple)


def _prompts(options: Any, args: Sequence[Any], keywords: dict[str, Any]) -> tuple[list[str | None], Any]:
    """The prompts, and the options without them."""
    if not _several(args, keywords):
        ready = options(*args, **keywords)
        return [ready.prompt], ready
    prompts = check_texts(args[0] if args else keywords["prompt"])
    return [*prompts], options(*args[1:], **{**keywords, "prompt": None})


def _described(call: Any, options: Any, given: int | None = None) -> Any:
    """``call`` with the signature and the help texts of its options, for ``help()`` and notebooks.

    ``given`` says how many of its own parameters remain beside them, if not all but the last.
    """
    first = list(inspect.signature(call.__wrapped__).parameters.values())[: given or -1]
    mine = inspect.signature(options).parameters.values()
    returns = inspect.signature(call.__wrapped__).return_annotation
    call.__signature__ = inspect.Signature([*first, *mine], return_annotation=returns)
    lines = "\n".join(f"            {one.name}: {one.metadata['help']}" for one in fields(options))
    call.__doc__ = f"{(call.__doc__ or '').rstrip()}\n\n        Options:\n{lines}\n"
    return call
