"""Request ids."""

from tests.support.client import Api


def test_every_request_has_an_id_of_its_own(api: Api) -> None:
    ids = [
        api.get(path).headers["x-request-id"] for path in ("/v1/chains", "/nowhere", "/livez", "/swagger/")
    ]
    assert len(set(ids)) == 4
