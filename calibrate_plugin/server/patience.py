"""Connections that say what they want in time, or are closed: a client that is slow on purpose holds up nobody."""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


class Patient(H11Protocol):
    """Uvicorn's protocol, with an end to waiting for a request. How long an answer takes is not its matter."""

    HEADERS = 15.0  # seconds until the headers have come
    WHOLE = 60.0  # seconds until the body has come too

    _waiting: asyncio.TimerHandle | None = None
    _for: object = None  # what is waited for: a state of h11

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait(h11.IDLE)

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait(None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        state = self.conn.their_state
        self._wait(state if state in (h11.IDLE, h11.SEND_BODY) else None)

    def _wait(self, what: object) -> None:
        if what is self._for:
            return
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
        self._for = what
        if what is not None:
            seconds = self.HEADERS if what is h11.IDLE else self.WHOLE
            self._waiting = self.loop.call_later(seconds, self._give_up)

    def _give_up(self) -> None:
        self._for = self._waiting = None
        if not self.transport.is_closing():
            self.transport.close()
