// The builder of a cron card: its choices write the expression, and an expression sets its choices.
import {read, write} from './cron-choices.js';

const part = (builder, name) => builder.querySelector(`[data-part="${name}"]`);
const cardOf = (element) => element.closest('.trigger-card');
const expressionOf = (card) => card.querySelector('[data-expression]');
const dialectOf = (card) => card.querySelector('select[name$=".dialect"]');

function choiceOf(builder) {
  const text = (name) => part(builder, name).value.trim();
  const pattern = text('pattern');
  return {
    pattern,
    every: Number(text(pattern === 'hours' ? 'hours' : 'minutes')),
    minute: /^\d+$/.test(text('minute')) ? Number(text('minute')) : NaN,
    times: text('times').split(/[\s,，、;]+/).filter(Boolean).map((time) => time.replace('：', ':')),
    weekdays: [...builder.querySelectorAll('[data-part="weekdays"]:checked')].map((box) => Number(box.value)),
    on: text('on'),
    day: Number(text('day')),
    nth: text('nth'),
    weekday: Number(text('weekday')),
    month: Number(text('month')),
  };
}

function show(builder, choice) {
  const set = (name, value) => {
    if (value !== undefined) part(builder, name).value = value;
  };
  set('pattern', choice.pattern);
  set(choice.pattern === 'hours' ? 'hours' : 'minutes', choice.every);
  set('times', choice.times?.join(', '));
  for (const name of ['minute', 'on', 'day', 'nth', 'weekday', 'month']) set(name, choice[name]);
  if (!choice.weekdays) return;
  for (const box of builder.querySelectorAll('[data-part="weekdays"]')) {
    box.checked = choice.weekdays.includes(Number(box.value));
  }
}

function say(builder, code) {
  const words = JSON.parse(builder.dataset.words);
  const note = builder.querySelector('.builder-note');
  if (note.textContent !== (words[code] ?? '')) note.textContent = words[code] ?? '';
}

/** Show what the expression says, where choices can say it. */
function follow(builder) {
  const card = cardOf(builder);
  const expression = expressionOf(card).value.trim();
  const choice = read(expression, dialectOf(card).value);
  if (choice) show(builder, choice);
  else if (expression) part(builder, 'pattern').value = '';
  say(builder, expression && !choice ? 'more' : '');
}

let putting = false;

function put(card, expression) {
  const field = expressionOf(card);
  if (field.value === expression) return;
  field.value = expression;
  putting = true; // the choices are as somebody is just typing them
  field.dispatchEvent(new Event('input', {bubbles: true})); // so that the preview follows
  putting = false;
}

function build(builder) {
  const card = cardOf(builder);
  const choice = choiceOf(builder);
  if (!choice.pattern) return say(builder, expressionOf(card).value.trim() ? 'more' : '');
  const {expression, problem, note} = write(choice, dialectOf(card).value);
  say(builder, problem ?? note);
  if (expression) put(card, expression);
}

for (const event of ['input', 'change']) {
  document.addEventListener(event, ({target}) => {
    const builder = target.closest?.('[data-builder]');
    if (builder) build(builder);
    else if (!putting && target.matches?.('[data-expression]')) follow(cardOf(target).querySelector('[data-builder]'));
  });
}

document.addEventListener('toggle', ({target}) => {
  if (target.matches?.('[data-builder]') && target.open) follow(target);
}, true);

// Another dialect reads the same text differently: what choices can say is written anew for it.
document.addEventListener('focusin', ({target}) => {
  if (target.matches?.('select[name$=".dialect"]')) target.dataset.was = target.value;
});
document.addEventListener('change', ({target}) => {
  if (!target.matches?.('select[name$=".dialect"]')) return;
  const card = cardOf(target);
  const {was} = target.dataset;
  target.dataset.was = target.value;
  const builder = card.querySelector('[data-builder]');
  if (builder.open && part(builder, 'pattern').value) return build(builder);
  const said = was && read(expressionOf(card).value, was);
  const {expression} = said ? write(said, target.value) : {};
  if (expression) put(card, expression);
  follow(builder);
}, true);

// A form that came back has builders with nothing chosen.
document.addEventListener('htmx:afterSettle', (event) => {
  if (event.target.id !== 'job-form') return;
  for (const builder of document.querySelectorAll('[data-builder][open]')) follow(builder);
});
