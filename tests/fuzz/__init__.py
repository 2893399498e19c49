"""Mutated inputs through the command line: whatever they hold, one clear line or a good data set.

python -m pytest tests/fuzz                                   # the same examples each time, about a minute
PREPCLI_FUZZ_EXAMPLES=500 python -m pytest tests/fuzz         # so many per test, new ones each time
PREPCLI_FUZZ_SHRINK=1 python -m pytest tests/fuzz             # a failing example is made smaller (minutes)
"""
