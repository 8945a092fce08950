"""The language judge: does what the agent said fit its role? It never sees when anything was said."""
