"""ElectLeaders, key 43: versions 0-2, flexible from 2.

v1: election types, and an error for the whole response (KIP-460).
v2: flexible (KIP-482).
"""

from __future__ import annotations

from coterie.wire.schema import Message, Struct, array, int8, int16, int32, string


class ElectedTopic(Struct):
    topic: str = string()
    partitions: list[int] = array("int32")


class ElectLeadersRequest(Message, key=43, versions="0-2", flexible="2+"):
    election_type: int = int8("1+")
    topic_partitions: list[ElectedTopic] | None = array(ElectedTopic, nullable="0+")
    timeout_ms: int = int32(default=60000)


class PartitionResult(Struct):
    partition_id: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


class ReplicaElectionResult(Struct):
    topic: str = string()
    partition_result: list[PartitionResult] = array(PartitionResult)


class ElectLeadersResponse(Message, key=43, versions="0-2", flexible="2+"):
    throttle_time_ms: int = int32()
    error_code: int = int16("1+")
    replica_election_results: list[ReplicaElectionResult] = array(ReplicaElectionResult)
