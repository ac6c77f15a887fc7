"""What an operator does to groups, on any cluster: look, select, plan, apply, undo.

On top of the admin client, and below the command line: values in, values out, nothing
is printed here.
"""
