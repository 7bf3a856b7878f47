"""A bucket of a running object store, as a value that says how to reach it: through tiltyard and
Lance (`storage_options`), through obstore (`store`), directly or through a proxy. Making the bucket
itself needs no client library of the store's maker."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import urllib.error
import urllib.request
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import obstore
from obstore.store import AzureStore, S3Store


@dataclass(frozen=True)
class S3Server:
    """One bucket of a running S3 server."""

    name: str
    endpoint: str
    access_key_id: str
    secret_access_key: str
    log: Path
    bucket: str = "tiltyard"
    region: str = "us-east-1"

    def storage_options(self) -> dict[str, str]:
        """The options under Lance's names, without the `storage.` of namespace properties."""
        return {
            "aws_endpoint": self.endpoint,
            "aws_access_key_id": self.access_key_id,
            "aws_secret_access_key": self.secret_access_key,
            "aws_region": self.region,
            "aws_virtual_hosted_style_request": "false",
            "allow_http": "true",
        }

    def new_root(self) -> str:
        """An address in this bucket that nobody used before."""
        return f"s3://{self.bucket}/{_unique('root')}"

    def new_bucket(self) -> S3Server:
        other = replace(self, bucket=_unique("bucket"))
        assert other.create_bucket(), f"{self.name} did not make a bucket"
        return other

    def through(self, url: str) -> S3Server:
        """The same bucket, reached through a proxy at `url`."""
        return replace(self, endpoint=url)

    def store(self, prefix: str | None = None, *, timeout: str = "30s") -> S3Store:
        """The bucket, or a part of it, as obstore opens it; requests are never repeated."""
        return S3Store(
            self.bucket,
            prefix=prefix,
            endpoint=self.endpoint,
            access_key_id=self.access_key_id,
            secret_access_key=self.secret_access_key,
            region=self.region,
            virtual_hosted_style_request=False,
            client_options={"allow_http": True, "timeout": timeout},
            retry_config={"max_retries": 0},
        )

    def create_bucket(self) -> bool:
        # A signed address of the bucket itself: no S3 client but obstore is needed.
        return _put(obstore.sign(self.store(), "PUT", "", timedelta(minutes=1)), {})


@dataclass(frozen=True)
class AzureServer:
    """One container of a running Azure emulator."""

    name: str
    endpoint: str
    account: str
    key: str
    log: Path
    bucket: str = "tiltyard"

    def storage_options(self) -> dict[str, str]:
        """The options under Lance's names, without the `storage.` of namespace properties."""
        return {
            "azure_storage_account_name": self.account,
            "azure_storage_account_key": self.key,
            "azure_storage_endpoint": f"{self.endpoint}/{self.account}",
            "allow_http": "true",
        }

    def new_root(self) -> str:
        """An address in this container that nobody used before."""
        return f"az://{self.bucket}/{_unique('root')}"

    def new_bucket(self) -> AzureServer:
        other = replace(self, bucket=_unique("bucket"))
        assert other.create_bucket(), f"{self.name} did not make a container"
        return other

    def through(self, url: str) -> AzureServer:
        """The same container, reached through a proxy at `url`."""
        return replace(self, endpoint=url)

    def store(self, prefix: str | None = None, *, timeout: str = "30s") -> AzureStore:
        """The container, or a part of it, as obstore opens it; requests are never repeated."""
        return AzureStore(
            self.bucket,
            prefix=prefix,
            account_name=self.account,
            account_key=self.key,
            endpoint=f"{self.endpoint}/{self.account}",
            client_options={"allow_http": True, "timeout": timeout},
            retry_config={"max_retries": 0},
        )

    def create_bucket(self) -> bool:
        path = f"/{self.account}/{self.bucket}"
        date = datetime.now(UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
        signed = f"x-ms-date:{date}\nx-ms-version:2021-08-06"
        # Shared Key: the verb, eleven empty standard headers, ours, and the resource.
        text = "PUT" + "\n" * 12 + f"{signed}\n/{self.account}{path}\nrestype:container"
        digest = hmac.new(base64.b64decode(self.key), text.encode(), hashlib.sha256).digest()
        headers = dict(line.split(":", 1) for line in signed.split("\n"))
        headers["Authorization"] = f"SharedKey {self.account}:{base64.b64encode(digest).decode()}"
        return _put(f"{self.endpoint}{path}?restype=container", headers)


Server = S3Server | AzureServer

# Past any proxy of the environment: the servers are on this machine.
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def _unique(kind: str) -> str:
    return f"{kind}-{uuid.uuid4().hex[:12]}"


def _put(url: str, headers: Mapping[str, str]) -> bool:
    """Whether the server took the request; one that does not listen yet has not."""
    request = urllib.request.Request(url, headers=dict(headers), method="PUT")
    try:
        with _DIRECT.open(request, timeout=60):
            return True
    except (urllib.error.URLError, http.client.HTTPException, OSError):
        return False
