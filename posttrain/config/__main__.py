"""Print the table of recipe keys for docs/recipes.md: ``python -m posttrain.config``."""

import sys

from posttrain.config.entries import ENTRY_POINTS
from posttrain.config.keys import documented_keys, table

sys.stdout.write(table(documented_keys(ENTRY_POINTS)))
