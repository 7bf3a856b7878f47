"""Operations on namespaces."""

from __future__ import annotations

from enum import StrEnum

import lance_namespace as api

from tiltyard import names
from tiltyard.catalog.base import CreateMode, DropBehaviour
from tiltyard.errors import NamespaceNotFoundError
from tiltyard.namespace.requests import choice, operation
from tiltyard.namespace.trash import TrashOperations
from tiltyard.paging import page


class DropMode(StrEnum):
    """What to do if the namespace to drop does not exist."""

    FAIL = "fail"
    SKIP = "skip"


class NamespaceOperations(TrashOperations):
    """Nested namespaces and their properties. Dropping one may put tables into the trash."""

    @operation("list namespaces of")
    def list_namespaces(self, request: api.ListNamespacesRequest) -> api.ListNamespacesResponse:
        parent = names.parse_namespace_id(request.id)
        found, token = page(
            self._catalog.list_namespaces(parent), request.page_token, request.limit
        )
        return api.ListNamespacesResponse(namespaces=list(found), page_token=token)

    @operation("describe namespace")
    def describe_namespace(
        self, request: api.DescribeNamespaceRequest
    ) -> api.DescribeNamespaceResponse:
        namespace = names.parse_namespace_id(request.id)
        return api.DescribeNamespaceResponse(
            properties=dict(self._catalog.describe_namespace(namespace))
        )

    @operation("look for namespace")
    def namespace_exists(self, request: api.NamespaceExistsRequest) -> api.NamespaceExistsResponse:
        self._catalog.describe_namespace(names.parse_namespace_id(request.id))
        return api.NamespaceExistsResponse()

    @operation("create namespace")
    def create_namespace(self, request: api.CreateNamespaceRequest) -> api.CreateNamespaceResponse:
        namespace = names.parse_namespace_id(request.id)
        mode = choice(CreateMode, request.mode, "create mode")
        kept = self._catalog.create_namespace(namespace, mode, request.properties or {})
        return api.CreateNamespaceResponse(properties=dict(kept))

    @operation("drop namespace")
    def drop_namespace(self, request: api.DropNamespaceRequest) -> api.DropNamespaceResponse:
        namespace = names.parse_namespace_id(request.id)
        mode = choice(DropMode, request.mode, "drop mode")
        behaviour = choice(DropBehaviour, request.behavior, "drop behavior")
        try:
            properties = self._lifecycle.drop_namespace(namespace, behaviour, self._terms_of())
        except NamespaceNotFoundError:
            if mode is DropMode.FAIL:
                raise
            return api.DropNamespaceResponse()
        return api.DropNamespaceResponse(properties=dict(properties))
