"""Merge: run folders of one plan into one run, in which every planned item is accounted for."""
