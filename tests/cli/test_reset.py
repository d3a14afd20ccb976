from tests.cli.terminal import Terminal
from tests.support.client import Api


def test_reset_empties_the_sandbox(terminal: Terminal, api: Api) -> None:
    api.created()
    assert terminal.note("reset") == "the sandbox is empty\n"
    assert api.get("/_mock/payments").json()["data"] == []
    assert terminal.json("reset") == {"reset": True}
