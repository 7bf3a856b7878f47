"""Sessions: signed texts that stand for a key for a while, in a cookie or as a bearer token.

A session names its key, not a role: what the key may do now is what the session may do, and a
revoked key has no sessions.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Callable
from time import time

from tiltyard.access.keyring import Keyring
from tiltyard.access.roles import LOCAL, Principal

EIGHT_HOURS = 8 * 3600.0
_PREFIX = "tys_"
_LOCAL_ID = "local"


class Sessions:
    """Issues and verifies sessions. The signing key lives as long as the process."""

    def __init__(
        self,
        keyring: Keyring,
        *,
        seconds: float = EIGHT_HOURS,
        clock: Callable[[], float] = time,
    ) -> None:
        self._keyring = keyring
        self.seconds = seconds
        self._clock = clock
        self._secret = secrets.token_bytes(32)

    def issue(self, principal: Principal) -> str:
        """A session for whoever proved to have a key."""
        mine = [key.id for key in self._keyring.listed() if key.principal == principal]
        id = mine[0] if mine else _LOCAL_ID
        body = f"{id}.{round(self._clock() + self.seconds)}.{secrets.token_hex(8)}"
        return f"{_PREFIX}{body}.{self.sign(body)}"

    def verify(self, text: str) -> Principal | None:
        """Who a session stands for; None if it is not ours, is over, or its key was revoked."""
        body, _, signature = text.removeprefix(_PREFIX).rpartition(".")
        if not text.startswith(_PREFIX) or not self.signed(body, signature):
            return None
        id, expires, _ = body.split(".")
        if int(expires) <= self._clock():
            return None
        if id == _LOCAL_ID:
            return LOCAL if self._keyring.is_open else None
        key = self._keyring.by_id(id)
        return None if key is None else key.principal

    def sign(self, body: str) -> str:
        """A signature that only this server can make: also for the tokens of forms."""
        made = hmac.new(self._secret, body.encode(), hashlib.sha256).digest()
        return base64.urlsafe_b64encode(made).decode().rstrip("=")

    def signed(self, body: str, signature: str) -> bool:
        """Whether a signature is ours; in constant time."""
        return hmac.compare_digest(self.sign(body).encode(), signature.encode())
