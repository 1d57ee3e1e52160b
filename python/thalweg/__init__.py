"""The Python side of the thalweg data acquisition: recordings, with :func:`thalweg.open`; registers of IPbus boards, in
:mod:`thalweg.ipbus`; recordings as files of ROOT, with ``python -m thalweg.export_root``."""

from thalweg.normalised import Channel, Corrected, Spectrum, TriggeredEvents
from thalweg.recording import Recording, Waveform, open

__all__ = ["Channel", "Corrected", "Recording", "Spectrum", "TriggeredEvents", "Waveform", "open"]
