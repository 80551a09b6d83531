"""Effect receipts: a row in the service's own database says which effects are committed.

`run.receipt(connection)` writes the row inside the transaction that does the work. So the row is
there if and only if the work is, whatever dies in between, and everything else follows from the
primary key of its table:

* Nothing there: the row is written, and commits or vanishes with the work.
* A row that is *done*: the work is committed. `AlreadyDone` ends the run as succeeded, with the
  result that the row has. This is how a lost run is settled, and how a redelivery ends.
* A row that is *claimed*: an attempt has said in a transaction of its own that it is about to begin
  (`executor.receipts`, before its handler is called). An attempt with a lower number is stale: it
  gets `StaleAttemptError`, and its transaction cannot commit the work.

Two attempts at the same time. Whoever writes the row first holds a lock on its key until its
transaction ends; the other one waits in its INSERT. When the first commits, the second finds the
row done; when it rolls back, the second writes its own. No read decides anything that is not a
*locking* read of a row that exists, because a snapshot (REPEATABLE READ) may be older than the
other one's commit. PostgreSQL does not wait for such a read to be wrong: at REPEATABLE READ it
fails the statement, and so the attempt, whose next try finds the row. SQLite has one writer, and
refuses an INSERT upon a snapshot that is no longer current. So in every order of the statements of
two attempts, at most one transaction with the row commits; tests play all of them.

What identifies an effect is the run with its job and its instant, not the number alone: a database
of admins that was restored from a backup gives numbers out a second time, and a new run must not be
taken for an old one that is done. A retry by hand is a new run, hence a new effect, unless the
handler names the effect itself (`key`).

The row is no lock that outlives a transaction, and nothing has to be cleaned up after a crash.
Rows are deleted by age (`purge_receipts`), once their runs cannot be delivered any more.
"""

from .table import create_receipt_table, purge_receipts, receipt_table_ddl

__all__ = ["create_receipt_table", "purge_receipts", "receipt_table_ddl"]
