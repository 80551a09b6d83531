"""Which fires an XXL-JOB installation lost, doubled or ran late, from its jobs and its log.

    LogRow → stored_clock (DATETIME → instant) → origin (why it ran)
           → matching (the instants of a job's schedule against its rows) → figures → report

XXL-JOB does not store for which instant a run was: it is concluded from the order and the times.
"""
