"""Query strings as types: each parameter is a field, with its limits and its description.

A number is checked as text first, since msgspec's lax mode takes `1e1` and `5.0` for an integer.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import inspect

from paymock.rules.errors import PaymockError

_INTEGER = re.compile("[0-9]{1,18}")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([Ee][+-]?[0-9]+)?")


class Query(msgspec.Struct, kw_only=True):
    """What all query strings share: parameters that the type does not name are refused."""


Q = TypeVar("Q", bound=Query)
Reader = Callable[[str], Any]
"""Returns the value of a parameter. Raises ValueError, whose message goes on after the name."""


class QueryParser(Generic[Q]):
    """Makes a `query_type` of the parameters of a query, of which `names` are known. Make it once and keep
    it.
    """

    def __init__(self, query_type: type[Q]) -> None:
        fields = msgspec.structs.fields(query_type)
        self.names = [field.name for field in fields]
        self._query_type = query_type
        self._readers = {field.name: _reader(inspect.type_info(field.type)) for field in fields}
        self._required = [field.name for field in fields if field.required]

    def __call__(self, parameters: Mapping[str, str]) -> Q:
        """Raises PaymockError `invalid_query` for the first parameter that is not acceptable."""
        for name in self._required:
            if name not in parameters:
                raise PaymockError("invalid_query", f"{name} is required.")
        values = {}
        for name, text in parameters.items():
            try:
                values[name] = self._readers[name](text)
            except ValueError as problem:
                raise PaymockError("invalid_query", f"{name} {problem}.") from None
        return self._query_type(**values)


def _reader(info: inspect.Type) -> Reader:
    match info:
        case inspect.Metadata(type=inner, extra=extra):
            return _checked(_reader(inner), (extra or {}).get("check"))
        case inspect.UnionType(types=types):
            return next(_reader(one) for one in types if not isinstance(one, inspect.NoneType))
        case inspect.IntType(ge=minimum, le=maximum):
            return _number(int, _INTEGER, minimum, maximum, "an integer")
        case inspect.FloatType(ge=minimum, le=maximum):
            return _number(float, _NUMBER, minimum, maximum, "a number of seconds")
        case inspect.EnumType(cls=values):
            return _choice([*values])
        case inspect.StrType(min_length=minimum, max_length=maximum):
            return _text(minimum or 0, maximum)
    raise TypeError(f"no reader for {info!r}")


def _number(kind: type[int | float], form: re.Pattern[str], minimum: Any, maximum: Any, noun: str) -> Reader:
    def read(text: str) -> int | float:
        if not form.fullmatch(text) or not minimum <= kind(text) <= maximum:
            raise ValueError(f"must be {noun} from {minimum:g} to {maximum:g}")
        return kind(text)

    return read


def _choice(allowed: list[str]) -> Reader:
    def read(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"must be one of {', '.join(allowed)}")
        return text

    return read


def _text(minimum: int, maximum: int | None) -> Reader:
    def read(text: str) -> str:
        if len(text) < minimum:
            raise ValueError("must not be empty")
        if maximum is not None and len(text) > maximum:
            raise ValueError(f"must have at most {maximum} characters")
        return text

    return read


def _checked(read: Reader, find_problem: Callable[[Any], str | None] | None) -> Reader:
    if find_problem is None:
        return read

    def read_and_check(text: str) -> Any:
        value = read(text)
        if problem := find_problem(value):
            raise ValueError(problem)
        return value

    return read_and_check
