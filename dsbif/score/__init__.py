"""From a recording to a verdict: hear, measure, judge.

* ``vad`` is the only module that opens audio: two channels in, spans and levels out, or the reason why not.
  ``audio_check`` says what can be trusted.
* ``measure`` turns spans into durations, with ``readback`` for the transcript. No threshold is known there.
* ``verdict`` turns durations and ``thresholds`` into pass or fail. No audio is known there.
* ``sweep`` judges 180 times; ``rows`` is what reports fold over.

Each of them lists its conventions, and its divergences from the paper by number with the way each bends the score.
"""

RULES_VERSION = "1"
"""Stamped into every output; raised with every change that can change a verdict."""
