"""Models of clients: group members of the classic and the consumer protocol."""
