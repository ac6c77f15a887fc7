"""The parts of the benchmark beside_kafka: both builds of Coterie beside other servers.

All servers run at once on one core and are loaded in turns; the generator has the other
core. A ratio compares loads of one round. `docs/performance.md` describes the method.
"""
