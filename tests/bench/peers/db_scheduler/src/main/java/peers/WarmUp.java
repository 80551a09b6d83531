package peers;

import com.github.kagkarlsson.scheduler.Scheduler;
import com.github.kagkarlsson.scheduler.task.helper.OneTimeTask;
import com.github.kagkarlsson.scheduler.task.helper.Tasks;
import com.zaxxer.hikari.HikariDataSource;
import java.time.Instant;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;

/** Runs tasks that do nothing, so that what is measured is compiled code, as after hours of work. */
final class WarmUp {

    private static final int TASKS = 3_000;
    private static final long AT_MOST_SECONDS = 4;
    private static final String TABLE = "warm_up";

    static void run(Database kind, HikariDataSource source) throws Exception {
        CountDownLatch left = new CountDownLatch(TASKS);
        OneTimeTask<Void> task = Tasks.oneTime("warm-up").execute((instance, context) -> left.countDown());
        kind.createTable(source, TABLE);
        Scheduler scheduler = Settings.scheduler(kind, source, TABLE, task);
        scheduler.scheduleBatch(
                IntStream.range(0, TASKS).mapToObj(number -> task.instance("" + number)), Instant.now());
        scheduler.start();
        left.await(AT_MOST_SECONDS, TimeUnit.SECONDS);
        scheduler.stop();
        kind.dropTable(source, TABLE);
    }
}
