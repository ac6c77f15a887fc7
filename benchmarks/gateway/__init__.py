"""Benchmarks of a gateway node."""
