"""Both documents mean the same to every language: patterns, enumerations, types. Names are those of the
generated clients, which compile: tests/generated_clients.

Of patterns, samples with a line feed at the end are left out: `$` also matches before it in Python, and
no anchor means the end of the text in all engines.
"""

import json
import re
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from textwrap import dedent
from time import process_time
from timeit import Timer
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paymock.schemas.fields import ORDER_ID_PATTERN
from scripts.openapi.documents import CONTROL_API, PUBLIC_API
from scripts.openapi.generator import document
from tests.support.contract import Json

DOCUMENTS = {api.title: document(api) for api in (PUBLIC_API, CONTROL_API)}
each_document = pytest.mark.parametrize("title", DOCUMENTS)


ENGINES = {
    "ECMAScript": (
        ["node", "matches.cjs"],
        """
        const cases = JSON.parse(require("fs").readFileSync(0, "utf8"));
        console.log(JSON.stringify(cases.map(([pattern, text]) => new RegExp(pattern, "u").test(text))));
        """,
    ),
    "PCRE": (
        ["php", "matches.php"],
        r"""
        <?php
        $cases = json_decode(stream_get_contents(STDIN));
        echo json_encode(array_map(fn($case) => preg_match("\x01$case[0]\x01u", $case[1]) === 1, $cases));
        """,
    ),
    "RE2": (
        ["go", "run", "matches.go"],
        """
        package main

        import ("encoding/json"; "os"; "regexp")

        func main() {
            var cases [][]string
            json.NewDecoder(os.Stdin).Decode(&cases)
            results := []bool{}
            for _, one := range cases {
                results = append(results, regexp.MustCompile(one[0]).MatchString(one[1]))
            }
            json.NewEncoder(os.Stdout).Encode(results)
        }
        """,
    ),
}
"""Programs that read pairs of pattern and text, as JSON, and print as JSON which match."""

RUBY = r"""
require "json"
PATTERNS = {%s}
puts JSON.generate(JSON.parse(STDIN.read).map { |pattern, text| PATTERNS[pattern].match?(text) })
"""
"""The same, with the patterns as literals, as generated clients have them: they are read with the program."""

ODD = [
    "", "\0", "\t", "\x1f", "\x7f", "\x85", "\x9f", "\xa0", "ß", "é", "\u2028", "中", "😀", '"',
    "\\", "]", "[", "^", "-",
]  # fmt: skip
"""Characters that engines treat in different ways, and the empty text."""


def schemas_in(node: Any) -> Iterator[Json]:
    """Yield each object in a part of a document that is not an example."""
    if isinstance(node, dict):
        yield node
        for name, value in node.items():
            if name not in ("example", "examples"):
                yield from schemas_in(value)
    elif isinstance(node, list):
        for item in node:
            yield from schemas_in(item)


PATTERNS = sorted(
    {
        schema["pattern"]
        for whole in DOCUMENTS.values()
        for schema in schemas_in(whole)
        if isinstance(schema.get("pattern"), str)
    }
)


def samples(pattern: str) -> list[str]:
    """Return texts that match a pattern, and texts that differ from them in one odd character."""
    texts: set[str] = set(ODD)

    @settings(max_examples=40, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(st.from_regex(pattern), st.sampled_from(ODD), st.integers(0, 200))
    def collect(text: str, odd: str, place: int) -> None:
        texts.update((text, text[:place] + odd + text[place:], text[:place] + odd + text[place + 1 :]))

    collect()
    return sorted(text for text in texts if not text.endswith("\n"))


@pytest.mark.parametrize(
    "engine",
    [
        pytest.param("ECMAScript", marks=pytest.mark.node),
        pytest.param("PCRE", marks=pytest.mark.php),
        pytest.param("RE2", marks=pytest.mark.go),
        pytest.param("Ruby", marks=pytest.mark.ruby),
    ],
)
def test_every_pattern_means_the_same_as_in_python(engine: str, tmp_path: Path) -> None:
    cases = [(pattern, text) for pattern in PATTERNS for text in samples(pattern)]
    if engine == "Ruby":  # to which ^ and $ are the ends of lines
        cases = [(pattern, text) for pattern, text in cases if "\n" not in text]
        literals = (f"{json.dumps(one)} => /{one.replace('/', chr(92) + '/')}/" for one in PATTERNS)
        ENGINES[engine] = ["ruby", "-w", "matches.rb"], RUBY % ", ".join(literals)
    expected = [re.search(pattern, text) is not None for pattern, text in cases]
    assert len({*cases}) > 500
    assert {True, False} == {*expected}
    command, source = ENGINES[engine]
    (tmp_path / command[-1]).write_text(dedent(source).strip(), encoding="utf-8")
    output = subprocess.check_output(command, input=json.dumps(cases), cwd=tmp_path, text=True)
    found = zip(cases, expected, json.loads(output), strict=True)
    assert not [case for case, one, other in found if one != other]


def test_a_pattern_uses_only_what_all_engines_have() -> None:
    """A look-around, a class such as `\\d`, which differs in its digits, or an escape that not all read."""
    for pattern in PATTERNS:
        assert re.fullmatch(r"\^.*\$", pattern)
        escapes = set(re.findall(r"\\(x[0-9a-f]{2}|.)", pattern))
        assert all(re.fullmatch(r"x[0-9a-f]{2}|[\[\].]", escape) for escape in escapes), pattern
        assert "(?" not in pattern
        assert re.fullmatch("[ -~]+", pattern)


def test_every_pattern_takes_linear_time() -> None:
    """No repetition is in a repeated group; and ten times the text takes about ten times the time."""
    for pattern in PATTERNS:
        assert not re.search(r"[*+}|][^()]*\)[*+{]", re.sub(r"\[[^]]*\]", "c", pattern)), pattern
        for start in ("", "0x", "http://", "pay_"):
            for part in ("a", "0", ".", "Ã©", "a.", "/"):
                texts = (f"{start}{part * count}\0" for count in (200, 2_000))
                searches = (partial(re.compile(pattern).search, text) for text in texts)
                short, long = (min(Timer(search, timer=process_time).repeat(5, 20)) for search in searches)
                assert long < 50 * short, (pattern, start, part)


def test_the_pattern_of_order_ids_refuses_the_control_characters_of_ascii_by_characters_and_by_bytes() -> (
    None
):
    """The second is what generated clients for PHP do."""
    for text in (
        f"a{chr(code)}{end}" for code in (*range(0x3000), 0xFFFD, 0x1F600, 0x10FFFF) for end in "b中"
    ):
        is_valid = not re.search(r"[\x00-\x1f\x7f]", text)
        assert bool(re.search(ORDER_ID_PATTERN, text)) == is_valid, ascii(text)
        assert bool(re.search(ORDER_ID_PATTERN.encode(), text.encode())) == is_valid, ascii(text)


@each_document
def test_every_enumeration_and_every_variant_of_a_choice_has_a_name(title: str) -> None:
    """Generators would invent one. A value or null is a type with `null`, or a name or null."""
    named = DOCUMENTS[title]["components"]["schemas"].values()
    for schema in schemas_in(DOCUMENTS[title]):
        if isinstance(schema.get("enum"), list):
            assert any(schema is component for component in named), schema
            assert schema["type"] == "string"
        for choice in ("anyOf", "oneOf", "allOf"):
            for variant in schema.get(choice, ()):
                assert {*variant} == {"$ref"} or variant == {"type": "null"}, schema


@each_document
def test_every_value_of_an_enumeration_makes_a_name(title: str) -> None:
    """Without a letter in it, it takes `x-enum-varnames`. In a header, an enumeration has no name at all."""
    components = DOCUMENTS[title]["components"]
    for schema in components["schemas"].values():
        names = schema.get("x-enum-varnames", schema.get("enum", []))
        assert len(names) == len(schema.get("enum", []))
        assert all(re.match("[A-Za-z]", name) for name in names), schema
    assert not [
        header for header in components["headers"].values() if {"const", "enum"} & header["schema"].keys()
    ]


@each_document
def test_every_time_is_a_date_time_without_a_pattern(title: str) -> None:
    for name, schema in DOCUMENTS[title]["components"]["schemas"].items():
        for field, definition in schema.get("properties", {}).items():
            is_time = re.match(r"\d{4}-\d{2}-\d{2}T", str(definition.get("examples", [""])[0])) is not None
            assert (definition.get("format") == "date-time") == is_time, f"{name}.{field}"
            assert not (is_time and "pattern" in definition)


@each_document
def test_neither_schemas_nor_headers_have_a_default_that_clients_would_send(title: str) -> None:
    components = DOCUMENTS[title]["components"]
    for part in (components["schemas"], components["parameters"]):
        assert not [schema for schema in schemas_in(part) if "default" in schema]
