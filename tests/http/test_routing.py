import pytest
from hypothesis import given
from hypothesis import strategies as st

from paymock.http import routing
from paymock.http.routing import Routes
from tests.support import raw
from tests.support.client import Api
from tests.support.server import RunningServer

TEMPLATES = ("/", "/pay/{id}.json", "/pay/{id}", "/pay/{id}/events", "/pay/all", "/pay/{id}.tar.json")


@pytest.fixture(params=[TEMPLATES, TEMPLATES[::-1]], ids=["in order", "in reverse"])
def routes(request: pytest.FixtureRequest) -> Routes[str]:
    """The order of the routes does not matter."""
    return Routes({f"GET {template}": template for template in request.param})


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
def test_the_route_with_the_longest_end_wins(
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


SEGMENTS = ("", "pay", "all", "events", "a", "a.json", "a.tar.json", ".json", "%61ll")


@given(st.permutations(TEMPLATES), st.lists(st.sampled_from(SEGMENTS), max_size=3).map("/".join))
def test_fixed_paths_agree_with_the_search_of_the_tree(templates: list[str], path: str) -> None:
    routes = Routes({f"GET {template}": template for template in templates})
    for sent in (path, f"/{path}", *TEMPLATES):
        assert routes.find(sent) == routing._search(routes._root, sent.split("/"))


def test_only_swagger_without_its_slash_is_redirected(api: Api) -> None:
    response = api.get("/swagger")
    assert (response.status_code, response.headers["location"]) == (308, "/swagger/")


@pytest.mark.parametrize(
    ("method", "path", "host", "status", "code"),
    [
        ("GET", "/nowhere", "attacker.example", 421, "misdirected_request"),
        ("GET", "/nowhere", "localhost", 404, "not_found"),
        ("POST", "/v1/chains", "localhost", 405, "method_not_allowed"),
        ("GET", "/v1/chains", "localhost", 401, "unauthenticated"),
    ],
)
def test_host_path_method_and_key_are_checked_in_this_order(
    shared_server: RunningServer, method: str, path: str, host: str, status: int, code: str
) -> None:
    [reply] = raw.exchange(shared_server.port, raw.request(method, path, host=host))
    assert (reply.status, reply.code) == (status, code)
