"""How a server listens, who may use it, and its limits."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Any, Self

from pydantic import ConfigDict, Field, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic.dataclasses import dataclass

from tiltyard.errors import InvalidInputError, first_problem

MEBIBYTE = 1024 * 1024

Port = Annotated[int, Field(ge=0, le=2**16 - 1)]
Count = Annotated[int, Field(ge=1)]


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class ServerSettings:
    """The settings of a server. InvalidInputError if one is wrong or contradicts another."""

    host: str = "127.0.0.1"
    port: Port = 2333
    # A file of keys. Without it every client is accepted, so it is required beyond loopback.
    keys: str | None = None
    tls_certificate: str | None = None
    tls_key: str | None = None

    max_json_bytes: Count = 16 * MEBIBYTE
    max_body_bytes: Count = 1024 * MEBIBYTE
    max_answer_bytes: int = 1024 * MEBIBYTE
    # A larger body is kept in a temporary file.
    spool_bytes: int = 16 * MEBIBYTE
    spool_directory: str | None = None

    threads: Count = 32
    # Requests that wait for a thread; more are refused with status 503.
    waiting: Count = 1024
    connections: Count = 2048
    work_seconds: float = 600.0
    # How long a client may take for its whole body, and pause while it sends it.
    body_seconds: float = 600.0
    idle_seconds: float = 30.0
    shutdown_seconds: float = 60.0

    # Per key and second, with bursts of twice as many; 0 for no limit.
    requests_per_second: float = 1000.0
    # From one address, and from all of them, per minute; more are refused with status 429.
    failed_logins_per_minute: float = 30.0
    failed_logins_overall: float = 600.0

    audit: str | None = None
    log_json: bool = False

    @model_validator(mode="wrap")
    @classmethod
    def _check(cls, values: Any, construct: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            settings = construct(values)
        except ValidationError as error:
            raise InvalidInputError(first_problem(error)) from error
        if not settings.is_loopback and settings.keys is None:
            raise InvalidInputError(
                f"a server that listens on {settings.host!r} needs keys: others can reach it",
                hint="make one with tiltyard keys add, and name the file with --keys",
            )
        if (settings.tls_certificate is None) != (settings.tls_key is None):
            raise InvalidInputError("TLS needs a certificate and its key, both")
        return settings

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
