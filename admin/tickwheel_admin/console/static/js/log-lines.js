// One line of a log as elements. Whatever a job prints is text: textContent only, ANSI colours
// become classes.
import {parts} from './ansi.js';
import {readerZone, words} from './times.js';

const LETTER = {debug: 'D', info: 'I', warning: 'W', error: 'E'};
const time = new Intl.DateTimeFormat(document.body.dataset.language, {
  hour: '2-digit', minute: '2-digit', second: '2-digit', fractionalSecondDigits: 3, hourCycle: 'h23', timeZone: readerZone,
});

export function element(name, className, text) {
  const made = document.createElement(name);
  made.className = className;
  made.textContent = text;
  return made;
}

export function makeLine({n, t, l, x}) {
  const line = document.createElement('div');
  line.className = `log-line ${l}`;
  line.id = `L${n}`;
  line.dataset.level = l;
  const number = element('a', 'line-number', n);
  number.href = `#L${n}`;
  number.tabIndex = -1;
  number.setAttribute('aria-label', words.line_link.replace('{n}', n));
  const moment = element('time', '', time.format(t));
  moment.dateTime = new Date(t).toISOString();
  const text = document.createElement('span');
  text.className = 'text';
  for (const part of parts(x)) text.append(element('span', part.classes, part.text));
  line.append(number, moment, element('span', 'level', LETTER[l] ?? 'I'), text);
  return line;
}

export const numberOf = (line) => Number(line.id.slice(1));
