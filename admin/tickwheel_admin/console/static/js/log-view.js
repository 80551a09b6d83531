// The lines in the page: a window of the log, which holds a bounded number of them wherever in the
// log it is.
// Whatever a job prints is text: textContent only, ANSI colours become classes.
import {parts} from './ansi.js';
import {readerZone, words} from './times.js';

const CHUNK = 200; // lines that share one content-visibility box
const MOST = 20000; // lines kept in the page; the raw log has them all
const LINE_PX = 20; // the height that a box not shown yet is taken to have, for each of its lines

const LETTER = {debug: 'D', info: 'I', warning: 'W', error: 'E'};
const time = new Intl.DateTimeFormat(document.body.dataset.language, {
  hour: '2-digit', minute: '2-digit', second: '2-digit', fractionalSecondDigits: 3, hourCycle: 'h23', timeZone: readerZone,
});

export const view = document.querySelector('.log-view');

let count = 0;

export const shown = () => count;
export const firstLine = () => view.querySelector('.log-line');
export const lastLine = () => [...(view.lastElementChild?.children ?? [])].at(-1);

export function clear(text) {
  count = 0;
  view.replaceChildren(element('p', 'log-empty', text));
}

export const isClear = () => count === 0;

// Lines behind those in the page; returns whether some had to go at the other end.
export function append(entries) {
  if (!entries.length) return false;
  view.querySelector('.log-empty')?.remove();
  let chunk = view.lastElementChild;
  for (const entry of entries) {
    if (!chunk || chunk.childElementCount >= CHUNK) {
      chunk = makeChunk(CHUNK);
      view.append(chunk);
    }
    chunk.append(makeLine(entry));
  }
  count += entries.length;
  let cut = false;
  while (count > MOST && view.firstElementChild !== view.lastElementChild) {
    count -= view.firstElementChild.childElementCount;
    view.firstElementChild.remove();
    cut = true;
  }
  return cut;
}

// Lines before those in the page, which stay where they are on the screen.
export function prepend(entries) {
  if (!entries.length) return false;
  view.querySelector('.log-empty')?.remove();
  const anchor = firstLine();
  const top = anchor?.getBoundingClientRect().top ?? 0;
  const made = document.createDocumentFragment();
  for (let end = entries.length; end > 0; end -= CHUNK) {
    const part = entries.slice(Math.max(end - CHUNK, 0), end);
    const chunk = makeChunk(part.length);
    chunk.append(...part.map(makeLine));
    made.prepend(chunk);
  }
  view.prepend(made);
  count += entries.length;
  // Browsers that hold the place themselves leave nothing to do.
  if (anchor) view.scrollTop += anchor.getBoundingClientRect().top - top;
  let cut = false;
  while (count > MOST && view.firstElementChild !== view.lastElementChild) {
    count -= view.lastElementChild.childElementCount;
    view.lastElementChild.remove();
    cut = true;
  }
  return cut;
}

function makeChunk(lines) {
  const chunk = document.createElement('div');
  chunk.className = 'log-chunk';
  chunk.style.containIntrinsicBlockSize = `auto ${lines * LINE_PX}px`;
  return chunk;
}

// Boxes that were never shown have an assumed height: the end moves when they are drawn.
export function scrollToEnd(isWanted, again = 3) {
  view.scrollTop = view.scrollHeight;
  if (again) requestAnimationFrame(() => { if (isWanted()) scrollToEnd(isWanted, again - 1); });
}

export function mark(number, scroll, again = 3) {
  const line = document.getElementById(`L${number}`);
  if (!line?.classList.contains('log-line')) return;
  view.querySelector('.marked')?.classList.remove('marked');
  line.classList.add('marked');
  if (!scroll) return;
  const place = line.getBoundingClientRect().top - view.getBoundingClientRect().top;
  view.scrollTop += place - view.clientHeight / 2;
  if (again) requestAnimationFrame(() => mark(number, true, again - 1));
}

export const numberIn = (line) => (line ? numberOf(line) : 0);

function element(name, className, text) {
  const made = document.createElement(name);
  made.className = className;
  made.textContent = text;
  return made;
}

function makeLine({n, t, l, x}) {
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

const numberOf = (line) => Number(line.id.slice(1));
