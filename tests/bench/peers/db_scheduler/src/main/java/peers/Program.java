package peers;

import com.github.kagkarlsson.scheduler.Scheduler;
import com.github.kagkarlsson.scheduler.task.ExecutionContext;
import com.github.kagkarlsson.scheduler.task.Task;
import com.github.kagkarlsson.scheduler.task.TaskInstance;
import com.github.kagkarlsson.scheduler.task.VoidExecutionHandler;
import com.github.kagkarlsson.scheduler.task.helper.Tasks;
import com.zaxxer.hikari.HikariDataSource;
import java.io.IOException;
import java.io.InputStream;
import java.util.Properties;
import java.util.stream.IntStream;

/** db-scheduler as a peer: one process, one instance of one task for each schedule. */
public final class Program {

    private static final String TASK = "handle";
    private static final String TABLE = "scheduled_tasks";

    public static void main(String[] arguments) {
        System.setProperty("org.slf4j.simpleLogger.defaultLogLevel", "warn");
        try {
            run(Order.fromEnvironment());
        } catch (Exception error) {
            error.printStackTrace();
            System.err.println(error); // the bench shows the last line
            System.exit(1);
        }
    }

    private static void run(Order order) throws Exception {
        Output output = new Output(order.output());
        Database kind = Database.of(order.databaseUrl());
        if (kind == null) {
            output.cannot("it is set up for MariaDB and PostgreSQL only");
            return;
        }
        HikariDataSource source = kind.connect(order.databaseUrl(), Settings.CONNECTIONS);
        WarmUp.run(kind, source);
        kind.createTable(source, TABLE);
        Task<Void> task = task(order, output);
        Scheduler scheduler = Settings.scheduler(kind, source, TABLE, task);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> stop(scheduler, source)));
        scheduler.scheduleBatch(
                IntStream.range(0, order.schedules()).mapToObj(number -> task.instance("" + number)),
                order.dueAt());
        scheduler.start();
        String tasks = order.recurs() ? "a recurring task" : "one-time tasks";
        output.ready("db-scheduler " + version() + ", " + tasks + ", " + Settings.described(kind));
    }

    private static Task<Void> task(Order order, Output output) {
        VoidExecutionHandler<Void> handler = (instance, context) -> handle(output, instance, context);
        if (!order.recurs()) {
            return Tasks.oneTime(TASK).execute(handler);
        }
        return Tasks.recurring(TASK, new KeepsTime(order.dueAt(), order.periodMs()))
                .doNotScheduleOnStartup() // that would be one instance; there is one for each schedule
                .execute(handler);
    }

    private static void handle(Output output, TaskInstance<Void> instance, ExecutionContext context) {
        output.started(instance.getId(), context.getExecution().executionTime.toEpochMilli());
    }

    private static void stop(Scheduler scheduler, HikariDataSource source) {
        scheduler.stop();
        source.close();
    }

    private static String version() throws IOException {
        String path = "/META-INF/maven/com.github.kagkarlsson/db-scheduler/pom.properties";
        Properties found = new Properties();
        try (InputStream file = Scheduler.class.getResourceAsStream(path)) {
            found.load(file);
        }
        return found.getProperty("version");
    }
}
