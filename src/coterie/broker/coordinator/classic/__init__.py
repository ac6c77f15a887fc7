"""The classic group protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

Each API has a module with `handle(state, request, context) -> Result` and
`refuse(request, context, code, message)`. `lifecycle` handles timers and the start and
end of a shard, `group_metadata` builds and replays the record. `group` is the state,
which only a change of `draft` or the replay of the record modifies.
"""
