"""Record type 16: the topics that matched a group's regular expression."""

from __future__ import annotations

from coterie.wire.schema import Message, array, int64, string


class ConsumerGroupRegularExpressionKey(Message, versions="0"):
    group_id: str = string()
    regular_expression: str = string()


class ConsumerGroupRegularExpressionValue(Message, versions="0", flexible="0+"):
    topics: list[str] = array("string")
    version: int = int64()
    timestamp: int = int64()
