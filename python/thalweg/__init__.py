"""The Python side of the thalweg data acquisition. So far: registers of IPbus boards, in :mod:`thalweg.ipbus`."""
