"""Operations on groups of any cluster: lag, selection, resets, plans, apply and undo.

They use the admin client and serve the command line: values in, values out, no output.
"""
