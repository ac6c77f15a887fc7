"""Where partitions of topics begin and end: what lag is measured against.

The coordinator's log says where groups are, not where the topics' ends were. So a run
takes samples, from where the log comes from too: a cluster is asked how it is now, and
Coterie's store tells of the past as well, from its batches. Topic ids get their names
from samples.
"""
