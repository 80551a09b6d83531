// The command palette and the keyboard.
import {togglePause} from './live.js';

const $ = (selector, root = document) => root.querySelector(selector);
const palette = $('#palette');
const input = palette && $('input', palette);
const list = $('#palette-list');
const SEARCH_AFTER_MS = 120;
const CHORD_MS = 900;

let chosen = 0;
let timer = 0;
let latest = Promise.resolve();

const choices = () => [...list.children];

function choose(index) {
  const all = choices();
  chosen = Math.max(0, Math.min(all.length - 1, index));
  all.forEach((choice, position) => {
    choice.id = `palette-${position}`;
    choice.setAttribute('aria-selected', position === chosen);
  });
  if (all.length) input.setAttribute('aria-activedescendant', `palette-${chosen}`);
  else input.removeAttribute('aria-activedescendant');
  all[chosen]?.scrollIntoView({block: 'nearest'});
  $('.palette-none', palette).hidden = all.length > 0;
}

function item(template, href, name, more) {
  const made = $(template).content.firstElementChild.cloneNode(true);
  const [first, second] = made.querySelectorAll('span');
  made.dataset.href = href;
  first.textContent = name;
  if (more) second.textContent = more;
  return made;
}

function pages(query) {
  const text = (page) => page.children[1].textContent.toLowerCase();
  return [...$('#palette-pages').content.children]
    .filter((page) => text(page).includes(query))
    .map((page) => page.cloneNode(true));
}

async function search() {
  const query = input.value.trim();
  const number = /^#?(\d{1,15})$/.exec(query)?.[1];
  const found = number ? [item('#palette-run', `/runs/${number}`, `#${number}`)] : [];
  found.push(...pages(query.toLowerCase()));
  list.replaceChildren(...found);
  choose(0);
  const response = await fetch(`/palette.json?q=${encodeURIComponent(query)}`);
  if (!response.ok || query !== input.value.trim()) return;
  const jobs = (await response.json()).map((job) => item('#palette-job', job.href, job.name, job.executor));
  // With a query, jobs are more likely meant than pages.
  list.replaceChildren(...(query && !number ? [...jobs, ...found] : [...found, ...jobs]));
  choose(0);
}

function open() {
  input.value = '';
  palette.showModal();
  latest = search();
}

function go() {
  const href = choices()[chosen]?.dataset.href;
  if (href) location.href = href;
}

if (palette) {
  input.addEventListener('input', () => {
    clearTimeout(timer);
    latest = new Promise((done) => {
      timer = setTimeout(() => search().then(done), SEARCH_AFTER_MS);
    });
  });
  list.addEventListener('click', (event) => {
    const href = event.target.closest('li')?.dataset.href;
    if (href) location.href = href;
  });
  palette.addEventListener('keydown', (event) => {
    if (event.isComposing) return;
    if (event.key === 'ArrowDown') choose(chosen + 1);
    else if (event.key === 'ArrowUp') choose(chosen - 1);
    else if (event.key === 'Enter') latest.then(go); // also when the answer is still on its way
    else return;
    event.preventDefault();
  });
  palette.addEventListener('click', (event) => { if (event.target === palette) palette.close(); });
  document.addEventListener('click', (event) => {
    if (event.target.closest('[data-open-palette]')) open();
  });
}

// --- rows of the list: j and k; the current one is painted again after every live update ---

let current = null;
const rows = () => [...document.querySelectorAll('table[data-list] tbody tr')];

function paint() {
  for (const row of rows()) row.classList.toggle('current', row.id === current);
}
document.addEventListener('htmx:afterSettle', paint);

function move(step) {
  const all = rows();
  if (!all.length) return;
  const position = all.findIndex((row) => row.id === current);
  const next = all[Math.max(0, Math.min(all.length - 1, position + step))];
  current = next.id;
  paint();
  next.scrollIntoView({block: 'nearest'});
}

// --- keys ---

// After "g": the pages that the reader may use, as the frame lists them.
const place = (key) => /^[a-z]$/.test(key) && $(`[data-go="${key}"]`)?.getAttribute('href');
const typing = 'input, textarea, select, dialog, [contenteditable], [role=menu]';
let chordAt = 0;

document.addEventListener('keydown', (event) => {
  if (!palette) return;
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k') {
    event.preventDefault();
    return palette.open ? palette.close() : open();
  }
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (event.target.closest?.(typing)) return;
  if (Date.now() - chordAt < CHORD_MS && place(event.key)) {
    chordAt = 0;
    location.href = place(event.key);
    return;
  }
  switch (event.key) {
    case 'g': chordAt = Date.now(); break;
    case '/': event.preventDefault(); $('[data-filter]')?.focus(); break;
    case '?': $('#shortcuts').showModal(); break;
    case 'l': togglePause(); break;
    case 'n': if ($('#palette-pages').content.querySelector('[data-href="/jobs/new"]')) location.href = '/jobs/new'; break;
    case 'j': move(1); break;
    case 'k': move(-1); break;
    case 'Enter':
      if (current && event.target === document.body) $('[data-open]', document.getElementById(current))?.click();
      break;
    default:
  }
});
