"""Background loops, each one class with a run_once() that tests call directly.

planner: due triggers become queued runs · dispatcher: queued runs are claimed and sent to nodes ·
recorder: reports of nodes become moves of runs · sweeper: deadlines, lost and stalled runs ·
leases: which nodes and admins are alive · notifier: tells other admins what changed ·
refresher: triggers after a change of a calendar or of time zones · cleaner: deletes old rows ·
rollup: figures of hours.
The clock, randomness, the store and the transport are parameters: nothing here asks the process
for the time.
"""
