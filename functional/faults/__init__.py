"""Faults that are put into real runs of the single controller, one a leg of the chaos job."""
