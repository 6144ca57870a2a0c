"""Core: states, energies, the protocols of all rooms, math for NumPy and TensorFlow, errors, and
the door to Keras.
"""
