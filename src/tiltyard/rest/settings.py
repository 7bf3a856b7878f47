"""How a server listens, whom it lets in, and the limits that hold for everybody."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from tiltyard.errors import InvalidInputError

MOST_PORT = 2**16 - 1
MEBIBYTE = 1024 * 1024


@dataclass(frozen=True)
class ServerSettings:
    """Everything about a server but its catalog. Checked when it is made."""

    host: str = "127.0.0.1"
    port: int = 2333
    # A file of keys. Without one everybody is let in, so it is demanded beyond loopback.
    keys: str | None = None
    tls_certificate: str | None = None
    tls_key: str | None = None

    max_json_bytes: int = 16 * MEBIBYTE
    max_body_bytes: int = 1024 * MEBIBYTE
    max_answer_bytes: int = 1024 * MEBIBYTE
    # What is larger lies in a temporary file until it is used.
    spool_bytes: int = 16 * MEBIBYTE
    spool_directory: str | None = None

    threads: int = 32
    # Requests that wait for a thread; one more is told to come again.
    waiting: int = 1024
    connections: int = 2048
    work_seconds: float = 600.0
    # How long a client may take for its whole body, and be silent in the middle of it.
    body_seconds: float = 600.0
    idle_seconds: float = 30.0
    shutdown_seconds: float = 60.0

    # Per key and second; 0 for no limit. Bursts of twice as much are fine.
    requests_per_second: float = 1000.0
    # Per address and minute, and of all addresses; who fails more often is told to wait.
    failed_logins_per_minute: float = 30.0
    failed_logins_overall: float = 600.0

    audit: str | None = None
    log_json: bool = False

    def __post_init__(self) -> None:
        if not self.is_loopback and self.keys is None:
            raise InvalidInputError(
                f"a server that listens on {self.host!r} needs keys: others can reach it",
                hint="make one with tiltyard keys add, and name the file with --keys",
            )
        if not 0 <= self.port <= MOST_PORT:
            raise InvalidInputError(f"a port is a number from 0 to {MOST_PORT}, not {self.port}")
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise InvalidInputError("TLS needs a certificate and its key, both")
        for name in ("threads", "waiting", "connections", "max_json_bytes", "max_body_bytes"):
            if getattr(self, name) < 1:
                raise InvalidInputError(f"{name} must be at least 1")

    @property
    def is_loopback(self) -> bool:
        """Whether only processes of this machine can connect."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def has_tls(self) -> bool:
        return self.tls_certificate is not None
