"""Faults: what a test makes a server do wrong, see docs/testing/faults.md."""
