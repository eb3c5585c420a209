"""What runs inside a worker's pytest process: standard library and pytest only, Python >= 3.9.

Loaded by path and kept out of ``sys.path`` and ``sys.modules``, so that a test can neither import
it by accident nor patch it: what these modules use of ``os`` and ``time`` they hold by themselves.
"""
