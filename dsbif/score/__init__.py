"""From a recording to a verdict: hear, measure, judge.

* ``vad`` is the only module that touches audio: two channels in, spans and levels out, or the reason why not.
* ``measure`` turns spans into durations. No threshold is known there.
* ``verdict`` turns durations and thresholds into pass or fail. No audio is known there.
"""

RULES_VERSION = "1"
"""Stamped into every output; raised with every change that can change a verdict."""
