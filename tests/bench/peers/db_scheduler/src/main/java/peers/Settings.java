package peers;

import com.github.kagkarlsson.scheduler.Scheduler;
import com.github.kagkarlsson.scheduler.SchedulerBuilder;
import com.github.kagkarlsson.scheduler.task.Task;
import java.time.Duration;
import javax.sql.DataSource;

/** How the scheduler is set up: by its guide, for many short tasks and little lateness. */
final class Settings {

    static final int CONNECTIONS = 25; // for the threads, the poll, heartbeats, and what is stored
    private static final int THREADS = 20;
    private static final double LOWER = 1.0; // more is fetched when so few are left, times the threads …
    private static final double UPPER = 4.0; // … and never more than so many
    private static final Duration STOP = Duration.ofSeconds(5);

    static Scheduler scheduler(Database kind, DataSource source, String table, Task<?> task) {
        SchedulerBuilder builder =
                Scheduler.create(source, task)
                        .tableName(table)
                        .threads(THREADS)
                        .pollingInterval(poll(kind))
                        .enableImmediateExecution()
                        .shutdownMaxWait(STOP);
        if (kind == Database.POSTGRESQL) {
            builder.pollUsingLockAndFetch(LOWER, UPPER);
        } else {
            builder.pollUsingFetch(LOWER, UPPER).alwaysPersistTimestampInUTC();
        }
        return builder.build();
    }

    /** A poll of `fetch` drops what the poll before it has queued: more of them cost throughput. */
    private static Duration poll(Database kind) {
        return Duration.ofMillis(kind == Database.POSTGRESQL ? 20 : 50);
    }

    static String described(Database kind) {
        String strategy = kind == Database.POSTGRESQL ? "lock-and-fetch" : "fetch";
        return String.format(
                "%d threads, %s (%s, %s), a poll every %d ms", THREADS, strategy, LOWER, UPPER, poll(kind).toMillis());
    }
}
