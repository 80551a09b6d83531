package interop;

import java.io.Serializable;
import org.quartz.DisallowConcurrentExecution;
import org.quartz.Job;
import org.quartz.JobExecutionContext;
import org.quartz.PersistJobDataAfterExecution;
import org.quartz.impl.triggers.SimpleTriggerImpl;

/** Classes that the tables name. */
public final class Jobs {
    public static class Report implements Job {
        @Override
        public void execute(JobExecutionContext context) {}
    }

    @DisallowConcurrentExecution
    @PersistJobDataAfterExecution
    public static class OneByOne implements Job {
        @Override
        public void execute(JobExecutionContext context) {}
    }

    /** What a job's data may hold and nobody else can read. */
    public static class Money implements Serializable {
        private static final long serialVersionUID = 1;
        int cents = 250;
    }

    /** A trigger that Quartz can only store as a serialised object. */
    public static class Odd extends SimpleTriggerImpl {
        private static final long serialVersionUID = 1;

        @Override
        public boolean hasAdditionalProperties() {
            return true;
        }
    }

    private Jobs() {}
}
