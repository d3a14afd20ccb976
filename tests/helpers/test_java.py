"""The extension for JUnit, as Maven runs it."""

import json
import re
import shutil
from pathlib import Path

import httpx

from harness.polling import wait_until
from paymock import __version__
from tests.support import markdown
from tests.support.snippets import run_in, write_files

CASES = json.loads(markdown.read("clients/acceptance.json"))["cases"]

VERSIONS = {
    "clients/java/pom.xml": "paymock-junit</artifactId>\n  <version>(.+)</version>",
    "clients/java/src/main/java/paymock/junit/Server.java": 'VERSION = "(.+)"',
    "docs/java.md": r"paymock-junit(?:</artifactId>\n      <version>|-)([\d.]+\d)",
    "examples/java/pom.xml": "paymock-junit</artifactId>\n      <version>(.+)</version>",
}


def test_the_extension_has_the_version_of_paymock() -> None:
    named = {file: {*re.findall(pattern, markdown.read(file))} for file, pattern in VERSIONS.items()}
    assert named == {file: {__version__} for file in VERSIONS}


def test_the_page_lists_all_calls_of_a_sandbox() -> None:
    source = markdown.read("clients/java/src/main/java/paymock/junit/Sandbox.java")
    calls = {*re.findall(r"^    public (?!static)[\w<>, ]+? (\w+)\(", source, re.MULTILINE)} - {"toString"}
    calls |= {"url", "apiKey"}
    table = markdown.section(markdown.read("docs/java.md"), "All calls")
    assert {*re.findall(r"`(\w+)\(", "".join(re.findall(r"^\| (.+?) \|", table, re.MULTILINE)))} == calls


def test_the_java_helper_and_its_page_pass_and_what_is_wrong_with_a_server_is_named(
    tmp_path: Path, maven: str
) -> None:
    shutil.copytree(markdown.ROOT / "clients" / "java", tmp_path / "java")
    shutil.copy(markdown.ROOT / "clients" / "acceptance.json", tmp_path)
    write_files(tmp_path / "java", markdown.blocks(markdown.read("docs/java.md")))
    shop = markdown.ROOT / "examples" / "java" / "src" / "main" / "java" / "shop" / "Shop.java"
    shutil.copy(shop, tmp_path / "java" / "src" / "test" / "java" / "shop")
    server = tmp_path / "java" / "src" / "main" / "java" / "paymock" / "junit" / "Server.java"
    server.write_text(server.read_text().replace(f'"{__version__}"', '"0.0.9"'))
    printed = run_in(tmp_path / "java", "mvn -B test", MAVEN_OPTS=maven)
    assert f"Tests run: {len(CASES) + 5}, Failures: 0, Errors: 0, Skipped: 0" in printed
    versions = f"is version {__version__}, this helper is 0.0.9: install the same version\n"
    assert re.search(f"paymock: the server at http://127.0.0.1:[0-9]+ {versions}", printed)
    first = "! mvn -B test -Dtest=FirstTest"
    printed = run_in(tmp_path / "java", first, MAVEN_OPTS=maven, PAYMOCK_STORE="unknown://")
    assert "paymock: the server did not start:\nError: unknown store 'unknown'" in printed


def test_a_failed_test_is_explained_and_a_killed_jvm_leaves_no_server(tmp_path: Path, maven: str) -> None:
    shutil.copytree(markdown.ROOT / "examples" / "java", tmp_path / "java")
    test = tmp_path / "java" / "src" / "test" / "java" / "shop" / "ShopTest.java"
    changed = test.read_text().replace('"underpaid_expired", shop.status', '"completed", shop.status')
    killed = "@org.junit.jupiter.api.AfterAll static void end() { Runtime.getRuntime().halt(9); }\n"
    changed = changed.replace("    Shop shop;", f"    Shop shop;\n{killed}")
    test.write_text(changed.replace("shop = new", "System.err.println(mock.dashboardUrl()); shop = new"))
    printed = run_in(tmp_path / "java", "mvn -B test || true", MAVEN_OPTS=maven)
    story = printed.split("halfAPaymentDeliversNothing(Sandbox), in paymock at ")[1].split("http://")[0]
    assert "underpaid_expired  order 1001" in story
    assert "  201   POST  /v1/payments  new  key 1\n" in story
    [url] = {*re.findall(r"http://127\.0\.0\.1:\d+", printed)}

    def is_gone() -> bool:
        try:
            httpx.get(url)
        except httpx.ConnectError:
            return True
        return False

    wait_until(is_gone)
