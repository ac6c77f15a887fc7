"""What an admin asks of groups: list them, describe one, delete one."""
