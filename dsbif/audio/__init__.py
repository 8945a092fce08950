"""The machine room for samples: files, sampling rates, voice activity. Mono is float32 [n], two channels [n, 2]."""
