package peers;

import java.nio.file.Path;
import java.time.Instant;

/** What the bench asks for, as the environment says it; see tests/bench/peers/README.md. */
record Order(int schedules, Instant dueAt, Long periodMs, String databaseUrl, Path output) {

    static Order fromEnvironment() {
        String period = given("PERIOD_MS");
        return new Order(
                Integer.parseInt(given("SCHEDULES")),
                Instant.ofEpochMilli(Long.parseLong(given("DUE_AT"))),
                period.isEmpty() ? null : Long.valueOf(period),
                given("DATABASE_URL"),
                Path.of(given("OUTPUT")));
    }

    boolean recurs() {
        return periodMs != null;
    }

    private static String given(String name) {
        return System.getenv("PEER_" + name);
    }
}
