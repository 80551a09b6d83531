package interop;

import com.xxl.job.core.context.XxlJobHelper;
import com.xxl.job.core.executor.impl.XxlJobSimpleExecutor;
import com.xxl.job.core.handler.annotation.XxlJob;
import com.xxl.job.core.log.XxlJobFileAppender;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;

/** An executor with the handlers that every client of these tests offers; see tests/interop/README.md. */
public final class Program {

    public static void main(String[] arguments) throws Exception {
        keepUnsentResultsBelow(setting("LOGS"));
        XxlJobSimpleExecutor executor = new XxlJobSimpleExecutor();
        executor.setAdminAddresses(setting("ADMINS"));
        executor.setAccessToken(setting("TOKEN"));
        executor.setAppname(setting("APP"));
        executor.setIp(setting("HOST"));
        executor.setPort(Integer.parseInt(setting("PORT")));
        executor.setLogPath(setting("LOGS"));
        executor.setLogRetentionDays(30);
        executor.setXxlJobBeanList(List.of(new Handlers()));
        Runtime.getRuntime().addShutdownHook(new Thread(executor::destroy));
        executor.start();
        System.out.println("interop ready");
        Thread.currentThread().join();
    }

    /** 3.3 keeps them below /data whatever its log path is: a test would get the results of another. */
    private static void keepUnsentResultsBelow(String logs) throws Exception {
        try {
            Field path = XxlJobFileAppender.class.getDeclaredField("callbackLogPath");
            path.setAccessible(true);
            path.set(null, logs + "/unsent");
        } catch (NoSuchFieldException other) {
            return; // up to 3.2 they are below the log path
        }
    }

    private static String setting(String name) {
        return System.getenv("INTEROP_" + name);
    }

    public static final class Handlers {

        @XxlJob("succeed")
        public void succeed() throws Exception {
            recorded("succeed", () -> {
                XxlJobHelper.log("first line: {}", XxlJobHelper.getJobParam());
                XxlJobHelper.log("second line: {}", XxlJobHelper.getJobParam());
            });
        }

        @XxlJob("fail")
        public void fail() throws Exception {
            recorded("fail", () -> {
                XxlJobHelper.log("about to fail");
                XxlJobHelper.handleFail("failed on purpose");
            });
        }

        @XxlJob("slow")
        public void slow() throws Exception {
            recorded("slow", () -> lines(XxlJobHelper.getJobParam()));
        }

        @XxlJob("shard")
        public void shard() throws Exception {
            recorded("shard", () ->
                XxlJobHelper.log("shard {} of {}", XxlJobHelper.getShardIndex(), XxlJobHelper.getShardTotal()));
        }

        @XxlJob("echo")
        public void echo() throws Exception {
            recorded("echo", () -> XxlJobHelper.handleSuccess(XxlJobHelper.getJobParam()));
        }

        @XxlJob("file")
        public void file() throws Exception {
            recorded("file", () -> { });
        }

        private static void lines(String seconds) throws InterruptedException {
            long end = System.nanoTime() + (long) (Double.parseDouble(seconds) * 1e9);
            for (int line = 1; System.nanoTime() < end; line++) {
                XxlJobHelper.log("line {}", line);
                Thread.sleep(200);
            }
        }

        private interface Body {
            void run() throws Exception;
        }

        private static void recorded(String handler, Body body) throws Exception {
            record("start", handler);
            String outcome = "stop";
            try {
                body.run();
                outcome = "end";
            } finally {
                record(outcome, handler);
            }
        }

        private static void record(String event, String handler) throws Exception {
            String file = setting("RECORD");
            if (file == null) {
                return;
            }
            String line = "%s %s %s %s\n".formatted(event, logId(), handler, XxlJobHelper.getJobParam());
            Files.write(Path.of(file), line.getBytes(StandardCharsets.UTF_8),
                StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        }

        /** Up to 3.2 only the name of the log file tells it, and 3.3 calls that file otherwise. */
        private static String logId() throws Exception {
            try {
                return XxlJobHelper.class.getMethod("getLogId").invoke(null).toString();
            } catch (NoSuchMethodException older) {
                Object file = XxlJobHelper.class.getMethod("getJobLogFileName").invoke(null);
                return Path.of(file.toString()).getFileName().toString().replace(".log", "");
            }
        }
    }
}
