"""Print the page that documents the metrics: ``python -m posttrain.metrics > docs/metrics.md``."""

import sys

from posttrain.metrics.table import page

sys.stdout.write(page())
