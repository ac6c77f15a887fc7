"""All messages: `from coterie.wire import messages as m`, then `m.JoinGroupRequest`.

The classes stand in modules by family, which are imported when a class is first used:
a command needs a few of them, and all take 25 ms.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coterie.wire.messages.classic_groups import *
    from coterie.wire.messages.cluster import *
    from coterie.wire.messages.configs import *
    from coterie.wire.messages.consumer_groups import *
    from coterie.wire.messages.group_admin import *
    from coterie.wire.messages.offsets import *
    from coterie.wire.messages.records import *
    from coterie.wire.messages.replicas import *
    from coterie.wire.messages.security import *
    from coterie.wire.messages.share_groups import *
    from coterie.wire.messages.share_records import *
    from coterie.wire.messages.topics import *
    from coterie.wire.messages.transactions import *

FAMILIES = (
    "cluster",
    "group_admin",
    "offsets",
    "consumer_groups",
    "classic_groups",
    "records",
    "topics",
    "configs",
    "transactions",
    "security",
    "share_groups",
    "share_records",
    "replicas",
)
"""The modules, in the order in which a class is looked for: those first that most
commands need."""


def __getattr__(name: str) -> Any:
    if not name.startswith("_"):
        for family in FAMILIES:
            module = import_module(f"{__name__}.{family}")
            if name in vars(module):
                return globals().setdefault(name, vars(module)[name])
    raise AttributeError(f"no message {name}")
