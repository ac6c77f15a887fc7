"""Shared parts of the benchmarks: rounds and figures, server processes, CPU time and
the load generator.
"""
