"""Coverage: measured in every process of an item, combined over items, gated on the patch."""
