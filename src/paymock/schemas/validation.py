"""Holds a decoded JSON value against a wire type and lists every problem, each under its dotted path.

The wire types are the only declaration: structure, lengths and enumerations come from the msgspec types,
and `Meta(extra={"check": function})` adds what a type cannot say. msgspec's own decoder stops at the first
problem, which would send developers through their mistakes one at a time.
"""

import operator
import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from paymock.rules.errors import PaymockError

_TYPE_NAMES: dict[type, str] = {str: "a string", dict: "an object", list: "an array"}

_ADDRESS = re.compile("0[xX][0-9a-fA-F]{40}")

Problems = dict[str, str]
"""What is wrong, by dotted field path; the first problem of a field stands for it."""

Checker = Callable[[Any, str, Problems], None]
"""Checks a value at a path and adds what is wrong with it."""

BODY = "body"
"""The path of the whole document, where no field can be named."""


B = TypeVar("B")

MAX_DETAILS = 100
"""How many problems a refusal lists: more would only repeat what is wrong with the sender."""


def decoded(check: Checker, body: Any, of: type[B]) -> B:
    """`body`, a decoded JSON value, as the wire type `of`. Raises PaymockError `validation_failed`."""
    problems: Problems = {}
    check(body, "", problems)
    if problems:
        raise validation_failed(problems)
    return msgspec.convert(body, of, strict=False)  # to JSON, 1.0 is an integer


def validation_failed(problems: Problems) -> PaymockError:
    """The refusal that lists `problems`, or the first hundred of them."""
    fields = "1 field is" if len(problems) == 1 else f"{len(problems)} fields are"
    listed = dict(islice(problems.items(), MAX_DETAILS))
    return PaymockError("validation_failed", f"{fields} not acceptable; see `details`.", details=listed)


def checker_for(wire_type: Any) -> Checker:
    """The checker of a wire type; make it once and keep it. Raises TypeError for a type that wire types do
    not use.
    """
    return _checker(inspect.type_info(wire_type))


def acceptor_for(of: type[B]) -> Callable[[Any], B | None]:
    """What makes a wire type of a decoded JSON value, or None of one that its checker may find problems in:
    much quicker than the checker, which says what they are. Make it once and keep it.
    """
    find_problem = _rule(inspect.type_info(of))

    def accept(value: Any) -> B | None:
        try:
            made = msgspec.convert(value, of)
        except msgspec.ValidationError:
            return None
        return made if find_problem is None or find_problem(made) is None else None

    return accept


Rule = Callable[[Any], str | None]
"""Says what is wrong with a value of the right structure, beyond what a type can say."""


def _rule(of: inspect.Type) -> Rule | None:
    """The rule of a type; None where there is none."""
    match of:
        case inspect.Metadata(type=inner, extra=extra):
            return _both(_rule(inner), (extra or {}).get("check"))
        case inspect.StructType():
            return _each_member(dict(_member_rules(of)))
        case inspect.ListType(item_type=item):
            return _each_item(_rule(item))
        case inspect.UnionType(types=types):
            return _unless_absent(next(filter(None, map(_rule, types)), None))
    return None


def _unless_absent(rule: Rule | None) -> Rule | None:
    return rule and (lambda value: None if value is None else rule(value))


def _both(first: Rule | None, second: Rule | None) -> Rule | None:
    if first is None or second is None:
        return first or second
    return lambda value: first(value) or second(value)


def _member_rules(of: inspect.StructType) -> Iterator[tuple[str, Rule]]:
    """The rules of members, and of what is in those that are always there, by dotted name."""
    for field in of.fields:
        inner = field.type.type if isinstance(field.type, inspect.Metadata) else field.type
        if isinstance(inner, inspect.StructType):
            yield from ((f"{field.name}.{name}", rule) for name, rule in _member_rules(inner))
        elif rule := _rule(field.type):
            yield field.name, rule


def _each_member(rules: dict[str, Rule]) -> Rule | None:
    if len(rules) < 2:  # of one name, attrgetter answers with the value alone
        return next((_of_member(name, rule) for name, rule in rules.items()), None)
    members_of, each = operator.attrgetter(*rules), [*rules.values()]
    return lambda value: next(filter(None, map(operator.call, each, members_of(value))), None)


def _of_member(name: str, rule: Rule) -> Rule:
    member_of = operator.attrgetter(name)
    return lambda value: rule(member_of(value))


def _each_item(rule: Rule | None) -> Rule | None:
    return None if rule is None else lambda value: next(filter(None, map(rule, value)), None)


def _checker(of: inspect.Type) -> Checker:
    match of:
        case inspect.Metadata(type=inner, extra=extra):
            return _and_also(_checker(inner), (extra or {}).get("check"))
        case inspect.StructType():
            return _struct(of)
        case inspect.ListType():
            return _list(of)
        case inspect.UnionType():
            (inner,) = (member for member in of.types if not isinstance(member, inspect.NoneType))
            return _nullable(_checker(inner))
        case inspect.StrType():
            return _string(of)
        case inspect.LiteralType(values=values):
            return _enumeration(list(values))
        case inspect.IntType() | inspect.FloatType():
            return _number(of)
        case inspect.DictType():
            return _instance_of(dict)
    raise TypeError(f"no checker for {of!r}")


def _instance_of(kind: type) -> Checker:
    def check(value: Any, path: str, problems: Problems) -> None:
        if not isinstance(value, kind):
            problems.setdefault(path or BODY, _wrong_type(_TYPE_NAMES[kind], value))

    return check


def _struct(of: inspect.StructType) -> Checker:
    members = {field.encode_name: (_checker(field.type), field.required) for field in of.fields}

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
        if value.keys() - members.keys():
            for name in value:
                if name not in members:
                    problems.setdefault(
                        prefix + _shortened(name), f"is not a field; known here: {', '.join(members)}"
                    )

    return check


def _list(of: inspect.ListType) -> Checker:
    check_item = _checker(of.item_type)
    least, most = of.min_length or 0, of.max_length

    def check(value: Any, path: str, problems: Problems) -> None:
        if not isinstance(value, list):
            problems.setdefault(path, _wrong_type("an array", value))
            return
        if len(value) < least or (most is not None and len(value) > most):
            problems.setdefault(path, f"must have {_range(least, most, 'item')}, not {len(value)}")
        for index, item in enumerate(value):
            check_item(item, f"{path}[{index}]", problems)

    return check


def _string(of: inspect.StrType) -> Checker:
    least, most = of.min_length or 0, of.max_length

    def check(value: Any, path: str, problems: Problems) -> None:
        if not isinstance(value, str):
            problems.setdefault(path, _wrong_type("a string", value))
        elif len(value) < least or (most is not None and len(value) > most):
            problems.setdefault(path, f"must have {_range(least, most, 'character')}, not {len(value)}")

    return check


def _number(of: inspect.IntType | inspect.FloatType) -> Checker:
    whole = isinstance(of, inspect.IntType)
    bounds = [
        (of.ge, "at least", operator.ge),
        (of.gt, "more than", operator.gt),
        (of.le, "at most", operator.le),
    ]
    asked = [(bound, words, holds) for bound, words, holds in bounds if bound is not None]
    limits = " and ".join(f"{words} {bound:,}" for bound, words, _ in asked)
    expected = f"must be {'an integer' if whole else 'a number'}, {limits}"

    def check(value: Any, path: str, problems: Problems) -> None:
        right_type = isinstance(value, int | float) and not isinstance(value, bool)
        if right_type and whole:
            right_type = float(value).is_integer()  # to JSON, 1.0 is an integer
        if not right_type or not all(holds(value, bound) for bound, _, holds in asked):
            problems.setdefault(path, expected)

    return check


def _enumeration(allowed: list[Any]) -> Checker:
    expected = "must be " + " or ".join(f'"{value}"' for value in allowed)

    def check(value: Any, path: str, problems: Problems) -> None:
        if not isinstance(value, str) or value not in allowed:
            problems.setdefault(path, expected)

    return check


def _nullable(check_inner: Checker) -> Checker:
    def check(value: Any, path: str, problems: Problems) -> None:
        if value is not None:
            check_inner(value, path, problems)

    return check


def _and_also(check_structure: Checker, find_problem: Callable[[Any], str | None] | None) -> Checker:
    if find_problem is None:
        return check_structure

    def check(value: Any, path: str, problems: Problems) -> None:
        before = len(problems)
        check_structure(value, path, problems)
        if value is not None and len(problems) == before and (problem := find_problem(value)):
            problems.setdefault(path, problem)

    return check


def _wrong_type(expected: str, value: Any) -> str:
    if value is None:
        return f"must be {expected}, not null"
    kind = {bool: "a boolean", int: "a number", float: "a number"}.get(type(value)) or _TYPE_NAMES[
        type(value)
    ]
    return f"must be {expected}, not {kind}"


def _range(least: int, most: int | None, unit: str) -> str:
    if least == most:
        return f"exactly {least} {unit}{'' if least == 1 else 's'}"
    return (
        f"{least} to {most} {unit}s"
        if most is not None
        else f"at least {least} {unit}{'' if least == 1 else 's'}"
    )


def _shortened(name: str) -> str:
    name = _ADDRESS.sub("0x***", name)  # an address is not repeated, even where it was sent as a name
    return name if len(name) <= 64 else name[:63] + "…"
