"""Agents: the reference agents that every installation has, and the adapters of systems under test."""
