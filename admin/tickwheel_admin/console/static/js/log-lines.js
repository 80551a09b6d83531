// One line of a log as elements. Whatever a job prints is text: textContent only, ANSI colours
// become classes.
import {words} from './times.js';

const LETTER = {debug: 'D', info: 'I', warning: 'W', error: 'E'};
const time = new Intl.DateTimeFormat(document.body.dataset.language, {
  hour: '2-digit', minute: '2-digit', second: '2-digit', fractionalSecondDigits: 3, hourCycle: 'h23',
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
  paintText(text, x);
  line.append(number, moment, element('span', 'level', LETTER[l] ?? 'I'), text);
  return line;
}

export const numberOf = (line) => Number(line.id.slice(1));

function paintText(target, text) {
  const active = new Set();
  for (const part of text.split(/(\x1b\[[\d;]*[A-Za-z])/)) {
    const codes = /^\x1b\[([\d;]*)m$/.exec(part);
    if (codes) applyCodes(active, codes[1].split(';').map(Number));
    else if (part && !part.startsWith('\x1b[')) {
      const clean = part.replace(/[\x00-\x08\x0b-\x1f]/g, '');
      target.append(element('span', [...active].map((code) => `ansi-${code}`).join(' '), clean));
    }
  }
}

function applyCodes(active, codes) {
  for (const code of codes) {
    if (!code) active.clear();
    else if (code === 22) { active.delete(1); active.delete(2); }
    else if (code === 39) { for (const other of [...active]) if (other >= 30) active.delete(other); }
    else if (code >= 1 && code <= 4) active.add(code);
    else if ((code >= 30 && code < 38) || (code >= 90 && code < 98)) {
      for (const other of [...active]) if (other >= 30) active.delete(other);
      active.add(code);
    }
  }
}
