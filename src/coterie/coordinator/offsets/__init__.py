"""Committed offsets: commit, fetch, delete, expire, and those of open transactions.

One module per request, each with `handle(state, request, context) -> Result`; `store`
holds the offsets, `packed` is the form they are held in, and `replay` is the only way
they change.
"""
