package interop;

import static org.quartz.CalendarIntervalScheduleBuilder.calendarIntervalSchedule;
import static org.quartz.CronScheduleBuilder.cronSchedule;
import static org.quartz.DailyTimeIntervalScheduleBuilder.dailyTimeIntervalSchedule;
import static org.quartz.JobBuilder.newJob;
import static org.quartz.SimpleScheduleBuilder.simpleSchedule;
import static org.quartz.TriggerBuilder.newTrigger;

import java.io.InputStream;
import java.io.PrintStream;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.Statement;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Date;
import java.util.GregorianCalendar;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TimeZone;
import org.quartz.Calendar;
import org.quartz.CronScheduleBuilder;
import org.quartz.DateBuilder.IntervalUnit;
import org.quartz.JobDataMap;
import org.quartz.JobDetail;
import org.quartz.JobKey;
import org.quartz.ScheduleBuilder;
import org.quartz.Scheduler;
import org.quartz.TimeOfDay;
import org.quartz.Trigger;
import org.quartz.TriggerKey;
import org.quartz.impl.StdSchedulerFactory;
import org.quartz.impl.calendar.AnnualCalendar;
import org.quartz.impl.calendar.BaseCalendar;
import org.quartz.impl.calendar.CronCalendar;
import org.quartz.impl.calendar.DailyCalendar;
import org.quartz.impl.calendar.HolidayCalendar;
import org.quartz.impl.calendar.MonthlyCalendar;
import org.quartz.impl.calendar.WeeklyCalendar;
import org.quartz.impl.matchers.GroupMatcher;
import org.quartz.spi.OperableTrigger;

/** Writes every kind of trigger, calendar and job data, and prints the next fires of each trigger. */
public final class Tables {
    private static final int FIRES = 50;
    private static final TimeZone BERLIN = TimeZone.getTimeZone("Europe/Berlin");

    private final String url;

    private Tables(String url) {
        this.url = url;
    }

    public static void main(String[] args) throws Exception {
        TimeZone.setDefault(BERLIN);
        Tables tables = new Tables(args[0]);
        tables.create();
        Map<String, List<Long>> fires = new LinkedHashMap<>();
        Scheduler billing = tables.scheduler("billing", false);
        tables.calendars(billing);
        tables.crons(billing);
        tables.others(billing);
        tables.withCalendars(billing);
        tables.states(billing);
        tables.data(billing);
        tables.print(billing, fires);
        billing.shutdown();
        Scheduler plain = tables.scheduler("plain", true);
        JobDetail job = newJob(Jobs.Report.class).withIdentity("properties").storeDurably()
            .usingJobData("city", "Köln = \"C\" #1\n:").usingJobData("empty", "").build();
        plain.addJob(job, true);
        plain.shutdown();
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        out.println("{");
        int left = fires.size();
        for (Map.Entry<String, List<Long>> each : fires.entrySet()) {
            out.println("\"" + each.getKey() + "\": " + each.getValue() + (--left > 0 ? "," : ""));
        }
        out.println("}");
    }

    private void create() throws Exception {
        String script;
        try (InputStream in = Scheduler.class.getResourceAsStream(
                "/org/quartz/impl/jdbcjobstore/tables_mysql_innodb.sql")) {
            script = new String(in.readAllBytes(), StandardCharsets.UTF_8);
        }
        try (Connection connection = DriverManager.getConnection(url);
                Statement statement = connection.createStatement()) {
            for (String each : script.replaceAll("(?m)^#.*$", "").split(";")) {
                if (!each.isBlank()) {
                    statement.execute(each);
                }
            }
        }
    }

    private Scheduler scheduler(String name, boolean useProperties) throws Exception {
        Properties all = new Properties();
        all.setProperty("org.quartz.scheduler.instanceName", name);
        all.setProperty("org.quartz.scheduler.skipUpdateCheck", "true");
        all.setProperty("org.quartz.threadPool.threadCount", "1");
        all.setProperty("org.quartz.jobStore.class", "org.quartz.impl.jdbcjobstore.JobStoreTX");
        all.setProperty("org.quartz.jobStore.driverDelegateClass",
            "org.quartz.impl.jdbcjobstore.StdJDBCDelegate");
        all.setProperty("org.quartz.jobStore.useProperties", String.valueOf(useProperties));
        all.setProperty("org.quartz.jobStore.dataSource", "db");
        all.setProperty("org.quartz.dataSource.db.connectionProvider.class", Plain.class.getName());
        all.setProperty("org.quartz.dataSource.db.URL", url);
        return new StdSchedulerFactory(all).getScheduler();
    }

    private static Date at(String instant) {
        return Date.from(Instant.parse(instant));
    }

    private static Date day(int year, int month, int day) {
        return new GregorianCalendar(year, month - 1, day).getTime();
    }

    private static JobDetail job(String name) {
        return newJob(Jobs.Report.class).withIdentity(name).storeDurably().build();
    }

    private static Trigger trigger(String job, String name, String start, ScheduleBuilder<?> schedule) {
        return newTrigger().withIdentity(name, job).forJob(job).startAt(at(start)).withSchedule(schedule).build();
    }

    private void crons(Scheduler scheduler) throws Exception {
        String[][] cases = {
            // expression, zone, from
            {"0 30 2 * * ?", "Europe/Berlin", "2026-03-20T00:00:00Z"},
            {"0 30 2 * * ?", "Europe/Berlin", "2026-10-10T00:00:00Z"},
            {"0 0/10 * * * ?", "Europe/Berlin", "2026-03-28T22:05:00Z"},
            {"0 0/10 * * * ?", "Europe/Berlin", "2026-10-24T22:05:00Z"},
            {"0 0 * * * ?", "America/New_York", "2026-11-01T00:00:00Z"},
            {"0 15 1-3 * * ?", "America/New_York", "2026-10-25T00:00:00Z"},
            {"0 15 1-3 * * ?", "America/New_York", "2026-03-01T00:00:00Z"},
            {"0 0/15 1-3 * * ?", "Australia/Lord_Howe", "2026-04-03T00:00:00Z"},
            {"0 0/15 1-3 * * ?", "Australia/Lord_Howe", "2026-10-02T00:00:00Z"},
            {"0 15 10 ? * 6L", "Europe/Berlin", "2026-01-01T00:00:00Z"},
            {"0 15 10 ? * 6#3", "Asia/Shanghai", "2026-01-01T00:00:00Z"},
            {"0 0 12 LW * ?", "Europe/Berlin", "2026-01-01T00:00:00Z"},
            {"0 0 9 L-3 * ?", "Europe/Berlin", "2026-01-01T00:00:00Z"},
            {"0 0 0 15W * ?", "Europe/Berlin", "2026-01-01T00:00:00Z"},
            {"0 0 8 ? * MON-FRI", "Europe/Berlin", "2026-03-20T00:00:00Z"},
            {"0 0 8 ? * 1", "UTC", "2026-03-20T00:00:00Z"},
            {"0 0 2 29 2 ? 2024-2096", "UTC", "2026-01-01T00:00:00Z"},
            {"59 59 23 31 12 ? 2026-2030", "Asia/Shanghai", "2026-01-01T00:00:00Z"},
            {"15,45 0 */2 1/5 JAN,JUL ?", "Europe/Berlin", "2026-01-01T00:00:00Z"},
            {"0 0 22-2 ? * FRI-SUN", "Europe/Berlin", "2026-10-20T00:00:00Z"},
            {"0 0 9 1 * ?", "GMT+08:00", "2026-01-01T00:00:00Z"},
        };
        scheduler.addJob(job("cron"), true);
        int number = 0;
        for (String[] each : cases) {
            scheduler.scheduleJob(trigger("cron", String.format("cron-%02d", ++number), each[2],
                cronSchedule(each[0]).inTimeZone(TimeZone.getTimeZone(each[1]))));
        }
        scheduler.scheduleJob(newTrigger().withIdentity("cron-ends", "cron").forJob("cron")
            .startAt(at("2026-05-01T10:00:00Z")).endAt(at("2026-05-20T06:00:00Z"))
            .withSchedule(cronSchedule("0 0 8 * * ?").inTimeZone(BERLIN)).build());
    }

    private void others(Scheduler scheduler) throws Exception {
        scheduler.addJob(job("simple"), true);
        String start = "2026-03-20T10:00:00.250Z";
        scheduler.scheduleJob(trigger("simple", "forever", start, simpleSchedule().withIntervalInMinutes(7).repeatForever()));
        scheduler.scheduleJob(trigger("simple", "twenty", start, simpleSchedule().withIntervalInHours(1).withRepeatCount(19)));
        scheduler.scheduleJob(trigger("simple", "once", start, simpleSchedule()));
        scheduler.scheduleJob(trigger("simple", "quick", start, simpleSchedule().withIntervalInMilliseconds(1500).repeatForever()));
        scheduler.scheduleJob(trigger("simple", "too-quick", start, simpleSchedule().withIntervalInMilliseconds(20).repeatForever()));
        scheduler.scheduleJob(newTrigger().withIdentity("ends", "simple").forJob("simple").startAt(at(start))
            .endAt(at("2026-03-20T14:00:00.250Z")).withSchedule(simpleSchedule().withIntervalInMinutes(30).repeatForever()).build());

        scheduler.addJob(job("interval"), true);
        start = "2026-03-20T06:15:30.500Z";
        IntervalUnit[] units = IntervalUnit.values();
        for (IntervalUnit unit : units) {
            if (unit == IntervalUnit.MILLISECOND) {
                continue;
            }
            scheduler.scheduleJob(trigger("interval", "each-2-" + unit.name().toLowerCase(), start,
                calendarIntervalSchedule().inTimeZone(BERLIN).withInterval(2, unit)));
        }
        scheduler.scheduleJob(trigger("interval", "month-end", "2026-01-31T08:00:00Z",
            calendarIntervalSchedule().inTimeZone(BERLIN).withInterval(1, IntervalUnit.MONTH)));
        scheduler.scheduleJob(trigger("interval", "new-york", "2026-10-20T13:00:00Z",
            calendarIntervalSchedule().inTimeZone(TimeZone.getTimeZone("America/New_York")).withIntervalInDays(1)
                .preserveHourOfDayAcrossDaylightSavings(true)));
        scheduler.scheduleJob(trigger("interval", "skips-gap", "2026-03-20T01:30:00Z",
            calendarIntervalSchedule().inTimeZone(BERLIN).withIntervalInDays(1)
                .preserveHourOfDayAcrossDaylightSavings(true).skipDayIfHourDoesNotExist(true)));
        scheduler.scheduleJob(trigger("interval", "twice-shown", "2026-10-20T00:30:00Z",
            calendarIntervalSchedule().inTimeZone(BERLIN).withIntervalInDays(1)));
        scheduler.scheduleJob(newTrigger().withIdentity("interval-ends", "interval").forJob("interval").startAt(at(start))
            .endAt(at("2026-03-30T05:15:30.500Z")).withSchedule(calendarIntervalSchedule().inTimeZone(BERLIN).withIntervalInDays(1)).build());

        scheduler.addJob(job("daily"), true);
        scheduler.scheduleJob(trigger("daily", "office", "2026-03-27T10:07:00Z", dailyTimeIntervalSchedule().withIntervalInMinutes(45)
            .startingDailyAt(TimeOfDay.hourAndMinuteOfDay(9, 0)).endingDailyAt(TimeOfDay.hourAndMinuteOfDay(17, 30)).onMondayThroughFriday()));
        scheduler.scheduleJob(trigger("daily", "all-day", "2026-03-28T10:07:00Z", dailyTimeIntervalSchedule().withIntervalInHours(1)));
        scheduler.scheduleJob(trigger("daily", "all-day-autumn", "2026-10-24T10:07:00Z", dailyTimeIntervalSchedule().withIntervalInMinutes(30)));
        scheduler.scheduleJob(trigger("daily", "ten-times", "2026-03-27T10:07:00Z", dailyTimeIntervalSchedule().withIntervalInSeconds(90)
            .startingDailyAt(new TimeOfDay(22, 0, 15)).onSaturdayAndSunday().withRepeatCount(9)));
    }

    private void calendars(Scheduler scheduler) throws Exception {
        AnnualCalendar annual = new AnnualCalendar();
        annual.setDayExcluded(new GregorianCalendar(2026, 11, 25), true);
        annual.setDayExcluded(new GregorianCalendar(2020, 4, 1), true);
        HolidayCalendar holidays = new HolidayCalendar(annual);
        holidays.addExcludedDate(day(2026, 4, 3));
        holidays.addExcludedDate(day(2026, 4, 6));
        WeeklyCalendar weekly = new WeeklyCalendar(holidays); // Saturday and Sunday
        MonthlyCalendar monthly = new MonthlyCalendar();
        monthly.setDayExcluded(1, true);
        monthly.setDayExcluded(31, true);
        DailyCalendar night = new DailyCalendar("22:00", "23:59:59:999");
        DailyCalendar office = new DailyCalendar("08:00", "17:00");
        office.setInvertTimeRange(true);
        CronCalendar cron = new CronCalendar(null, "* * 0-7,18-23 ? * *", BERLIN);
        BaseCalendar none = new BaseCalendar();
        none.setDescription("leaves everything");
        BaseCalendar shanghai = new WeeklyCalendar();
        shanghai.setTimeZone(TimeZone.getTimeZone("Asia/Shanghai"));
        Map<String, Calendar> all = new LinkedHashMap<>();
        all.put("annual", annual);
        all.put("holidays", holidays);
        all.put("workdays", weekly);
        all.put("monthly", monthly);
        all.put("night", night);
        all.put("office", office);
        all.put("cron", cron);
        all.put("none", none);
        all.put("shanghai", shanghai);
        for (Map.Entry<String, Calendar> each : all.entrySet()) {
            scheduler.addCalendar(each.getKey(), each.getValue(), true, false);
        }
    }

    private void withCalendars(Scheduler scheduler) throws Exception {
        scheduler.addJob(job("calendars"), true);
        for (String name : scheduler.getCalendarNames()) {
            scheduler.scheduleJob(newTrigger().withIdentity("hourly-" + name, "calendars").forJob("calendars").modifiedByCalendar(name)
                .startAt(at("2026-03-27T00:00:00Z")).withSchedule(cronSchedule("0 0 0/3 * * ?").inTimeZone(BERLIN)).build());
            scheduler.scheduleJob(newTrigger().withIdentity("simple-" + name, "calendars").forJob("calendars").modifiedByCalendar(name)
                .startAt(at("2026-03-27T00:00:00Z")).withSchedule(simpleSchedule().withIntervalInHours(5).withRepeatCount(60)).build());
        }
        scheduler.scheduleJob(newTrigger().withIdentity("daily-workdays", "calendars").forJob("calendars").modifiedByCalendar("workdays")
            .startAt(at("2026-03-27T00:00:00Z")).withSchedule(dailyTimeIntervalSchedule().withIntervalInHours(4)).build());
    }

    private void states(Scheduler scheduler) throws Exception {
        scheduler.addJob(newJob(Jobs.OneByOne.class).withIdentity("states", "nightly").withDescription("Closes the books")
            .requestRecovery().storeDurably().build(), true);
        CronScheduleBuilder[] policies = {
            cronSchedule("0 0 1 * * ?"), cronSchedule("0 0 2 * * ?").withMisfireHandlingInstructionDoNothing(),
            cronSchedule("0 0 3 * * ?").withMisfireHandlingInstructionFireAndProceed(),
            cronSchedule("0 0 4 * * ?").withMisfireHandlingInstructionIgnoreMisfires(),
        };
        for (int index = 0; index < policies.length; index++) {
            scheduler.scheduleJob(newTrigger().withIdentity("policy-" + index, "nightly").forJob("states", "nightly").withPriority(index * 4)
                .withDescription("number " + index).usingJobData("number", index).startAt(at("2026-06-01T00:00:00Z"))
                .withSchedule(policies[index].inTimeZone(TimeZone.getTimeZone("UTC"))).build());
        }
        scheduler.pauseTrigger(TriggerKey.triggerKey("policy-1", "nightly"));
        scheduler.scheduleJob(newTrigger().withIdentity("in-paused-group", "reports").forJob("states", "nightly")
            .startAt(at("2026-06-01T00:00:00Z")).withSchedule(simpleSchedule().withIntervalInHours(6).repeatForever()).build());
        scheduler.pauseTriggers(GroupMatcher.triggerGroupEquals("reports"));
        scheduler.addJob(job("by-hand"), true);
        Jobs.Odd odd = new Jobs.Odd();
        odd.setKey(TriggerKey.triggerKey("odd", "odd"));
        odd.setJobKey(JobKey.jobKey("by-hand"));
        odd.setStartTime(at("2026-06-01T00:00:00Z"));
        odd.setRepeatCount(-1);
        odd.setRepeatInterval(60_000);
        scheduler.scheduleJob(odd);
    }

    private void data(Scheduler scheduler) throws Exception {
        JobDataMap map = new JobDataMap();
        map.put("text", "Grüße, 世界 🌍");
        map.put("number", 42);
        map.put("big", 9_007_199_254_740_993L);
        map.put("ratio", 0.25);
        map.put("price", new BigDecimal("12.50"));
        map.put("yes", true);
        map.put("letter", 'x');
        map.put("nothing", null);
        map.put("when", at("2026-03-20T10:00:00.250Z"));
        map.put("day", java.time.LocalDate.of(2026, 3, 20));
        map.put("list", new ArrayList<>(List.of("a", 1, List.of(true))));
        map.put("fixed", List.of("b", 2));
        map.put("array", new String[] {"c", "d"});
        map.put("numbers", new int[] {1, 2});
        map.put("unit", IntervalUnit.DAY);
        map.put("id", java.util.UUID.fromString("123e4567-e89b-12d3-a456-426614174000"));
        map.put("nested", new LinkedHashMap<>(Map.of("key", new java.util.HashMap<>(Map.of("deep", 1)))));
        scheduler.addJob(newJob(Jobs.Report.class).withIdentity("data").usingJobData(map).storeDurably().build(), true);
        JobDataMap odd = new JobDataMap();
        odd.put("fine", "yes");
        odd.put("money", new Jobs.Money());
        scheduler.addJob(newJob(Jobs.Report.class).withIdentity("odd-data").usingJobData(odd).storeDurably().build(), true);
    }

    private void print(Scheduler scheduler, Map<String, List<Long>> fires) throws Exception {
        for (String group : scheduler.getTriggerGroupNames()) {
            for (TriggerKey key : scheduler.getTriggerKeys(GroupMatcher.triggerGroupEquals(group))) {
                OperableTrigger trigger = (OperableTrigger) scheduler.getTrigger(key);
                Calendar calendar = trigger.getCalendarName() == null ? null : scheduler.getCalendar(trigger.getCalendarName());
                List<Long> found = new ArrayList<>();
                while (found.size() < FIRES && trigger.getNextFireTime() != null) {
                    found.add(trigger.getNextFireTime().getTime());
                    trigger.triggered(calendar);
                }
                fires.put(key.toString(), found);
            }
        }
    }
}
