// Rows of the job form that can be added and removed: the jobs that run afterwards.
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
