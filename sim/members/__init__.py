"""Members of groups as their servers see them: small, faithful models of clients."""
