// The command palette and the keyboard.
import {isLoading} from './loading.js';
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

function item(template, {href = '', name, more = '', icon = ''}) {
  const made = $(template).content.firstElementChild.cloneNode(true);
  const [first, second] = made.querySelectorAll('span');
  if (href) made.dataset.href = href;
  first.textContent = name;
  if (more) second.textContent = more;
  if (icon) {
    const use = $('use', made);
    use.setAttribute('href', use.getAttribute('href').replace(/#.*/, `#${icon}`));
  }
  return made;
}

const name = (choice) => choice.children[1].textContent.trim().toLowerCase();
const more = (choice) => choice.children[2]?.textContent.trim().toLowerCase() ?? '';

// Addresses and values are English, so that English words find pages and choices in any language.
const finds = (choice, query) =>
  `${name(choice)} ${choice.dataset.words ?? ''} ${choice.dataset.href ?? ''}`.toLowerCase().includes(query);

function pages(query) {
  return [...$('#palette-pages').content.children]
    .filter((page) => finds(page, query))
    .map((page) => page.cloneNode(true));
}

// --- what can be done on this page: its own buttons, so that nothing is offered that is not there ---

const presses = new WeakMap(); // what each such choice presses

function action(button, label, note, words = '') {
  const made = item('#palette-action', {name: label, more: note});
  made.dataset.words = words;
  presses.set(made, button);
  return made;
}

const isThere = (button) => !button.disabled && button.checkVisibility?.() !== false;

function actions(query) {
  if (!query) return [];
  const found = [];
  for (const button of document.querySelectorAll('main .page-head :is(a, button):is(.button, .switch)')) {
    const label = button.dataset.does ?? button.getAttribute('aria-label') ?? button.textContent.trim();
    if (!label || !isThere(button)) continue;
    const words = button.closest('form')?.getAttribute('action') ?? button.getAttribute('href') ?? '';
    found.push(action(button, label, $('#palette-action').dataset.here, words));
  }
  for (const button of document.querySelectorAll('.menu [role=menuitemradio][aria-checked=false]')) {
    found.push(action(button, button.textContent.trim(), button.closest('.menu').getAttribute('aria-label'), `${button.name} ${button.value}`));
  }
  for (const button of document.querySelectorAll('[data-palette]')) {
    found.push(action(button, button.dataset.palette, '', button.dataset.words));
  }
  return found.filter((choice) => finds(choice, query));
}

// The likeliest first: what is called so, then what is called so elsewhere, then what has it in it.
function rank(choice, query) {
  const early = name(choice).startsWith(query);
  if (choice.dataset.kind === 'word') {
    const elsewhere = more(choice).startsWith(query) && (query.length > 2 || /[^\x00-\x7f]/.test(query));
    return elsewhere ? 2 : 5;
  }
  if (choice.dataset.kind === 'found') return early ? 0 : 3;
  return early ? 1 : 4;
}

async function search() {
  const query = input.value.trim();
  const text = query.toLowerCase();
  const number = /^#?(\d{1,15})$/.exec(query)?.[1];
  const run = number ? [item('#palette-run', {href: `/runs/${number}`, name: `#${number}`})] : [];
  const local = [...pages(text), ...actions(text)];
  list.replaceChildren(...run, ...local);
  choose(0);
  const response = await fetch(`/palette.json?q=${encodeURIComponent(query)}`);
  if (!response.ok || query !== input.value.trim()) return;
  const known = new Set(local.map((choice) => `${choice.dataset.href} ${name(choice)}`));
  const found = (await response.json()).map((each) => {
    const made = item('#palette-job', each);
    made.dataset.kind = each.kind;
    return made;
  }).filter((choice) => !known.has(`${choice.dataset.href} ${name(choice)}`));
  const all = [...local, ...found];
  if (query) all.sort((one, other) => rank(one, text) - rank(other, text));
  list.replaceChildren(...run, ...all);
  choose(0);
}

function open() {
  input.value = '';
  palette.showModal();
  latest = search();
}

function follow(choice) {
  const button = choice && presses.get(choice);
  if (button) {
    palette.close();
    button.click();
  } else if (choice?.dataset.href) {
    const here = location.pathname + location.search;
    if (choice.dataset.href.startsWith(`${here}#`)) palette.close();
    location.href = choice.dataset.href;
  }
}

const go = () => follow(choices()[chosen]);

if (palette) {
  input.addEventListener('input', () => {
    clearTimeout(timer);
    latest = new Promise((done) => {
      timer = setTimeout(() => search().then(done), SEARCH_AFTER_MS);
    });
  });
  list.addEventListener('click', (event) => {
    follow(event.target.closest('li'));
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
  if (isLoading()) return;
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
      if (current && !isLoading() && event.target === document.body) $('[data-open]', document.getElementById(current))?.click();
      break;
    default:
  }
});
