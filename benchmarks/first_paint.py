"""Time until the list of payments appears in a browser: with many payments in the sandbox, and with few.

    python -m benchmarks.first_paint [--payments N] [--rounds R]

Opens the list of a sandbox with N payments (default 20,000), and of one with 20, in turn, R times each
(default 15), in a browser that has the files of the pages; and, as the baseline, a text of a few bytes.
Prints the medians of the first contentful paint, and of the first row of the list, in milliseconds after the
navigation began. Needs Chromium and wrk.
"""

import argparse
import json
import statistics
from collections.abc import Mapping

from playwright.sync_api import Browser, sync_playwright

from benchmarks.load import measure_load, paymock, require_tools
from harness.api_client import API_KEY, ORDER, call
from harness.browser import LAUNCH_ARGUMENTS
from harness.load import CORES, create_load

FEW_KEY, FEW = "mk_test_few", 20

IDLE_MS = 500
"""Before a page is opened: leaving the one before takes time, too, which is not what is measured."""

OBSERVE_ROWS = """addEventListener("DOMContentLoaded", () => new MutationObserver((_, observer) => {
    if (!document.querySelector("#list tbody tr")) return;
    observer.disconnect();
    requestAnimationFrame(() => setTimeout(() => { window.rowsShown = performance.now(); }));
}).observe(document.querySelector("#list"), { childList: true, subtree: true }))"""
MEASURED = """() => new Promise(done => {
    const ready = () => performance.getEntriesByName("first-contentful-paint").length
        && (window.rowsShown !== undefined || !document.querySelector("#list"));
    const look = () => !ready() ? setTimeout(look, 10) : done({
        "first paint": performance.getEntriesByName("first-contentful-paint")[0].startTime,
        "first rows": window.rowsShown,
    });
    look();
})"""


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--payments", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    require_tools("wrk", "chromium")
    with paymock(cores=CORES) as server, sync_playwright() as playwright:
        for number in range(FEW):
            call(server.url, FEW_KEY, "POST", "/v1/payments", json.loads(ORDER), f"benchmark-{number}")
        while (count := total(server.url)) < options.payments:
            measure_load(server, 1, create_load())
        with playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=LAUNCH_ARGUMENTS
        ) as browser:
            keys = {API_KEY: count, FEW_KEY: FEW}
            measured: dict[str, list[Mapping[str, float]]] = {key: [] for key in keys}
            text = []
            for _ in range(options.rounds):
                text.append(opened(browser, f"{server.url}/livez", FEW_KEY)["first paint"])
                for key in keys:
                    measured[key].append(opened(browser, server.url, key))
    print(f"{'a text':>16}   first paint {statistics.median(text):6.1f} ms")
    for key, number in keys.items():
        figures = [
            f"{name} {statistics.median(one[name] for one in measured[key]):6.1f} ms"
            for name in measured[key][0]
        ]
        print(f"{number:>7,} payments   {'   '.join(figures)}")


def total(url: str) -> int:
    """How many payments the sandbox has."""
    found = call(url, API_KEY, "GET", "/_mock/payments?limit=1")["total"]
    assert isinstance(found, int)
    return found


def opened(browser: Browser, url: str, key: str) -> Mapping[str, float]:
    """The times of a page that is opened a second time, when the browser has its files."""
    with browser.new_context() as context:
        context.add_init_script(f"sessionStorage.setItem('paymock.key', '{key}'); {OBSERVE_ROWS}")
        page = context.new_page()
        for _ in range(2):
            page.wait_for_timeout(IDLE_MS)
            page.goto(url)
            found: Mapping[str, float] = page.evaluate(MEASURED)
        return found


if __name__ == "__main__":
    main()
