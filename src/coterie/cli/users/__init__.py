"""The commands about users in the data of a server that does not run."""
