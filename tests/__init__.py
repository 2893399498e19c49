import os

# Before PyTorch is imported, as the commands do: its threads would else wait for each other in busy loops, against
# those of the other tests.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
