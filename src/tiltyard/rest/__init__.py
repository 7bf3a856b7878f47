"""The Lance REST namespace protocol over a `DirectoryNamespace`, with our own operations beside it.

One table says which routes there are; everything else, from roles to the OpenAPI document, is
derived from it.
"""
