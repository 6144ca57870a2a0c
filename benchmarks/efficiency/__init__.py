"""Effective draws per gradient and per second, ours and the peers, nothing tuned by hand on either
side.
"""
