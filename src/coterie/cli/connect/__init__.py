"""How a command reaches a cluster: where the settings come from, and the client."""

from coterie.cli.connect.flags import add_connection_options
from coterie.cli.connect.opening import open_admin

__all__ = ["add_connection_options", "open_admin"]
