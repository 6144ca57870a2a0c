"""Keras models: built, loaded, rebuilt in another precision, as functions of one flat vector; all modules but `names`
load TensorFlow, when something is computed."""
