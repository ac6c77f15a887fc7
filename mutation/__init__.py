"""Mutation tests: deliberate faults in a copy of src that tests must detect.

`mutation.automated` draws mutants at random; `mutation.rules` has those of rules that
no fact of Kafka states.
"""
