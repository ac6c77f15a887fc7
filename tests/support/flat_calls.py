"""A base of fake admin clients."""

from __future__ import annotations

from typing import Any, Final, Self

CALLS: Final = {
    "acls": {
        "describe": "describe_acls",
        "create": "create_acls",
        "delete": "delete_acls",
    },
    "brokers": {
        "describe": "describe_cluster",
        "describe_api_versions": "describe_api_versions",
        "describe_log_dirs": "describe_log_dirs",
    },
    "configs": {
        "describe": "describe_configs",
        "alter": "alter_configs",
        "list_resources": "list_config_resources",
    },
    "features": {
        "describe": "describe_features",
        "update": "update_features",
    },
    "group_offsets": {
        "fetch": "list_group_offsets",
        "fetch_many": "list_groups_offsets",
        "alter": "alter_group_offsets",
        "delete": "delete_group_offsets",
    },
    "groups": {
        "list": "list_groups",
        "describe": "describe_groups",
        "delete": "delete_groups",
        "find_coordinators": "find_coordinators",
        "remove_members": "remove_members",
    },
    "logs": {
        "list_offsets": "list_offsets",
        "delete_records": "delete_records",
    },
    "quotas": {
        "describe": "describe_client_quotas",
        "alter": "alter_client_quotas",
    },
    "records": {
        "first": "first_records",
    },
    "share_groups": {
        "fetch_offsets": "list_share_groups_offsets",
        "alter_offsets": "alter_share_group_offsets",
        "delete_offsets": "delete_share_group_offsets",
    },
    "topics": {
        "describe": "describe_topics",
        "create": "create_topics",
        "delete": "delete_topics",
        "create_partitions": "create_partitions",
    },
    "transactions": {
        "list": "list_transactions",
        "describe": "describe_transactions",
        "describe_producers": "describe_producers",
        "find_hanging": "find_hanging_transactions",
        "abort": "abort_transactions",
    },
    "users": {
        "describe": "describe_scram_users",
        "alter": "alter_scram_users",
    },
}
"""The coroutine of a fake for each call of a family."""


class FakeFamily:
    """A family of a fake admin client. Each call looks for its coroutine again, because
    tests replace them."""

    def __init__(self, admin: object, names: dict[str, str]) -> None:
        self._admin = admin
        self._names = names

    def __getattr__(self, name: str) -> Any:
        if name not in self._names:
            raise AttributeError(name)
        return getattr(self._admin, self._names[name])


class FlatCalls:
    """A fake admin client whose calls are its own coroutines, so that it can record
    them by name: `admin.groups.describe` is its `describe_groups`."""

    def __new__(cls, *_: object, **__: object) -> Self:
        admin = super().__new__(cls)
        families = {name: FakeFamily(admin, names) for name, names in CALLS.items()}
        vars(admin).update(families)
        return admin
