"""Keras models: built, loaded, rebuilt in another precision, and as functions of one flat vector.

The modules are imported when something is computed: all but `names` load TensorFlow.
"""
