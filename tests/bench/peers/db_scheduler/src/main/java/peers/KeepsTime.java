package peers;

import com.github.kagkarlsson.scheduler.task.ExecutionComplete;
import com.github.kagkarlsson.scheduler.task.schedule.Schedule;
import java.time.Duration;
import java.time.Instant;

/**
 * Due again and again after a period, counted from one instant. The kinds of db-scheduler 16.12 drift: a
 * fixed delay counts from the end of an execution, and so does cron when it fires at every second.
 */
record KeepsTime(Instant anchor, long periodMs) implements Schedule {

    @Override
    public Instant getNextExecutionTime(ExecutionComplete done) {
        long passed = Math.floorDiv(Duration.between(anchor, done.getTimeDone()).toMillis(), periodMs);
        return anchor.plusMillis((passed + 1) * periodMs);
    }

    @Override
    public boolean isDeterministic() {
        return true;
    }
}
