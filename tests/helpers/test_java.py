"""The extension for JUnit, as Maven runs it."""

import json
import re
import shutil
from pathlib import Path

import httpx
import pytest

from harness.polling import wait_until
from paymock import __version__
from paymock.testing import ServerHandle
from tests.support import markdown
from tests.support.snippets import run_in, write_files

CASES = json.loads(markdown.read("clients/acceptance.json"))["cases"]

VERSIONS = {
    "clients/java/pom.xml": "paymock-junit</artifactId>\n  <version>(.+)</version>",
    "clients/java/src/main/java/paymock/junit/Server.java": 'VERSION = "(.+)"',
    "docs/java.md": "paymock-junit</artifactId>\n      <version>(.+)</version>",
    "examples/java/pom.xml": "paymock-junit</artifactId>\n      <version>(.+)</version>",
}


@pytest.mark.parametrize("file", VERSIONS)
def test_the_extension_has_the_version_of_paymock(file: str) -> None:
    assert re.findall(VERSIONS[file], markdown.read(file)) == [__version__]


def test_the_page_lists_all_calls_of_a_sandbox() -> None:
    source = markdown.read("clients/java/src/main/java/paymock/junit/Sandbox.java")
    calls = {*re.findall(r"^    public (?!static)[\w<>, ]+? (\w+)\(", source, re.MULTILINE)} - {"toString"}
    calls |= {"url", "apiKey"}
    table = markdown.section(markdown.read("docs/java.md"), "All calls")
    assert {*re.findall(r"`(\w+)\(", "".join(re.findall(r"^\| (.+?) \|", table, re.MULTILINE)))} == calls


def test_the_java_helper_and_its_page_pass_and_a_version_that_does_not_fit_is_named(
    tmp_path: Path, maven: str, paymock_server: ServerHandle
) -> None:
    shutil.copytree(markdown.ROOT / "clients" / "java", tmp_path / "java")
    shutil.copy(markdown.ROOT / "clients" / "acceptance.json", tmp_path)
    write_files(tmp_path / "java", markdown.blocks(markdown.read("docs/java.md")))
    shop = markdown.ROOT / "examples" / "java" / "src" / "main" / "java" / "shop" / "Shop.java"
    shutil.copy(shop, tmp_path / "java" / "src" / "test" / "java" / "shop")
    server = tmp_path / "java" / "src" / "main" / "java" / "paymock" / "junit" / "Server.java"
    server.write_text(server.read_text().replace(f'"{__version__}"', '"0.0.9"'))
    url = paymock_server.url
    printed = run_in(tmp_path / "java", "mvn -B test", MAVEN_OPTS=maven, PAYMOCK_URL=url)
    assert f"Tests run: {len(CASES) + 3}, Failures: 0, Errors: 0, Skipped: 0" in printed
    versions = f"the server at {url} is version {__version__}, this helper is 0.0.9"
    assert f"paymock: {versions}: install the same version\n" in printed


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
    assert "     5 s  payment_detected      Deposit observed, confirmations 0/16, pending\n" in story
    assert "  201  POST  /v1/payments  awaiting_payment  new\n" in story
    [url] = {*re.findall(r"http://127\.0\.0\.1:\d+", printed)}

    def is_gone() -> bool:
        try:
            httpx.get(url)
        except httpx.ConnectError:
            return True
        return False

    wait_until(is_gone)
