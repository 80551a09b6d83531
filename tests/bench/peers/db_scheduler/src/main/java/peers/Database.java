package peers;

import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.net.URI;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;

/** The kinds of database that are measured: their addresses, and the scheduler's table. */
enum Database {
    MARIADB("mysql", "jdbc:mariadb", "varchar(100)", "blob", "timestamp(6)"),
    POSTGRESQL("postgresql", "jdbc:postgresql", "text", "bytea", "timestamptz");

    private final String dialect; // of SQLAlchemy
    private final String protocol;
    private final String text;
    private final String bytes;
    private final String instant;

    Database(String dialect, String protocol, String text, String bytes, String instant) {
        this.dialect = dialect;
        this.protocol = protocol;
        this.text = text;
        this.bytes = bytes;
        this.instant = instant;
    }

    /** The kind that a URL in SQLAlchemy's form leads to; null: none of these. */
    static Database of(String url) {
        for (Database kind : values()) {
            if (url.startsWith(kind.dialect + ":") || url.startsWith(kind.dialect + "+")) {
                return kind;
            }
        }
        return null;
    }

    HikariDataSource connect(String url, int connections) {
        URI address = URI.create(url);
        String[] login = address.getRawUserInfo().split(":", 2);
        HikariConfig config = new HikariConfig();
        config.setJdbcUrl(protocol + "://" + address.getHost() + ":" + address.getPort() + address.getPath());
        config.setUsername(URLDecoder.decode(login[0], StandardCharsets.UTF_8));
        config.setPassword(URLDecoder.decode(login[1], StandardCharsets.UTF_8));
        config.setMaximumPoolSize(connections);
        return new HikariDataSource(config);
    }

    /** Without what priorities need, which are off. */
    void createTable(HikariDataSource source, String name) throws SQLException {
        run(
                source,
                "create table " + name + " ("
                        + "task_name " + text + " not null, task_instance " + text + " not null,"
                        + " primary key (task_name, task_instance),"
                        + " execution_time " + instant + " not null,"
                        + " picked boolean not null, picked_by " + text + ","
                        + " last_heartbeat " + instant + " null, last_success " + instant + " null,"
                        + " last_failure " + instant + " null, consecutive_failures int,"
                        + " task_data " + bytes + ", version bigint not null)",
                "create index ix_" + name + "_due on " + name + " (execution_time)",
                "create index ix_" + name + "_beat on " + name + " (last_heartbeat)");
    }

    void dropTable(HikariDataSource source, String name) throws SQLException {
        run(source, "drop table " + name);
    }

    private static void run(HikariDataSource source, String... statements) throws SQLException {
        try (Connection connection = source.getConnection(); Statement statement = connection.createStatement()) {
            for (String each : statements) {
                statement.execute(each);
            }
        }
    }
}
