"""From written scripts to user audio and a manifest."""
