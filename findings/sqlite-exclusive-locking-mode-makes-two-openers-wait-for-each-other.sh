#!/usr/bin/env bash
# SQLite 3.46.1 (pysqlite3-binary 0.5.4; 3.40.1, too): a connection in the locking mode of one process
# keeps the lock for reading that a `begin exclusive` has taken, also while that waits because another process has the
# file. Two who begin at one moment, both in this mode, then each hold what the other waits for. Nobody is told of a
# deadlock: both wait until the timeout of one is over, though a second try a millisecond later would have done.
#
# Seen: with the mode set first, at least one of two processes waited out its 5 s; with the mode set within the
# transaction, none did.
# Why it matters: a file that one process at a time shall have is opened by `pragma locking_mode=exclusive; begin
# exclusive`. Where a service and a command open it together, both stand still. In the normal mode the lock for reading
# is given back before each new try: so set the mode inside the transaction.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pysqlite3-binary==0.5.4
cat > "$folder/open.py" <<'END'
import sys
from multiprocessing import Barrier, Process, Queue

from pysqlite3 import dbapi2 as sqlite3

FIRST = "pragma locking_mode=exclusive; begin exclusive; commit"
WITHIN = "begin exclusive; pragma locking_mode=exclusive; commit"

def opened(path, script, start, told):
    locked = 0
    start.wait()
    for _ in range(300):
        connection = sqlite3.connect(path, timeout=5, isolation_level=None)
        try:
            connection.executescript(script)
        except sqlite3.OperationalError as error:
            assert "locked" in str(error)
            locked += 1
        connection.close()
        if locked:
            break
    told.put(locked)

def stood_still(path, script):
    start, told = Barrier(2), Queue()
    both = [Process(target=opened, args=(path, script, start, told)) for _ in range(2)]
    [each.start() for each in both]
    [each.join() for each in both]
    return sum(told.get() for _ in both)

if __name__ == "__main__":
    path = sys.argv[1]
    with sqlite3.connect(path) as made:
        made.execute("create table t(x)")
    made.close()
    first, within = stood_still(path, FIRST), stood_still(path, WITHIN)
    print(f"SQLite {sqlite3.sqlite_version}")
    print(f"the mode first: {first} of 2 processes waited out 5 s at least once")
    print(f"the mode within the transaction: {within} of 2")
    assert first > 0 and within == 0
END
"$folder/venv/bin/python" "$folder/open.py" "$folder/file.sqlite"
