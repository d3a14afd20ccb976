"""What a path leads to, and what it says."""

import pytest

from paymock.web.http.routing import Routes

TEMPLATES = ("/", "/pay/{id}.json", "/pay/{id}", "/pay/{id}/events", "/pay/all", "/pay/{id}.tar.json")


@pytest.fixture(params=[TEMPLATES, TEMPLATES[::-1]], ids=["in order", "in reverse"])
def routes(request: pytest.FixtureRequest) -> Routes[str]:
    """The order in which routes are added does not matter."""
    found: Routes[str] = Routes()
    for template in request.param:
        found.add("GET", template, template)
    return found


@pytest.mark.parametrize(
    ("path", "template", "value"),
    [
        ("/", "/", None),
        ("/pay/a", "/pay/{id}", "a"),
        ("/pay/a/events", "/pay/{id}/events", "a"),
        ("/pay/a.json", "/pay/{id}.json", "a"),
        ("/pay/a.b.json", "/pay/{id}.json", "a.b"),
        ("/pay/a.tar.json", "/pay/{id}.tar.json", "a"),
        ("/pay/a.json.json", "/pay/{id}.json", "a.json"),
        ("/pay/a%2Ejson", "/pay/{id}", "a.json"),
        ("/pay/a%2Fb.json", "/pay/{id}.json", "a/b"),
        ("/pay/%ff.json", "/pay/{id}.json", "\ufffd"),
        ("/pay/.json", "/pay/{id}", ".json"),
        ("/pay/a.JSON", "/pay/{id}", "a.JSON"),
        ("/pay/ajson", "/pay/{id}", "ajson"),
        ("/pay/all", "/pay/all", None),
        ("/pay/all.json", "/pay/{id}.json", "all"),
    ],
)
def test_a_path_leads_to_the_route_with_the_longest_end(
    routes: Routes[str], path: str, template: str, value: str | None
) -> None:
    match = routes.find(path)
    assert match is not None
    assert match.targets == {"GET": template}
    assert match.params == ({} if value is None else {"id": value})


@pytest.mark.parametrize(
    "path",
    ["", "//", "/pay", "/pay/", "/pay//events", "/pay/a/", "/pay/a/events/", "/pay/a.json/", "/pay/a.json/x"],
)
def test_anything_else_leads_nowhere(routes: Routes[str], path: str) -> None:
    assert routes.find(path) is None
