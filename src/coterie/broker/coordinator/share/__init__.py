"""Share groups (KIP-932): members, assignment, and which partitions have state."""
