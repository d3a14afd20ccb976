"""What axe-core has to say of a page."""

from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Page

TAGS = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")


def violations(page: Page, rule: str | None = None) -> list[str]:
    """The violations of all rules, or of one: the name of the rule, and where it is broken."""
    selection = {"type": "rule", "values": [rule]} if rule else {"type": "tag", "values": TAGS}
    options = {"resultTypes": ["violations"], "runOnly": selection}
    found = Axe().run(page, options=options).response["violations"]
    return [f"{broken['id']}: {node['target']}" for broken in found for node in broken["nodes"]]
