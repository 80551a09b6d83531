// The job form: rows of jobs that run afterwards, labels of nodes, and cards of triggers that come back
// from the server.
let added = 0;

document.addEventListener('click', (event) => {
  const add = event.target.closest('[data-add-row]');
  if (add) {
    const name = add.dataset.addRow;
    const row = document.getElementById(`${name}-row`).content.firstElementChild.cloneNode(true);
    added += 1;
    row.querySelector('input').id += `-${added}`;
    document.getElementById(`${name}-rows`).append(row);
    htmx.process(row);
    row.querySelector('input').focus();
    return;
  }
  const remove = event.target.closest('[data-remove-row]');
  if (!remove) return;
  const row = remove.closest('li');
  const rest = [...row.parentElement.children].filter((other) => other !== row && other.checkVisibility());
  if (rest.length) {
    row.remove();
    rest.at(-1).querySelector('input').focus();
  } else {
    row.querySelector('input').value = ''; // the last one stays, to be typed into again
    row.querySelector('input').focus();
  }
});

// A label of a live node joins the expression that is there.
document.addEventListener('click', (event) => {
  const chip = event.target.closest('[data-add-term]');
  if (!chip) return;
  const field = document.getElementById(chip.dataset.addTerm);
  const typed = field.value.trim().replace(/,$/, '');
  field.value = typed ? `${typed}, ${chip.dataset.value}` : chip.dataset.value;
  field.dispatchEvent(new Event('input', {bubbles: true}));
  field.focus();
});

// Parameters that are typed while those of another handler are on their way stay as they are typed.
const typed = (box) => JSON.stringify(
  [...box.querySelectorAll('input, select, textarea')].map(({name, value, checked}) => [name, value, checked]),
);
// The form comes with its parameters: those that are on their way would be laid over them.
function dropParameters() {
  const box = document.getElementById('parameters-field');
  if (box) htmx.trigger(box, 'htmx:abort');
}
let asked = '';
let again = 0;
document.body.addEventListener('htmx:beforeRequest', ({target}) => {
  if (target.id === 'parameters-field') asked = typed(target);
  if (target.matches('.form-page')) dropParameters();
});
document.body.addEventListener('htmx:beforeSwap', (event) => {
  if (event.target.id !== 'parameters-field' || typed(event.target) === asked) return;
  event.detail.shouldSwap = false;
  clearTimeout(again);
  again = setTimeout(() => htmx.trigger(event.target, 'again'), 400);
});

// Whoever looks at another kind of job and comes back finds what was typed there.
const typedBefore = new Map();
const textsIn = (box) => [...box.querySelectorAll('input[type="text"], textarea')].filter(({name}) => name.startsWith('param.'));
document.body.addEventListener('htmx:beforeSwap', ({target}) => {
  if (target.id !== 'parameters-field') return;
  for (const {name, value} of textsIn(target)) if (value) typedBefore.set(name, value);
});
document.body.addEventListener('htmx:afterSwap', ({target}) => {
  if (target.id !== 'parameters-field') return;
  for (const field of textsIn(target)) if (!field.value) field.value = typedBefore.get(field.name) ?? '';
});

// A preview does not shrink: what lies below it would move away under a click.
document.body.addEventListener('htmx:beforeSwap', ({target}) => {
  if (target.matches('.when-preview')) target.style.minHeight = `${target.offsetHeight}px`;
});

// A card that was just added is where its reader goes on.
document.body.addEventListener('htmx:afterSettle', (event) => {
  if (event.target.id !== 'job-form') return;
  const card = document.querySelector('[data-new]');
  if (!card) return;
  card.querySelector('.kinds :checked').focus();
  card.scrollIntoView({block: 'nearest'});
});

// A part that somebody unfolded stays so when the form comes back.
let unfolded = [];
document.body.addEventListener('htmx:beforeSwap', ({target}) => {
  if (target.id !== 'job-form') return;
  unfolded = [...target.querySelectorAll('details[id][open]')].map(({id}) => id);
  dropParameters();
  clearTimeout(again); // the form comes with its parameters, and with what is wrong with them
  // Lines about parts that may be gone when they come: the other view has none.
  const summaries = document.getElementById('form-summaries');
  if (summaries) htmx.trigger(summaries, 'htmx:abort');
});
document.body.addEventListener('htmx:afterSwap', ({target}) => {
  if (target.id !== 'job-form') return;
  for (const id of unfolded) document.getElementById(id)?.setAttribute('open', '');
});

// What is typed and not saved is not left without a question.
let unsaved = false;
document.addEventListener('input', ({target}) => {
  if (target.closest('[data-unsaved]')) unsaved = true;
});
document.addEventListener('submit', ({target}) => {
  if (target.matches('[data-unsaved]') && !target.hasAttribute('hx-post')) unsaved = false;
});
document.body.addEventListener('htmx:beforeOnLoad', ({detail}) => {
  if (detail.xhr.getResponseHeader('HX-Redirect')) unsaved = false;
});
document.addEventListener('click', ({target}) => {
  if (target.closest('[data-leaves]')) unsaved = false;
});
addEventListener('beforeunload', (event) => {
  if (unsaved) event.preventDefault();
});

// From a problem to its line in the text.
document.addEventListener('click', ({target}) => {
  const button = target.closest('[data-goto-line]');
  if (!button) return;
  const field = document.getElementById('f-yaml');
  if (field.hidden) return; // js/workflow-editor.js has the text
  const lines = field.value.split('\n');
  const before = lines.slice(0, Number(button.dataset.gotoLine) - 1);
  const start = before.reduce((sum, line) => sum + line.length + 1, 0);
  field.focus();
  field.setSelectionRange(start, start + (lines[before.length] ?? '').length);
  field.scrollTop = Math.max(before.length - 5, 0) * parseFloat(getComputedStyle(field).lineHeight);
});
