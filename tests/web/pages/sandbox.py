"""A merchant's backend whose payments the pages show."""

import re
from html import unescape

from tests.support.client import Api
from tests.support.contract import Json


def plain(html: str) -> str:
    return " ".join(unescape(re.sub("<[^>]*>", " ", html.replace("<wbr>", ""))).split())


class Sandbox(Api):
    """A merchant's backend with a sandbox of its own, whose time only moves when it is told to."""

    def payments(self) -> list[Json]:
        found: list[Json] = self.get("/_mock/payments").json()["data"]
        return found

    def checkout(self, payment: Json) -> Json:
        found: Json = self.get(f"/checkout/{payment['id']}.json").json()
        return found

    def fragment(self, path: str) -> str:
        reply = self.get(f"/fragments/{path}")
        assert reply.status_code == 200, reply.text
        return reply.text

    def rows(self, path: str) -> list[str]:
        html = re.sub("<details.*?</details>|<small>real .*?</small>|[0-9.]+ ms", "", self.fragment(path))
        found = re.findall('<tr role="row"[^>]*>\\s*(<td.*?)</tr>', html, re.DOTALL)
        return [plain(row) for row in found]
