"""Benchmarks of the broker and its codecs."""
