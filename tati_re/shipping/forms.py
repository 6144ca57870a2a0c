"""The forms in which a predictor is stored. The commands read them, so nothing is imported here."""

TATI = "tati"
KERAS = "keras"
SAVED_MODEL = "savedmodel"
NPZ = "npz"
ENDINGS = {TATI: ".tati", KERAS: ".keras", SAVED_MODEL: "", NPZ: ".npz"}
"""Endings of the paths of each form; that of a SavedModel is a folder."""
