"""Mutation tests: deliberate faults in a copy of src that tests must detect.

A named mutant breaks what one row of docs/facts.tsv states, and the tests with the mark
of the row must fail on it: `python -m mutation --facts E7-31` runs some of them.
"""
