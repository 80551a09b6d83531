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
let asked = '';
document.body.addEventListener('htmx:beforeRequest', ({target}) => {
  if (target.id === 'parameters-field') asked = typed(target);
});
document.body.addEventListener('htmx:beforeSwap', (event) => {
  if (event.target.id !== 'parameters-field' || typed(event.target) === asked) return;
  event.detail.shouldSwap = false;
  htmx.trigger(event.target, 'again');
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
