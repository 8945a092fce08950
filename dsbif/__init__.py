"""dsbif: does a full-duplex voice agent manage the floor as its role asks?"""

__version__ = "0.1.0"
