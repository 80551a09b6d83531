package interop;

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import org.quartz.utils.ConnectionProvider;

/** Connections without a pool. */
public class Plain implements ConnectionProvider {
    private String url;

    public void setURL(String url) {
        this.url = url;
    }

    @Override
    public Connection getConnection() throws SQLException {
        return DriverManager.getConnection(url);
    }

    @Override
    public void initialize() {}

    @Override
    public void shutdown() {}
}
