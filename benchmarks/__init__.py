"""Measurements against pylance's own client: times as ratios from one run, requests as counts."""
