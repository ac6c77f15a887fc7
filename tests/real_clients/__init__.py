"""Tests of Coterie by independent client libraries, over sockets.

Every test works on topics and groups of its own, so that the folder may run in any
order, on several workers, and against any Kafka: COTERIE_TEST_BOOTSTRAP=HOST:PORT
points it at a broker that already runs. Every wait has a deadline.
"""
