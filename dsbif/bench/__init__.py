"""What the benchmark says: actions, levels, roles, probes, windows, the grid, cases and their manifest.

Nothing here knows of audio, models or configuration machinery.
"""
