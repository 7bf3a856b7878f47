"""Structured Streaming: a table's new versions as a source, and a sink that commits once."""
