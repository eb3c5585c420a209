"""Print the table of recipe keys for docs/recipes.md: ``python -m posttrain.config``."""

import sys

from posttrain.config.keys import schema_keys, table
from posttrain.config.schema import Recipe

sys.stdout.write(table(schema_keys(Recipe)))
