"""Rollouts: dataset rows sent through a Gym agent, and its answers as samples."""
