"""Keras models: built, loaded, rebuilt in another precision, and seen as a function of one flat vector.

The modules are imported when something is computed: all but `names` load TensorFlow.
"""
