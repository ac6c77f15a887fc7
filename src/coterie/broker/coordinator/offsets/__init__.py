"""Committed offsets: commit, fetch, delete, expire, and those of open transactions.

`store` holds the offsets, `committed` defines their packed form, and `replay` is the
only way they change. `commit`, `fetch` and `deletion` are the requests.
"""
