import sys
from culm.testing.simulation.seeds import run_seed
from collections import Counter
import time

a = int(sys.argv[1])
b = int(sys.argv[2])
trace = "--trace" in sys.argv
total = Counter()
bad = 0
t0 = time.process_time()
for seed in range(a, b):
    t = time.process_time()
    out = run_seed(seed, print if trace else None)
    dt = time.process_time() - t
    total += out.counts
    if "-v" in sys.argv:
        print(seed, f"{dt:.2f} s cpu", f"{out.seconds:.0f} s", out.callbacks)
    if out.failures:
        bad += 1
        f = out.failures[0]
        print(
            "FAILED", seed, f"{f.at:.2f}", f.text, f.trace if "-t" in sys.argv else f.trace.strip().split("\n")[-4:-1]
        )
print(bad, "of", b - a, "cpu", (time.process_time() - t0) / (b - a))
if "-c" in sys.argv:
    for k, v in sorted(total.items()):
        print(f"{v:8} {k}")
