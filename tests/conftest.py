import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for `planted`, the representations that tests share

# One thread, before numpy is loaded: results must not depend on it, and small problems are faster with one.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
os.environ.pop("KARENINA_DATA", None)
