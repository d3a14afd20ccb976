import signal
from typing import Any, cast

import pytest

from paymock.server import server
from paymock.server.process import HANGUP, STOP_SIGNALS


@pytest.mark.skipif(not HANGUP, reason="needs SIGHUP")
def test_a_hangup_before_there_is_an_event_loop_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(**_: object) -> None:
        signal.raise_signal(signal.SIGHUP)
        raise InterruptedError

    monkeypatch.setattr("asyncio.Runner", interrupt)
    monkeypatch.setattr(server, "stop_signals", lambda: STOP_SIGNALS)  # wherever the tests run
    hangups: list[bool] = []
    starting = server.Server([cast("Any", None)], [], lambda: None, on_hangup=lambda: hangups.append(True))
    with pytest.raises(InterruptedError):
        starting.run()
    assert hangups == [True]
