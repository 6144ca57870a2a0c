"""Keras models: built, loaded, rebuilt, as functions of a flat vector; all but `names` load
TensorFlow, when used.
"""
