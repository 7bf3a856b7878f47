"""The Lance REST namespace protocol over a `DirectoryNamespace`, with tiltyard's own operations.

One table has all routes; roles, the OpenAPI document and the client are derived from it.
"""
