"""``python child.py COMMAND…``: run a command, and print as JSON what it has printed and what it took.

What a process is said to have needed of memory begins with the size of who started it: so this imports next to nothing.
"""

import json
import subprocess
import sys
import time

if __name__ == "__main__":
    if sys.platform == "win32":
        sys.exit("Windows does not tell what a child has taken")
    import resource

    started = time.perf_counter()
    done = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, text=True, encoding="utf-8")  # noqa: S603 - our own
    wall, used = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    peak = used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    cpu = used.ru_utime + used.ru_stime
    print(json.dumps({"stdout": done.stdout, "cpu": cpu, "wall": wall, "peak_bytes": peak}))
    sys.exit(done.returncode)
