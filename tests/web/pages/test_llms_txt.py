"""What `/llms.txt` tells coding agents is short and true, and every command in it works."""

import argparse
import re
import shlex

import httpx

from paymock.rules.faults import FaultKind
from paymock.rules.scenarios import SCENARIOS
from paymock.settings import Settings
from tests.support import markdown
from tests.support.server import RunningServer, running_server
from tests.support.snippets import parse_commands

MOST_WORDS = 1500

CURL = argparse.ArgumentParser()
CURL.add_argument("url")
CURL.add_argument("-sS", action="store_true", required=True)
CURL.add_argument("-X", dest="method")
CURL.add_argument("-H", dest="headers", action="append")
CURL.add_argument("-d", dest="body")


def llms_txt(server: RunningServer) -> str:
    reply = httpx.get(f"{server.url}/llms.txt")
    assert reply.headers["content-type"] == "text/plain; charset=utf-8"
    assert "\n\n\n" not in reply.text
    return reply.text


def run(text: str, api_key: str = "") -> dict[str, httpx.Response]:
    """Send what the commands of curl send, in order, and return the replies by path. Parse all others."""
    replies = {}
    for block in markdown.blocks(text):
        parse_commands(block.text)
        for line in block.text.splitlines():
            if line.startswith("curl "):
                sent = CURL.parse_args(shlex.split(line.replace("$PAYMOCK_API_KEY", api_key))[1:])
                method = sent.method or ("POST" if sent.body else "GET")
                headers = dict(header.split(": ", 1) for header in sent.headers)
                reply = httpx.request(method, sent.url, headers=headers, content=sent.body)
                assert reply.is_success, f"{line}\n{reply.text}"
                replies[reply.url.path] = reply
    return replies


def test_it_names_what_there_is_and_its_commands_work(server: RunningServer) -> None:
    text = llms_txt(server)
    assert len(text.split()) <= MOST_WORDS
    for name in (*SCENARIOS, *FaultKind, "UNDETERMINED"):
        assert f"`{name}" in text, name
    documents = [url for url in markdown.links(text) if httpx.get(url).text.startswith("openapi: 3.1.0")]
    assert documents == [f"{server.url}/openapi.yaml", f"{server.url}/_mock/openapi.yaml"]
    replies = run(text)
    assert replies["/_mock/wait"].json()["reached"]
    assert replies["/_mock/requests"].json()["data"][0]["operation"] == "createPayment"
    assert replies["/_mock/reset"].status_code == 204


def test_without_the_control_api_it_tells_of_none_and_takes_a_configured_key() -> None:
    with running_server(Settings(port=0, control=False, api_keys=("key-of-a-shop",))) as server:
        text = llms_txt(server)
        assert not re.findall("_mock|mk_test|[Ff]ault|verify|[Ff]reeze|[Aa]dvance", text)
        [created] = run(text, "key-of-a-shop").values()
        assert created.status_code == 201
