// The log of a run. Whatever a job prints is text: textContent only, ANSI colours become classes.
import {words} from './times.js';

const CHUNK = 200; // lines that share one content-visibility box
const MOST = 20000; // lines kept in the page; the raw log has them all

const {language} = document.body.dataset;
const box = document.querySelector('[data-log]');
const view = box.querySelector('.log-view');
const counter = document.querySelector('[data-log-count]');
const followButton = box.querySelector('[data-follow]');
const time = new Intl.DateTimeFormat(language, {
  hour: '2-digit', minute: '2-digit', second: '2-digit', fractionalSecondDigits: 3, hourCycle: 'h23',
});
const LETTER = {debug: 'D', info: 'I', warning: 'W', error: 'E'};

let count = 0;
let chunk = null;
let pending = [];
let frame = 0;
let following = true;
let levels = [];
let wanted = '';
let source = null;
let resumeAfter = '';
let ended = false;

// --- one line ---

function element(name, className, text) {
  const made = document.createElement(name);
  made.className = className;
  made.textContent = text;
  return made;
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
  paintText(text, x);
  line.append(number, moment, element('span', 'level', LETTER[l] ?? 'I'), text);
  line.hidden = isHidden(line);
  return line;
}

function isHidden(line) {
  if (levels.length && !levels.includes(line.dataset.level)) return true;
  return wanted !== '' && !line.lastChild.textContent.toLowerCase().includes(wanted);
}

// --- many lines ---

function flush() {
  frame = 0;
  view.querySelector('.log-empty')?.remove();
  for (const entry of pending) {
    if (!chunk || chunk.childElementCount >= CHUNK) {
      chunk = document.createElement('div');
      chunk.className = 'log-chunk';
      view.append(chunk);
    }
    chunk.append(makeLine(entry));
    count += 1;
  }
  pending = [];
  while (count > MOST && view.firstElementChild !== chunk) {
    count -= view.firstElementChild.childElementCount;
    view.firstElementChild.remove();
  }
  counter.textContent = count.toLocaleString(language);
  if (following) scrollToEnd();
  if (location.hash.startsWith('#L')) markLine(location.hash.slice(1), true);
}

function say(text) {
  view.replaceChildren(element('p', 'log-empty', text));
  chunk = null;
}

function startOver() {
  pending = [];
  count = 0;
  resumeAfter = '';
  counter.textContent = '';
  say(words.waiting);
}

function open() {
  if (source || ended || document.hidden) return;
  const joiner = box.dataset.log.includes('?') ? '&' : '?';
  source = new EventSource(box.dataset.log + (resumeAfter ? `${joiner}after=${resumeAfter}` : ''));
  source.addEventListener('lines', (event) => {
    resumeAfter = event.lastEventId;
    pending.push(...JSON.parse(event.data));
    frame ||= requestAnimationFrame(flush);
  });
  source.addEventListener('attempt', startOver);
  source.addEventListener('end', () => {
    ended = true;
    close();
    if (!count && !pending.length) say(words.no_log);
  });
}

function close() {
  source?.close();
  source = null;
}

// A hidden tab holds no connection; it goes on after the last line that it has.
document.addEventListener('visibilitychange', () => (document.hidden ? close() : open()));
addEventListener('pagehide', close);
addEventListener('pageshow', open);

// --- following, finding, marking ---

// Boxes that were never shown have an assumed height: the end moves when they are drawn.
function scrollToEnd(again = 3) {
  view.scrollTop = view.scrollHeight;
  if (again) requestAnimationFrame(() => { if (following) scrollToEnd(again - 1); });
}

function setFollowing(value) {
  following = value;
  followButton.setAttribute('aria-pressed', value);
  followButton.classList.toggle('primary', value);
  if (value) scrollToEnd();
}
followButton.addEventListener('click', () => setFollowing(!following));
view.addEventListener('wheel', (event) => { if (event.deltaY < 0) setFollowing(false); }, {passive: true});
view.addEventListener('keydown', (event) => {
  if (['ArrowUp', 'PageUp', 'Home'].includes(event.key)) setFollowing(false);
});
view.addEventListener('touchmove', () => setFollowing(false), {passive: true});
view.addEventListener('scroll', () => {
  if (!following && view.scrollTop + view.clientHeight > view.scrollHeight - 4) setFollowing(true);
}, {passive: true});

function filter() {
  for (const line of view.querySelectorAll('.log-line')) line.hidden = isHidden(line);
}
box.querySelector('[data-find]').addEventListener('input', (event) => {
  wanted = event.target.value.toLowerCase();
  filter();
});
const levelButtons = document.querySelectorAll('[data-level]:is(button)');
for (const button of levelButtons) {
  button.addEventListener('click', () => {
    levels = button.dataset.level ? button.dataset.level.split(' ') : [];
    for (const other of levelButtons) other.setAttribute('aria-pressed', other === button);
    filter();
  });
}
for (const button of box.querySelectorAll('[data-toggle]')) {
  button.addEventListener('click', () => {
    const on = view.classList.toggle(button.dataset.toggle);
    button.setAttribute('aria-pressed', 'inverse' in button.dataset ? !on : on);
  });
}

function markLine(id, scroll) {
  const line = document.getElementById(id);
  if (!line?.classList.contains('log-line') || line.classList.contains('marked')) return;
  view.querySelector('.marked')?.classList.remove('marked');
  line.classList.add('marked');
  if (scroll) line.scrollIntoView({block: 'center'});
}
view.addEventListener('click', (event) => {
  const number = event.target.closest('.line-number');
  if (!number) return;
  event.preventDefault();
  setFollowing(false);
  history.replaceState(null, '', number.getAttribute('href'));
  markLine(number.parentElement.id, false);
});

setFollowing(!location.hash.startsWith('#L'));
say(words.waiting);
open();
