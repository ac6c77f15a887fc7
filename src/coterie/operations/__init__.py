"""Operations on groups of any cluster: lag, selection, resets, plans, apply and undo.

They use the admin client and serve the command line: values in, values out, no output.

    report = await group_lag(admin, ["orders"])
    plans = await plan_offsets(admin, Action.RESET, {"orders": ToEarliest()})
    snapshot = await open_snapshot(admin, directory)
    results = await apply_items(admin, items_of(plans), snapshot)
    undo = await plan_undo(admin, read_snapshot(directory, snapshot.snapshot_id))

`__init__.pyi` lists the names. Each is imported on first use.
"""

from coterie.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
