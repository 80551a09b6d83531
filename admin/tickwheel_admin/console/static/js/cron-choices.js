// Cron expressions as a few choices, and back: the rules of the builder, without a page.
//
// A choice is {pattern, …}:
//   minutes {every}, hours {every, minute}, daily {times}, weekly {times, weekdays},
//   monthly {times, on, day, nth, weekday}, yearly {times, month, day}
// Times are "09:00" texts, weekdays 1 (Monday) to 7; `on` is day, last, last-working, nearest or nth,
// and `nth` is "1" to "5" or "last".

export const MINUTES = [1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30]; // an hour is a whole number of these
export const HOURS = [1, 2, 3, 4, 6, 8, 12];

const NAMES = ['SUN', 'MON', 'TUE', 'WED', 'THU', 'FRI', 'SAT', 'SUN'];
const MONTHS = ['JAN', 'FEB', 'MAR', 'APR', 'MAY', 'JUN', 'JUL', 'AUG', 'SEP', 'OCT', 'NOV', 'DEC'];
const LONGEST = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
const MACROS = {
  '@hourly': '0 * * * *',
  '@daily': '0 0 * * *',
  '@midnight': '0 0 * * *',
  '@weekly': '0 0 * * 0',
  '@monthly': '0 0 1 * *',
  '@yearly': '0 0 1 1 *',
  '@annually': '0 0 1 1 *',
};
const MOST_TIMES = 24;

const unique = (numbers) => [...new Set(numbers)].sort((a, b) => a - b);
const range = (first, last) => Array.from({length: last - first + 1}, (_, index) => first + index);
const two = (number) => String(number).padStart(2, '0');

// --- writing -------------------------------------------------------------------------------------

/** {expression, note}, or {problem}: times, times-differ, weekdays, day or minute. The note is
 * "elsewhere" when other programs' cron may not know the expression. */
export function write(choice, dialect) {
  const line = lineOf(dialect);
  switch (choice.pattern) {
    case 'minutes':
      return line({minute: choice.every === 1 ? '*' : `*/${choice.every}`, hour: '*'});
    case 'hours':
      if (!(choice.minute >= 0 && choice.minute <= 59)) return {problem: 'minute'};
      return line({minute: choice.minute, hour: choice.every === 1 ? '*' : `*/${choice.every}`});
  }
  const clock = clockOf(choice.times);
  if (clock.problem) return clock;
  switch (choice.pattern) {
    case 'daily':
      return line(clock);
    case 'weekly':
      if (!choice.weekdays.length) return {problem: 'weekdays'};
      return line({...clock, weekday: weekdaysText(choice.weekdays, dialect)});
    case 'monthly':
      return monthly(choice, clock, dialect);
    case 'yearly':
      if (!(choice.day >= 1 && choice.day <= LONGEST[choice.month - 1])) return {problem: 'day'};
      return line({...clock, day: choice.day, month: choice.month});
  }
  return {problem: 'pattern'};
}

function lineOf(dialect) {
  return ({minute, hour, day = '*', month = '*', weekday = '*'}) => {
    const fields = [minute, hour, day, month, weekday];
    if (dialect === 'quartz') fields[weekday === '*' ? 4 : 2] = '?';
    return {expression: (dialect === 'unix' ? fields : [0, ...fields]).join(' ')};
  };
}

function monthly(choice, clock, dialect) {
  const line = lineOf(dialect);
  if ((choice.on === 'day' || choice.on === 'nearest') && !(choice.day >= 1 && choice.day <= 31)) {
    return {problem: 'day'};
  }
  if (choice.on === 'day') return line({...clock, day: choice.day});
  const note = dialect === 'unix' ? 'elsewhere' : undefined;
  if (choice.on === 'last') return {...line({...clock, day: 'L'}), note};
  if (choice.on === 'last-working') return {...line({...clock, day: 'LW'}), note};
  if (choice.on === 'nearest') return {...line({...clock, day: `${choice.day}W`}), note};
  const end = choice.nth === 'last' ? 'L' : `#${choice.nth}`;
  return {...line({...clock, weekday: weekdayText(choice.weekday, dialect) + end}), note};
}

const weekdayText = (day, dialect) => (dialect === 'unix' ? String(day % 7) : NAMES[day]);

/** One expression fires at each of its hours at each of its minutes. */
function clockOf(times) {
  const found = times.map((time) => /^([01]?\d|2[0-3]):([0-5]\d)$/.exec(time));
  if (!found.length || found.includes(null)) return {problem: 'times'};
  const hours = unique(found.map((match) => Number(match[1])));
  const minutes = unique(found.map((match) => Number(match[2])));
  const different = new Set(found.map((match) => Number(match[1]) * 60 + Number(match[2])));
  if (different.size !== hours.length * minutes.length) return {problem: 'times-differ'};
  return {minute: minutes.join(','), hour: hours.join(',')};
}

function weekdaysText(weekdays, dialect) {
  const days = unique(weekdays);
  const text = (day) => weekdayText(day, dialect);
  const isRange = days.length > 2 && days.at(-1) - days[0] === days.length - 1;
  if (isRange && days.at(-1) !== 7) return `${text(days[0])}-${text(days.at(-1))}`;
  return days.map(text).join(',');
}

// --- reading -------------------------------------------------------------------------------------

/** The choice that an expression says, or null when it says more than choices can. */
export function read(expression, dialect) {
  const plain = dialect === 'quartz' ? undefined : MACROS[expression.trim().toLowerCase()];
  const fields = (plain ?? expression).trim().toUpperCase().split(/\s+/);
  if (dialect !== 'unix' && !plain) {
    if (fields.shift() !== '0') return null;
    if (dialect === 'quartz' && fields.length === 6 && fields[5] === '*') fields.pop();
  }
  if (fields.length !== 5) return null;
  const [minute, hour, day, month, weekday] = fields;
  const anyDay = isAny(day);
  const anyWeekday = isAny(weekday);
  if (anyDay && anyWeekday && month === '*') {
    const rhythm = readRhythm(minute, hour);
    if (rhythm) return rhythm;
  }
  const times = readTimes(minute, hour);
  if (!times || !(anyDay || anyWeekday)) return null;
  if (anyDay && anyWeekday) return month === '*' ? {pattern: 'daily', times} : null;
  if (anyWeekday && month !== '*') return readYearly(times, day, month);
  if (month !== '*') return null;
  return anyWeekday ? readDay(times, day) : readWeekday(times, weekday, dialect);
}

const isAny = (field) => field === '*' || field === '?';

function readRhythm(minute, hour) {
  const everyMinute = step(minute);
  if (hour === '*' && MINUTES.includes(everyMinute)) return {pattern: 'minutes', every: everyMinute};
  const [at, ...more] = numbers(minute, 0, 59) ?? [];
  const everyHour = step(hour);
  if (at === undefined || more.length || !HOURS.includes(everyHour)) return null;
  return {pattern: 'hours', every: everyHour, minute: at};
}

// The n of a step from the beginning of the field; 1 of a star.
function step(field) {
  if (field === '*') return 1;
  return Number(/^(?:\*|0)\/(\d{1,2})$/.exec(field)?.[1] ?? 0);
}

function numbers(field, low, high) {
  if (!/^\d{1,2}(,\d{1,2})*$/.test(field)) return null;
  const found = unique(field.split(',').map(Number));
  return found.every((number) => number >= low && number <= high) ? found : null;
}

function readTimes(minute, hour) {
  const minutes = numbers(minute, 0, 59);
  const hours = numbers(hour, 0, 23);
  if (!minutes || !hours || minutes.length * hours.length > MOST_TIMES) return null;
  return hours.flatMap((h) => minutes.map((m) => `${two(h)}:${two(m)}`));
}

function readYearly(times, day, monthText) {
  const [dayNumber, ...moreDays] = numbers(day, 1, 31) ?? [];
  const named = MONTHS.indexOf(monthText) + 1;
  const [month, ...moreMonths] = named ? [named] : numbers(monthText, 1, 12) ?? [];
  if (!dayNumber || !month || moreDays.length || moreMonths.length) return null;
  return {pattern: 'yearly', times, month, day: dayNumber};
}

function readDay(times, day) {
  const choice = {pattern: 'monthly', times};
  if (day === 'L') return {...choice, on: 'last'};
  if (day === 'LW') return {...choice, on: 'last-working'};
  const [, digits, nearest] = /^(\d{1,2})(W?)$/.exec(day) ?? [];
  const number = Number(digits);
  if (!(number >= 1 && number <= 31)) return null;
  return {...choice, on: nearest ? 'nearest' : 'day', day: number};
}

function readWeekday(times, field, dialect) {
  const nth = /^([A-Z]{3}|\d)(?:#([1-5])|L)$/.exec(field);
  if (nth) {
    const weekday = dayNumber(nth[1], dialect);
    return weekday ? {pattern: 'monthly', times, on: 'nth', nth: nth[2] ?? 'last', weekday} : null;
  }
  const found = [];
  for (const part of field.split(',')) {
    const [first, last = first, ...more] = part.split('-').map((text) => dayNumber(text, dialect));
    if (!first || !last || more.length || last < first) return null;
    found.push(...range(first, last));
  }
  return {pattern: 'weekly', times, weekdays: unique(found)};
}

/** 1 (Monday) to 7; quartz counts from Sunday, 1. */
function dayNumber(text, dialect) {
  const named = NAMES.indexOf(text);
  if (named >= 0) return named || 7;
  if (!/^\d$/.test(text)) return null;
  const number = Number(text);
  if (dialect !== 'quartz') return number <= 7 ? number || 7 : null;
  return number >= 1 && number <= 7 ? (number === 1 ? 7 : number - 1) : null;
}
