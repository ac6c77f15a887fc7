"""The classic group protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

One module per API, each with `handle(state, request, context) -> Result` and
`refuse(request, code)`; `expire` handles the timers, `replay` the record, `lifecycle`
a shard's start and end. `group` is the state; `changes` and the record's replay are
the only ways it changes.
"""
