"""Validation of decoded JSON values and of queries against the msgspec types of `schemas`, with every problem
listed under its dotted path.

The types are the only declaration: they define structure, lengths and enumerations, and
`Meta(extra={"check": function})` adds what a type cannot express. There are two ways through them, which
must agree: a *converter*, fast, decides whether a value is valid and makes the struct; a *checker*, slow,
lists what is wrong with an invalid value. msgspec's own decoder stops at the first problem, so that a
developer would learn of one mistake at a time. To make either is slow: do it once for a type.
"""

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import inspect

from paymock.rules.errors import PaymockError
from paymock.schemas.json import shown_name
from paymock.schemas.public import Query

T = TypeVar("T")
Q = TypeVar("Q", bound=Query)

Problems = dict[str, str]
"""Problems by dotted field path, one for each field."""

Checker = Callable[[Any, str, Problems], None]
"""Checks the value at a path, and adds its problems."""

Check = Callable[[Any], str | None]
"""Returns the problem of a value that a type cannot express, or None."""

BODY = "body"
"""The path of the whole document."""

MAX_DETAILS = 100
"""The maximum number of problems in an error."""

_TYPE_NAMES: dict[type, str] = {
    str: "a string",
    dict: "an object",
    list: "an array",
    bool: "a boolean",
    int: "a number",
    float: "a number",
}
_INTEGER = re.compile("[0-9]{1,18}")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([Ee][+-]?[0-9]+)?")
"""Numbers in queries: msgspec's lax mode would take `1e1` and `5.0` for an integer."""


def validate(check: Checker, body: Any, wire_type: type[T]) -> T:
    """A decoded JSON value as `wire_type`. Raises PaymockError `validation_failed`."""
    problems: Problems = {}
    check(body, "", problems)
    if problems:
        raise validation_failed(problems)
    return msgspec.convert(body, wire_type, strict=False)  # in JSON, 1.0 is an integer


class QueryParser(Generic[Q]):
    """Makes a `query_type` of the parameters of a query, of which `names` are known."""

    def __init__(self, query_type: type[Q]) -> None:
        self._query_type, self._check = query_type, checker_for(query_type)
        self.names: list[str] = []
        self._numbers: dict[str, tuple[re.Pattern[str], Callable[[str], float]]] = {}
        self._expected: dict[str, str] = {}
        self._nonempty: set[str] = set()
        for field in msgspec.structs.fields(query_type):
            info = inspect.type_info(field.type)
            while isinstance(info, inspect.Metadata | inspect.UnionType):
                info = info.type if isinstance(info, inspect.Metadata) else info.types[0]
            self.names.append(field.name)
            match info:
                case inspect.IntType(ge=least, le=most):
                    self._numbers[field.name] = _INTEGER, int
                    self._expected[field.name] = f"must be an integer from {least} to {most}"
                case inspect.FloatType(ge=least, le=most):
                    self._numbers[field.name] = _NUMBER, float
                    self._expected[field.name] = f"must be a number of seconds from {least} to {most}"
                case inspect.StrType(min_length=least, max_length=most):
                    if least:
                        self._nonempty.add(field.name)
                    if most is not None:
                        self._expected[field.name] = f"must have at most {most} characters"

    def __call__(self, parameters: Mapping[str, str]) -> Q:
        """Raises PaymockError `invalid_query` for the first parameter that is not acceptable."""
        values: dict[str, Any] = dict(parameters)
        for name, (form, number) in self._numbers.items():
            if form.fullmatch(parameters.get(name, "")):
                values[name] = number(values[name])
        problems: Problems = {}
        self._check(values, "", problems)
        if problems:
            name, problem = next(iter(problems.items()))
            if name in self._nonempty and values.get(name) == "":
                problem = "must not be empty"
            elif name in values:
                problem = self._expected.get(name, problem)
            raise PaymockError("invalid_query", f"{name} {problem}.")
        return msgspec.convert(values, self._query_type)


def validation_failed(problems: Problems) -> PaymockError:
    """The error that lists `problems`, at most MAX_DETAILS of them."""
    fields = "1 field is" if len(problems) == 1 else f"{len(problems)} fields are"
    details = dict(islice(problems.items(), MAX_DETAILS))
    return PaymockError("validation_failed", f"{fields} not acceptable; see `details`.", details=details)


# Fast: converters, for valid values


def converter_for(wire_type: type[T]) -> Callable[[Any], T | None]:
    """Converts a decoded JSON value to `wire_type`; returns None where `checker_for` may find problems."""
    find_problem = _find_check(inspect.type_info(wire_type))

    def convert(value: Any) -> T | None:
        try:
            converted = msgspec.convert(value, wire_type)
        except msgspec.ValidationError:
            return None
        return converted if find_problem is None or find_problem(converted) is None else None

    return convert


def _find_check(info: inspect.Type) -> Check | None:
    """The check of a type and of all types in it, or None where there is none."""
    match info:
        case inspect.Metadata(type=inner, extra=extra):
            first, second = _find_check(inner), (extra or {}).get("check")
            if first is None or second is None:
                return first or second
            return lambda value: first(value) or second(value)
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
            of_item = _find_check(item)
            return of_item and (lambda value: next(filter(None, map(of_item, value)), None))
        case inspect.UnionType(types=types):
            of_type = next(filter(None, map(_find_check, types)), None)
            return of_type and (lambda value: None if value is None else of_type(value))
        case inspect.StructType():
            getters = [(operator.attrgetter(name), check) for name, check in _member_checks(info)]

            def find_problem(value: Any) -> str | None:
                for get_member, check in getters:
                    if problem := check(get_member(value)):
                        return problem
                return None

            return find_problem if getters else None
    return None


def _member_checks(info: inspect.StructType) -> Iterator[tuple[str, Check]]:
    """The checks of members, and of members of nested structs that are never None, by dotted name."""
    for field in info.fields:
        inner = field.type.type if isinstance(field.type, inspect.Metadata) else field.type
        if isinstance(inner, inspect.StructType):
            yield from ((f"{field.name}.{name}", check) for name, check in _member_checks(inner))
        elif check := _find_check(field.type):
            yield field.name, check


# Slow: checkers, for invalid values


def checker_for(wire_type: Any) -> Checker:
    """Raises TypeError for a type that schemas do not use."""
    return _checker(inspect.type_info(wire_type))


def _checker(info: inspect.Type) -> Checker:
    match info:
        case inspect.Metadata(type=inner, extra=extra):
            return _with_check(inner, (extra or {}).get("check"))
        case inspect.StructType():
            return _struct(info)
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
            return _sized(info, list, "item", _checker(item))
        case inspect.UnionType(types=types):
            members = [_checker(member) for member in types if not isinstance(member, inspect.NoneType)]
            is_choice = len(members) > 1  # between types, such as an integer or a string: its `check` decides

            def check(value: Any, path: str, problems: Problems) -> None:
                if value is not None and not is_choice:
                    members[0](value, path, problems)
                elif value is None and is_choice:
                    problems.setdefault(path, "must not be null")

            return check
        case inspect.StrType():
            return _sized(info, str, "character")
        case inspect.LiteralType(values=values):
            return _enumeration(values, " or ".join(f'"{value}"' for value in values))
        case inspect.EnumType(cls=values):
            return _enumeration([*values], f"one of {', '.join(values)}")
        case inspect.IntType() | inspect.FloatType():
            return _number(info)
        case inspect.DictType():
            return _instance_of(dict)
        case inspect.BoolType():
            return _instance_of(bool)
    raise TypeError(f"no checker for {info!r}")


def _instance_of(kind: type) -> Checker:
    def check(value: Any, path: str, problems: Problems) -> None:
        if not isinstance(value, kind):
            problems.setdefault(path or BODY, _wrong_type(_TYPE_NAMES[kind], value))

    return check


def _struct(info: inspect.StructType) -> Checker:
    members = {field.encode_name: (_checker(field.type), field.required) for field in info.fields}
    gone = getattr(info.cls, "gone", {})  # the fields of earlier versions, and what to use in their place

    def check(value: Any, path: str, problems: Problems) -> None:
        if not isinstance(value, dict):
            problems.setdefault(path or BODY, _wrong_type("an object", value))
            return
        prefix = path + "." if path else ""
        for name, (check_member, required) in members.items():
            if name in value:
                check_member(value[name], prefix + name, problems)
            elif required:
                problems.setdefault(prefix + name, "is required")
        for name in value:
            if name not in members:
                problem = gone.get(name) or f"is not a field; known here: {', '.join(members)}"
                problems.setdefault(prefix + shown_name(name), problem)

    return check


def _sized(
    info: inspect.ListType | inspect.VarTupleType | inspect.StrType,
    kind: type[list[Any] | str],
    unit: str,
    check_item: Checker | None = None,
) -> Checker:
    minimum, maximum = info.min_length or 0, info.max_length
    if maximum is None:
        limits = f"at least {minimum} {unit}{'s' * (minimum != 1)}"
    elif minimum == maximum:
        limits = f"exactly {minimum} {unit}{'s' * (minimum != 1)}"
    else:
        limits = f"{minimum} to {maximum} {unit}s"

    def check(value: Any, path: str, problems: Problems) -> None:
        if not isinstance(value, kind):
            problems.setdefault(path, _wrong_type(_TYPE_NAMES[kind], value))
            return
        if len(value) < minimum or (maximum is not None and len(value) > maximum):
            problems.setdefault(path, f"must have {limits}, not {len(value)}")
        if check_item is not None:
            for index, item in enumerate(value):
                check_item(item, f"{path}[{index}]", problems)

    return check


def _number(info: inspect.IntType | inspect.FloatType) -> Checker:
    whole = isinstance(info, inspect.IntType)
    bounds = [
        (info.ge, "at least", operator.ge),
        (info.gt, "more than", operator.gt),
        (info.le, "at most", operator.le),
    ]
    limits = [(bound, words, holds) for bound, words, holds in bounds if bound is not None]
    limits_text = " and ".join(f"{words} {bound:,}" for bound, words, _ in limits)
    expected = f"must be {'an integer' if whole else 'a number'}, {limits_text}"

    def check(value: Any, path: str, problems: Problems) -> None:
        right_type = isinstance(value, int | float) and not isinstance(value, bool)
        if right_type and whole:
            right_type = float(value).is_integer()  # in JSON, 1.0 is an integer
        if not right_type or not all(holds(value, bound) for bound, _, holds in limits):
            problems.setdefault(path, expected)

    return check


def _enumeration(allowed: Sequence[Any], described: str) -> Checker:
    def check(value: Any, path: str, problems: Problems) -> None:
        if not isinstance(value, str) or value not in allowed:
            problems.setdefault(path, f"must be {described}")

    return check


def _with_check(info: inspect.Type, find_problem: Check | None) -> Checker:
    check_structure, is_text = _checker(info), isinstance(info, inspect.StrType)
    if find_problem is None:
        return check_structure

    def check(value: Any, path: str, problems: Problems) -> None:
        count = len(problems)
        check_structure(value, path, problems)
        if is_text and type(value) in (int, float):
            if problem := find_problem(str(value)):
                problems[path] += f", and {problem}"  # or the next refusal would say it
        elif value is not None and len(problems) == count and (problem := find_problem(value)):
            problems.setdefault(path, problem)

    return check


def _wrong_type(expected: str, value: Any) -> str:
    if value is None:
        return f"must be {expected}, not null"
    actual = _TYPE_NAMES.get(type(value), "a date or a time")  # which TOML has, and JSON has not
    return f"must be {expected}, not {actual}"
