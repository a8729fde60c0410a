"""Before labelling: how many items, which ones, and which of them are kept for the test. Pure functions.

``size``: how many items an interval, a lower bound or a correction needs. ``sample``: how many from which stratum, and
which, with their inclusion probabilities; ``rounds``: samples that follow one another. ``splits``: train, dev and test by a stable hash, whole conversations together.
"""
