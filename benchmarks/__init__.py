"""Benchmarks: each is a module whose `measure` returns figures with their bars.

`python -m benchmarks [NAME ...]` runs all or some. The packages: `server` (the broker),
`beside` (the parts of beside_kafka), `pipeline`, `admin` (the command line), `gateway`,
`peers` (clients and comparison servers) and `harness` (rounds, processes, the load
generator).

Both sides of a ratio run alternately in one session, with the server pinned to one core
and the load generator to another. The figure is the median of the ratios of all rounds,
because absolute rates vary too much on a shared machine.
"""
